"""Finds how much messages slow down while other ranks communicate (S3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.curves import Place, curve, distinct_values, pick, place_prefix, ratios
from nearfield.report.findings.finding import Finding, at_each_distance
from nearfield.report.formatting import ratio_text

_SLOWER = 1.1


@at_each_distance("load")
def find_load_slowdown(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the message size and the load at which messages slow down most."""
    slowdowns = {
        (size, load_bytes): ratio
        for load_bytes in _loads(profile.records)
        for size, ratio in ratios(
            curve(profile.records, "load", "half_round_trip", place=place, load_bytes=load_bytes),
            curve(profile.records, "load", "half_round_trip", place=place, load_bytes=0),
        ).items()
    }
    if not slowdowns:
        return
    (size, amount), worst = max(slowdowns.items(), key=lambda item: item[1].value)
    felt = worst.low > 1 and worst.value >= _SLOWER
    words = (
        f"a {format_bytes(size)} message takes {ratio_text(worst.value)} as long while the other ranks run "
        f"MPI_Alltoall of {format_bytes(amount)}"
        if felt
        else f"no message takes {ratio_text(_SLOWER)} as long while the other ranks run MPI_Alltoall"
    )
    yield Finding(
        topic="load",
        title=f"Load costs up to {ratio_text(worst.value)}" if felt else "Load is not felt",
        statement=capitalize(f"{place_prefix(profile, place, 'load')}{words}."),
        numbers={"bytes": size, "load_bytes": amount, "factor": worst.value},
        weight=worst.value,
    )


def _loads(records: pl.DataFrame) -> list[int]:
    rows = pick(records, scenario="load", metric="half_round_trip")
    return sorted(x for x in distinct_values(rows, "load_bytes") if x > 0)
