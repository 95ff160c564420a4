"""Compares collectives with one message of the same size, and finds sizes at which their time jumps (the baseline of
claim S2.4 in papers/S2/claims.toml)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.base.words import join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, curve, distinct_values, one_place_per_distance, ratios, select_records
from nearfield.report.derived_metrics import half_round_trip
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import format_factor

MPI_FUNCTION_NAMES = {
    "bcast": "MPI_Bcast",
    "allreduce": "MPI_Allreduce",
    "allgather": "MPI_Allgather",
    "alltoall": "MPI_Alltoall",
}
_MIN_JUMP_RATIO = 1.5


def find_cost_in_messages(profile: Profile) -> Iterator[Finding]:
    """Yields a finding with the largest time of each collective, as a multiple of half a round trip of the same
    size."""
    places = one_place_per_distance(profile.records, "pingpong")
    message = half_round_trip(profile.records, places[-1]) if places else {}
    for ranks in measured_rank_counts(profile.records):
        parts, numbers = [], {}
        for operation, name in MPI_FUNCTION_NAMES.items():
            cost = ratios(collective_times(profile.records, operation, ranks), message)
            if cost:
                worst = max(cost, key=lambda size: cost[size].value)
                parts.append(f"{name} up to {format_factor(cost[worst].value)} (at {format_bytes(worst)})")
                numbers[f"{operation}_factor"] = cost[worst].value
        if parts:
            yield Finding(
                topic="collectives",
                title="Collectives in messages",
                statement=f"Over {ranks} ranks, in units of one message of the same size ({places[-1].phrase}): "
                f"{join_and(parts)}.",
                numbers={"ranks": ranks, **numbers},
            )


def find_time_jump(profile: Profile) -> Iterator[Finding]:
    """Yields a finding on the largest jump between two consecutive sizes, if the time grows faster than the size."""
    jumps = [
        (growth, operation, ranks, before, after)
        for ranks in measured_rank_counts(profile.records)
        for operation in MPI_FUNCTION_NAMES
        for growth, before, after in _jumps_between_sizes(collective_times(profile.records, operation, ranks))
    ]
    if not jumps or max(jumps)[0] < _MIN_JUMP_RATIO:
        return
    growth, operation, ranks, before, after = max(jumps)
    yield Finding(
        topic="collectives",
        title=f"{MPI_FUNCTION_NAMES[operation]} jumps at {format_bytes(after)}",
        statement=(
            f"{MPI_FUNCTION_NAMES[operation]} over {ranks} ranks takes {format_factor(growth)} as long for "
            f"{format_bytes(after)} as "
            f"for {format_bytes(before)}, more than its size grows: it changes how it works between the two."
        ),
        numbers={"operation": operation, "factor": growth, "before_bytes": before, "after_bytes": after},
        weight=growth / 2,
    )


def measured_rank_counts(records: pl.DataFrame) -> list[int]:
    """Returns the numbers of ranks with which collectives were measured, ascending."""
    return sorted(distinct_values(select_records(records, scenario="collective", metric="time"), "ranks"))


def collective_times(records: pl.DataFrame, operation: str, ranks: int, only_reliable: bool = True) -> Curve:
    """Returns size -> time of a collective. In a simulated profile, these are the times with BASE_POLICY and with the
    described memory speed."""
    described_machine = {"policy": ["memory", None], "memory_slowdown": [1.0, None]}
    fixed: dict[str, Any] = {name: values for name, values in described_machine.items() if name in records.columns}
    return curve(records, "collective", "time", operation=operation, ranks=ranks, only_reliable=only_reliable, **fixed)


def _jumps_between_sizes(curve: Curve) -> list[tuple[float, int, int]]:
    """Returns (time ratio, smaller size, larger size) for consecutive sizes at most a factor of 4 apart between which
    the time grows faster than the size."""
    sizes = list(curve)
    return [
        (curve[b].value / curve[a].value, a, b)
        for a, b in zip(sizes, sizes[1:], strict=False)
        if b <= 4 * a and curve[b].low / curve[a].high > b / a
    ]
