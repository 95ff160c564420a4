"""Compares the nearest pair of cores with the most distant one."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import one_place_per_distance, ratios
from nearfield.report.derived_metrics import core_to_core_latency, half_round_trip
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import format_factor


def find_distance_cost(profile: Profile) -> Iterator[Finding]:
    """Yields a finding on how much slower messages are at the largest core distance than at the smallest; none if only
    one distance was measured."""
    places = one_place_per_distance(profile.records, "pingpong")
    if len(places) < 2:
        return
    near, far = places[0], places[-1]
    far_over_near = ratios(half_round_trip(profile.records, far), half_round_trip(profile.records, near))
    if not far_over_near:
        return
    small = min(far_over_near)
    worst = max(far_over_near, key=lambda size: far_over_near[size].value)
    latencies = [(p, f.value) for p in places if (f := core_to_core_latency(profile.records, p))]
    values = ", ".join(f"{p.distance} {format_ns(value)}" for p, value in latencies)
    yield Finding(
        topic="distances",
        title=f"Distance costs up to {format_factor(far_over_near[worst].value)}",
        statement=(
            f"A {format_bytes(small)} message takes {format_factor(far_over_near[small].value)} as long {far.phrase} "
            f"as {near.phrase}; most is lost at {format_bytes(worst)} ({format_factor(far_over_near[worst].value)})."
            + (f" A flag crosses in: {values}." if values else "")
        ),
        action="Place ranks that exchange much near each other." if far_over_near[worst].value >= 1.2 else "",
        numbers={"small_factor": far_over_near[small].value, "factor": far_over_near[worst].value, "bytes": worst},
        weight=far_over_near[worst].value,
    )
