"""Finds where a profile contradicts itself: the cores of a virtual machine move, and then some times are those of
another pair of cores than others."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.profile.records import where
from nearfield.profile.store import Profile

SAME_PLACE = 1.3  # ratio of two core-to-core latencies, up to which cores are at one place
SHORTEST = 0.9  # of a flag's way: a message that is shorter cannot contain the flag


def flag_of(profile: Profile) -> float | None:
    """Returns the core-to-core latency during the profile's measurements, in ns: that of scenario `floor`, else that of
    its calibration; None if it has neither."""
    floor, calibration = _flags(profile)
    return floor or calibration


def contradictions(profile: Profile) -> Iterator[str]:
    """Yields each contradiction of one pair's core-to-core latencies and its shortest message."""
    floor, calibration = _flags(profile)
    message = _shortest_message(profile)
    for ns, source in ((floor, "scenario floor"), (calibration, "calibration")):
        if ns and message and message < SHORTEST * ns:
            yield (
                f"a message of 8 B took {message:.0f} ns, less than the {ns:.0f} ns of a flag ({source}), which it "
                "contains: the cores moved between the two measurements"
            )
    if floor and calibration and max(floor, calibration) > SAME_PLACE**2 * min(floor, calibration):
        yield (
            f"a flag took {floor:.0f} ns (scenario floor) and {calibration:.0f} ns (calibration): the cores moved "
            "between the two measurements"
        )


def _flags(profile: Profile) -> tuple[float | None, float | None]:
    """Returns the core-to-core latencies of scenario `floor` and of the calibration. Of several distances, of which a
    description has one value each, it returns none."""
    records, calibration = profile.records, profile.run.calibration
    found = records.clear()
    if {"kind", "distance"} <= {*records.columns}:
        found = where(records, scenario="floor", metric="time", kind="flag").filter(pl.col("value") > 0)
    if found["distance"].n_unique() > 1:
        return None, None
    floor = [float(value) for value in found["value"]]
    return min(floor, default=None), calibration.flag_ns if calibration and calibration.flag_ns > 0 else None


def _shortest_message(profile: Profile) -> float | None:
    """Returns the time of the slowest of the shortest messages; None if there is none."""
    if "size_bytes" not in profile.records.columns:
        return None
    found = where(profile.records, scenario="pingpong", metric="half_round_trip", size_bytes=8)
    return max((float(value) for value in found["value"].drop_nulls()), default=None)
