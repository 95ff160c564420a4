"""Check for a decomposition of the grid whose faces take longer to exchange than those of another one (papers S1 and
S3)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield._native import Plan
from nearfield.advise.grid import Grid, derive_grids
from nearfield.advise.rule import LossSum, RuleSpec
from nearfield.advise.run import ObservedRun
from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.estimates import Estimate
from nearfield.notes import Evidence, Note, NoteRule
from nearfield.plan import CostModel, measured_model, splits
from nearfield.plan.words import split_text

CLEARLY = 1.2  # minimum ratio of a decomposition's time to the best one's for a note

RULE = NoteRule(
    "bad-split",
    "Another split of the grid exchanges its faces faster",
    "The split decides how many neighbours a rank has, how large faces are, and whether they are contiguous. Plans "
    "are worked out from the profile's times of messages, bytes and strides.",
    "S3, section 5, and S1, section 3.1",
)


def find_bad_splits(run: ObservedRun) -> Iterator[Note]:
    """Yields a note for each derived grid that `nearfield plan` would decompose otherwise."""
    known = measured_model(run.profile)
    known.costs.in_place = None  # these ranks send messages, and do not access each other's memory in place
    for grid in derive_grids(run):
        try:
            own, best = _own_and_best_plan(run, grid, known)
        except UsageError:
            continue  # too few cells for the number of ranks
        if own.time_ns < CLEARLY * best.time_ns:
            continue
        saved = own.time_ns - best.time_ns
        lost = LossSum()
        lost.add_calls(0, Estimate(saved, saved, saved), own.time_ns, grid.exchanges)
        site = max(grid.messages, key=lambda m: (m.found.bytes * m.found.messages, -m.site.place.line)).site
        names = [split_text(plan.dims, len(grid.dims)) for plan in (own, best)]
        cells = "x".join(map(str, grid.extents))
        again = own_command.line("plan", cells, "--ranks", len(run.ranks), "--messages", "--profile", run.profile.path)
        yield Note(
            RULE, site.place,
            f"bad split: {cells} cells are split {names[0]}; split {names[1]} would save "
            f"{lost.per_call_text().replace('call', 'exchange').replace(' of rank 0', '')}",
            f"Split the grid {names[1]}; all splits: {again}",
            lost.as_lost_time(run),
            evidence=(
                Evidence(f"exchange of {names[0]}", own.time_ns, "ns", run.inside.source),
                Evidence(f"exchange of {names[1]}", best.time_ns, "ns", run.inside.source),
            ),
        )  # fmt: skip


def _own_and_best_plan(run: ObservedRun, grid: Grid, known: CostModel) -> tuple[Plan, Plan]:
    """Returns the plan of the program's own decomposition, and the best plan."""

    def best(dims: tuple[int, ...] | None) -> Plan:
        return splits(
            grid.extents, len(run.ranks), known.costs, ranks_per_node=run.ranks_on_node, periodic=grid.periodic,
            element_bytes=grid.element_bytes, dims=dims,
        )[0]  # fmt: skip

    return best(grid.dims), best(None)


SPEC = RuleSpec(RULE, find_bad_splits, scenarios=("pingpong",))
