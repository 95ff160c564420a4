"""Describes plans as text: their decomposition and placement, the largest part of their time, and their comparison with
other plans."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nearfield._native import Costs, Link, Plan
from nearfield.base.units import format_bytes, format_ns, format_rate

EQUAL_TIME_TOLERANCE = 0.01  # decompositions whose times differ by a smaller share count as equal
_MIN_LOAD_IMBALANCE = 1.005


def split_text(counts: Sequence[int], dimensions: int) -> str:
    """Returns a decomposition as text, such as '8x4x1', with one number for each of the last `dimensions`
    dimensions."""
    return "x".join(str(n) for n in list(counts)[-dimensions:])


def faces_text(plan: Plan, dimensions: int) -> str:
    """Returns the messages per dimension as text, the slowest-varying first, such as '2x 128 KiB, 2x 64 KiB, -'."""
    faces = plan.faces[-dimensions:]
    return ", ".join(f"{f.messages}x {format_bytes(f.message.bytes, digits=3)}" if f.messages else "-" for f in faces)


def runs_text(plan: Plan) -> str:
    """Returns size and stride, as text, of the contiguous runs of the face whose runs are shortest; '-' if nothing is
    exchanged."""
    messages = [f.message for f in plan.faces if f.messages]
    if not messages:
        return "-"
    shortest = min(messages, key=lambda m: m.run_bytes)
    run = format_bytes(shortest.run_bytes, digits=3)
    return f"{run} every {format_bytes(shortest.stride_bytes, digits=3)}" if shortest.stride_bytes else run


def share_text(part_ns: float, plan: Plan) -> str:
    """Returns the share of a part in the time of the plan as text, such as '37 %'; '-' if that time is 0."""
    return f"{100 * part_ns / plan.time_ns:.0f} %" if plan.time_ns else "-"


def costs_text(costs: Costs) -> str:
    """Returns costs as text, such as 'in place inside a node: 110 ns + 84 GB/s; between nodes: 1.5 us + 12 GB/s'."""
    near = "in place" if costs.in_place else "messages"
    inside = costs.in_place or costs.same_node
    return f"{near} inside a node: {_link_text(inside)}; between nodes: {_link_text(costs.network)}"


def _link_text(link: Link) -> str:
    rate = f"{format_rate(1 / link.ns_per_byte)}" if link.ns_per_byte else "bytes free"
    return f"{format_ns(link.latency_ns)} + {rate}"


def fastest_plan_per_split(plans: Sequence[Plan]) -> list[Plan]:
    """Returns each decomposition once, with its fastest placement."""
    best: dict[tuple[int, ...], Plan] = {}
    for plan in plans:
        best.setdefault(tuple(plan.dims), plan)
    return list(best.values())


def verdict_text(plans: Sequence[Plan], dimensions: int) -> str:
    """Returns a line of text: the fastest decomposition, the largest part of its time, and the slowdown of
    decompositions in other numbers of dimensions."""
    best = plans[0]
    name = split_text(best.dims, dimensions)
    if best.time_ns == 0:
        return f"{name}: nothing is exchanged."
    parts = {
        "latency": best.parts.latency_ns, "bytes": best.parts.bytes_ns, "strides": best.parts.strided_ns,
    }  # fmt: skip
    largest_part = max(parts, key=lambda part: parts[part])
    is_only_split = len(fastest_plan_per_split(plans)) == 1
    text = f"{name}{'' if is_only_split else ' is best'}: {format_ns(best.time_ns)} an exchange"
    text += f", {share_text(parts[largest_part], best)} of it {largest_part}"
    others = [
        f"{_count_split_dimensions(p)}-D {_slowdown_text(p, best)}" for p in _best_plans_by_other_dimensions(plans)
    ]
    return f"{text}; the best {' and '.join(others)}." if others else f"{text}."


def comparison_with_best(requested: Plan, best_plan: Plan, dimensions: int) -> str:
    """Returns a sentence that compares the decomposition of the user with the fastest one."""
    if requested.time_ns <= best_plan.time_ns * (1 + EQUAL_TIME_TOLERANCE):
        return "No split is faster than the requested one."
    factor = requested.time_ns / best_plan.time_ns
    return f"The requested split takes {factor:.2f}x of the best, {split_text(best_plan.dims, dimensions)}."


def load_imbalance(plan: Plan, extents: Sequence[int], ranks: int) -> float | None:
    """Returns the load imbalance: the ratio of the largest number of cells of a rank to the mean; None if it is at most
    _MIN_LOAD_IMBALANCE."""
    factor = math.prod(plan.box) * ranks / math.prod(extents)
    return factor if factor > _MIN_LOAD_IMBALANCE else None


def _count_split_dimensions(plan: Plan) -> int:
    return sum(n > 1 for n in plan.dims)


def _best_plans_by_other_dimensions(plans: Sequence[Plan]) -> list[Plan]:
    """Returns the fastest plan for each number of split dimensions other than that of the best plan, in ascending
    order."""
    first: dict[int, Plan] = {}
    for plan in plans:
        first.setdefault(_count_split_dimensions(plan), plan)
    return [first[n] for n in sorted(first) if n != _count_split_dimensions(plans[0])]


def _slowdown_text(plan: Plan, best_plan: Plan) -> str:
    factor = plan.time_ns / best_plan.time_ns
    if factor < 1 + EQUAL_TIME_TOLERANCE:
        return "takes as long"
    return f"takes {factor:.2f}x" if factor < 10 else f"takes {factor:.0f}x"
