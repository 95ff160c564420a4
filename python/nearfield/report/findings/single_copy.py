"""Finds whether the kernel's single copy is slower than copy-in-copy-out through shared memory.

Copy-in-copy-out takes at least the time of the slower of its two copies (perfect overlap) and at most their sum (no
overlap). Times between these bounds are inconclusive and give no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_ns, format_rate
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Place, common_x_values, place_prefix
from nearfield.report.derived_metrics import core_to_core_latency, fastest_copies, half_round_trip, switch_size_bytes
from nearfield.report.findings.finding import MEASURE_AGAIN_ADVICE, Finding, finder_at_each_distance
from nearfield.report.formatting import format_factor, format_size_range, setting_without_single_copy


@finder_at_each_distance("pingpong")
def find_single_copy_cost(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding on the cost of messages at sizes at which the kernel copies them."""
    single_copy_limit = switch_size_bytes(profile.run.switch, "single-copy", place)
    if single_copy_limit is None:
        return
    time = {s: p for s, p in half_round_trip(profile.records, place).items() if s > single_copy_limit}
    bounds = copy_in_copy_out_bounds(profile.records, place)
    slower = {s: time[s].low / bounds[s][1] for s in common_x_values(time, bounds) if time[s].low > bounds[s][1]}
    faster = {s: bounds[s][0] / time[s].high for s in common_x_values(time, bounds) if time[s].high < bounds[s][0]}
    if len(slower) > len(faster):
        yield _slower_copy_finding(profile, place, time, bounds, slower)
    elif faster:
        yield _faster_copy_finding(profile, place, time, bounds, faster)


def copy_in_copy_out_bounds(records: pl.DataFrame, place: Place) -> dict[int, tuple[float, float]]:
    """Returns size -> (lower, upper) bound in ns for copy-in-copy-out: with perfect overlap of the two copies, and
    without overlap."""
    signal = core_to_core_latency(records, place)
    into = fastest_copies(records, place, "copy-local")
    out_of = fastest_copies(records, place, "copy-remote")
    if signal is None:
        return {}
    return {
        s: (max(into[s].low, out_of[s].low), 2 * signal.high + into[s].high + out_of[s].high)
        for s in common_x_values(into, out_of)
    }


def _slower_copy_finding(
    profile: Profile, place: Place, time: Curve, bounds: dict[int, tuple[float, float]], ratio_by_size: dict[int, float]
) -> Finding:
    worst = max(ratio_by_size, key=lambda size: ratio_by_size[size])
    ratio = time[worst].value / bounds[worst][1]
    setting = setting_without_single_copy(profile.run.mpi.family, profile.run.mpi.variables)
    action = f"Try this: without single copy ({setting}). {MEASURE_AGAIN_ADVICE}" if setting else ""
    return Finding(
        topic="single-copy",
        title=f"The kernel's copy is {format_factor(ratio)} slower",
        statement=capitalize(
            f"{place_prefix(profile, place)}{format_size_range(sorted(ratio_by_size))} single copy by the kernel "
            f"is slower than two copies by the cores themselves, even one after the other: a {format_bytes(worst)} "
            f"message takes {format_ns(time[worst].value)} ({format_rate(worst / time[worst].value)}), copying it in "
            f"and out at most {format_ns(bounds[worst][1])}."
        ),
        level="loss",
        action=action,
        numbers={"bytes": worst, "factor": ratio, "from_bytes": min(ratio_by_size), "to_bytes": max(ratio_by_size)},
        weight=2 * ratio,
    )


def _faster_copy_finding(
    profile: Profile, place: Place, time: Curve, bounds: dict[int, tuple[float, float]], ratio_by_size: dict[int, float]
) -> Finding:
    best = max(ratio_by_size, key=lambda size: ratio_by_size[size])
    return Finding(
        topic="single-copy",
        title="Single copy pays",
        statement=capitalize(
            f"{place_prefix(profile, place)}{format_size_range(sorted(ratio_by_size))} single copy by the kernel "
            f"is faster than copying in and out could be: a {format_bytes(best)} message takes "
            f"{format_ns(time[best].value)}, the slower of the two copies alone {format_ns(bounds[best][0])}."
        ),
        level="good",
        numbers={
            "bytes": best,
            "factor": ratio_by_size[best],
            "from_bytes": min(ratio_by_size),
            "to_bytes": max(ratio_by_size),
        },
    )
