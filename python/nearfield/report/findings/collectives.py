"""Compares collectives with one message of the same size, and finds sizes at which their time jumps (S2.4's
baseline)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.base.words import join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, curve, distinct_values, one_per_distance, pick, ratios
from nearfield.report.derived_metrics import half_round_trip
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import ratio_text

NAMES = {
    "bcast": "MPI_Bcast",
    "allreduce": "MPI_Allreduce",
    "allgather": "MPI_Allgather",
    "alltoall": "MPI_Alltoall",
}
_JUMP = 1.5


def find_cost_in_messages(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with each operation's largest time, as a multiple of half a round trip of the same size."""
    places = one_per_distance(profile.records, "pingpong")
    message = half_round_trip(profile.records, places[-1]) if places else {}
    for ranks in rank_counts(profile.records):
        parts, numbers = [], {}
        for operation, name in NAMES.items():
            cost = ratios(times_of(profile.records, operation, ranks), message)
            if cost:
                worst = max(cost, key=lambda size: cost[size].value)
                parts.append(f"{name} up to {ratio_text(cost[worst].value)} (at {format_bytes(worst)})")
                numbers[f"{operation}_factor"] = cost[worst].value
        if parts:
            yield Finding(
                topic="collectives",
                title="Collectives in messages",
                statement=f"Over {ranks} ranks, in units of one message of the same size ({places[-1].words}): "
                f"{join_and(parts)}.",
                numbers={"ranks": ranks, **numbers},
            )


def find_time_jump(profile: Profile) -> Iterator[Finding]:
    """Yields a finding on the largest growth of time between neighbouring sizes, if the time grows faster than the
    size."""
    found = [
        (growth, operation, ranks, before, after)
        for ranks in rank_counts(profile.records)
        for operation in NAMES
        for growth, before, after in _growths(times_of(profile.records, operation, ranks))
    ]
    if not found or max(found)[0] < _JUMP:
        return
    growth, operation, ranks, before, after = max(found)
    yield Finding(
        topic="collectives",
        title=f"{NAMES[operation]} jumps at {format_bytes(after)}",
        statement=(
            f"{NAMES[operation]} over {ranks} ranks takes {ratio_text(growth)} as long for {format_bytes(after)} as "
            f"for {format_bytes(before)}, more than its size grows: it changes how it works between the two."
        ),
        numbers={"operation": operation, "factor": growth, "before_bytes": before, "after_bytes": after},
        weight=growth / 2,
    )


def rank_counts(records: pl.DataFrame) -> list[int]:
    """Returns the numbers of ranks with which collectives were measured, ascending."""
    return sorted(distinct_values(pick(records, scenario="collective", metric="time"), "ranks"))


def times_of(records: pl.DataFrame, operation: str, ranks: int, deciding: bool = True) -> Curve:
    """Returns size -> time of a collective. In a simulated profile, the times of BASE_POLICY and of memory as
    described."""
    usual = {"policy": ["memory", None], "memory_slowdown": [1.0, None]}
    fixed: dict[str, Any] = {name: values for name, values in usual.items() if name in records.columns}
    return curve(records, "collective", "time", operation=operation, ranks=ranks, deciding=deciding, **fixed)


def _growths(times_: Curve) -> list[tuple[float, int, int]]:
    """Returns (time ratio, size before, size after) for neighbouring sizes within a factor of 4 between which the time
    grows faster than the size."""
    sizes = list(times_)
    return [
        (times_[b].value / times_[a].value, a, b)
        for a, b in zip(sizes, sizes[1:], strict=False)
        if b <= 4 * a and times_[b].low / times_[a].high > b / a
    ]
