"""Compares the nearest pair of cores with the most distant one."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import one_per_distance, ratios
from nearfield.report.derived_metrics import core_to_core_latency, half_round_trip
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import ratio_text


def find_distance_cost(profile: Profile) -> Iterator[Finding]:
    """Yields a finding on the cost of core distance; none if only one distance was measured."""
    places = one_per_distance(profile.records, "pingpong")
    if len(places) < 2:
        return
    near, far = places[0], places[-1]
    ratio = ratios(half_round_trip(profile.records, far), half_round_trip(profile.records, near))
    if not ratio:
        return
    small = min(ratio)
    worst = max(ratio, key=lambda size: ratio[size].value)
    flags = [(p, f.value) for p in places if (f := core_to_core_latency(profile.records, p))]
    values = ", ".join(f"{p.distance} {format_ns(value)}" for p, value in flags)
    yield Finding(
        topic="distances",
        title=f"Distance costs up to {ratio_text(ratio[worst].value)}",
        statement=(
            f"A {format_bytes(small)} message takes {ratio_text(ratio[small].value)} as long {far.words} as "
            f"{near.words}; most is lost at {format_bytes(worst)} ({ratio_text(ratio[worst].value)})."
            + (f" A flag crosses in: {values}." if values else "")
        ),
        action="Place ranks that exchange much near each other." if ratio[worst].value >= 1.2 else "",
        numbers={"small_factor": ratio[small].value, "factor": ratio[worst].value, "bytes": worst},
        weight=ratio[worst].value,
    )
