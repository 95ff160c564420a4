"""Calls the planner for a grid of one to three dimensions in C order (the last dimension is contiguous)."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield._native import Costs, Plan, PlanRequest, plans
from nearfield.base.errors import UsageError
from nearfield.plan.per_side import parse_per_side

MAX_DIMENSIONS = 3
MAX_RANKS_OR_CELLS = 10**9
# One value for all sides, or per dimension a value or (low, high).
Halo = int | Sequence[int | tuple[int, int]]
Periodic = bool | Sequence[bool | tuple[bool, bool]]


def find_plans(
    extents: Sequence[int],
    ranks: int,
    costs: Costs,
    *,
    ranks_per_node: int | None = None,
    halo: Halo = 1,
    periodic: Periodic = False,
    corners: bool = False,
    element_bytes: int = 8,
    dims: Sequence[int] | None = None,
) -> list[Plan]:
    """Returns a plan for each decomposition (split) and placement, the fastest first. If `ranks_per_node` is None, all
    ranks are on one node. `dims` is the number of ranks per dimension; the planner chooses numbers that are 0. Raises
    UsageError if no decomposition exists."""
    unused = MAX_DIMENSIONS - len(extents)
    if not 0 <= unused < MAX_DIMENSIONS:
        raise UsageError(f"a grid has 1, 2 or 3 dimensions, not {len(extents)}", "Write it as 256x256x256.")
    if dims is not None and len(dims) != len(extents):
        raise UsageError(f"{len(dims)} numbers of ranks for {len(extents)} dimensions", "Give one for each, 0: free.")
    if max(*extents, ranks, ranks_per_node or 1, element_bytes) > MAX_RANKS_OR_CELLS:
        raise UsageError("a number is too large for a plan", f"No number may exceed {MAX_RANKS_OR_CELLS}.")
    request = PlanRequest()
    request.dimensions = len(extents)
    request.extents = [1] * unused + list(extents)
    request.halo = [(0, 0)] * unused + list(parse_per_side("halo", halo, len(extents)))
    around = parse_per_side("periodic", periodic, len(extents))
    request.periodic = [(False, False)] * unused + [(bool(low), bool(high)) for low, high in around]
    request.corners = corners
    request.ranks, request.ranks_per_node = ranks, ranks_per_node or ranks
    request.element_bytes = element_bytes
    request.fixed_dims = [0] * unused + list(dims or [0] * len(extents))
    request.costs = costs
    try:
        return plans(request)
    except ValueError as error:
        raise UsageError(str(error), _remedy_for_request(request)) from error


def _remedy_for_request(request: PlanRequest) -> str:
    if any(request.fixed_dims):
        return f"The ranks along the dimensions must multiply to {request.ranks}, each with at least the halo's cells."
    return "Use fewer ranks, a larger grid or a narrower halo: a rank needs the cells that its neighbours read of it."
