"""Finds how much messages slow down while other ranks communicate (claim S3.3 in papers/S3/claims.toml)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.curves import Place, curve, distinct_values, place_prefix, ratios, select_records
from nearfield.report.findings.finding import Finding, finder_at_each_distance
from nearfield.report.formatting import format_factor

_MIN_LOAD_SLOWDOWN = 1.1


@finder_at_each_distance("load")
def find_load_slowdown(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the message size and the load at which messages slow down most."""
    slowdowns = {
        (size, load_bytes): ratio
        for load_bytes in _measured_loads_bytes(profile.records)
        for size, ratio in ratios(
            curve(profile.records, "load", "half_round_trip", place=place, load_bytes=load_bytes),
            curve(profile.records, "load", "half_round_trip", place=place, load_bytes=0),
        ).items()
    }
    if not slowdowns:
        return
    (size, load), worst = max(slowdowns.items(), key=lambda item: item[1].value)
    is_significant = worst.low > 1 and worst.value >= _MIN_LOAD_SLOWDOWN
    sentence = (
        f"a {format_bytes(size)} message takes {format_factor(worst.value)} as long while the other ranks run "
        f"MPI_Alltoall of {format_bytes(load)}"
        if is_significant
        else f"no message takes {format_factor(_MIN_LOAD_SLOWDOWN)} as long while the other ranks run MPI_Alltoall"
    )
    yield Finding(
        topic="load",
        title=f"Load costs up to {format_factor(worst.value)}" if is_significant else "Load is not felt",
        statement=capitalize(f"{place_prefix(profile, place, 'load')}{sentence}."),
        numbers={"bytes": size, "load_bytes": load, "factor": worst.value},
        weight=worst.value,
    )


def _measured_loads_bytes(records: pl.DataFrame) -> list[int]:
    rows = select_records(records, scenario="load", metric="half_round_trip")
    return sorted(x for x in distinct_values(rows, "load_bytes") if x > 0)
