"""Finds where a profile contradicts itself: the cores of a virtual machine move, and then some times are those of
another pair of cores than others."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.profile.records import where
from nearfield.profile.store import Profile

MAX_SAME_PLACE_RATIO = 1.3  # ratio of two core-to-core latencies, up to which cores are at one place
MIN_FLAG_SHARE = 0.9  # of a flag's way: a message that is shorter cannot contain the flag


def core_to_core_ns_of(profile: Profile) -> float | None:
    """Returns the core-to-core latency during the profile's measurements, in ns: that of scenario `floor`, else that of
    the place to which its records belong, else that of its calibration; None if it has none of them."""
    floor, (other, _) = _core_to_core_latencies(profile)
    return floor or other


def contradictions(profile: Profile) -> Iterator[str]:
    """Yields each contradiction of one pair's core-to-core latencies and its shortest message."""
    floor, (other, source_of_other) = _core_to_core_latencies(profile)
    message = _shortest_message_ns(profile)
    for ns, source in ((floor, "scenario floor"), (other, source_of_other)):
        if ns and message and message < MIN_FLAG_SHARE * ns:
            yield (
                f"a message of 8 B took {message:.0f} ns, less than the {ns:.0f} ns of a flag ({source}), which it "
                "contains: the cores moved between the two measurements"
            )
    if floor and other and max(floor, other) > MAX_SAME_PLACE_RATIO**2 * min(floor, other):
        yield (
            f"a flag took {floor:.0f} ns (scenario floor) and {other:.0f} ns ({source_of_other}): the cores moved "
            "between the two measurements"
        )


def _core_to_core_latencies(profile: Profile) -> tuple[float | None, tuple[float | None, str]]:
    """Returns the core-to-core latencies of scenario `floor`, and of the place to which the records belong or, if none
    is known, of the calibration, with its name. Of several distances, of which a description has one value each, it
    returns none."""
    records = profile.records
    found = records.clear()
    if {"kind", "distance"} <= {*records.columns}:
        found = where(records, scenario="floor", metric="time", kind="flag").filter(pl.col("value") > 0)
    if found["distance"].n_unique() > 1:
        return None, (None, "")
    floor = [float(value) for value in found["value"]]
    return min(floor, default=None), _core_to_core_ns_of_run(profile)


def _core_to_core_ns_of_run(profile: Profile) -> tuple[float | None, str]:
    run = profile.run
    used = [place for place in run.place if place.used]
    if len(used) == 1:
        return used[0].c2c_latency_ns, "the place of the records"
    calibration_ns = run.calibration.flag_ns if run.calibration and not used else 0.0
    return calibration_ns or None, "calibration"


def _shortest_message_ns(profile: Profile) -> float | None:
    """Returns the time of the slowest of the shortest messages; None if there is none."""
    if "size_bytes" not in profile.records.columns:
        return None
    found = where(profile.records, scenario="pingpong", metric="half_round_trip", size_bytes=8)
    return max((float(value) for value in found["value"].drop_nulls()), default=None)
