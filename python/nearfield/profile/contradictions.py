"""Finds contradictions inside a profile. The CPUs of a virtual machine migrate between host cores, so that some times
of a profile may be those of another pair of cores."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.profile.records import where
from nearfield.profile.store import Profile

MAX_SAME_PLACE_RATIO = 1.3  # ratio of two core-to-core latencies up to which they are of the same place
MIN_FLAG_SHARE = 0.9  # of the core-to-core latency: a message cannot be faster than the flag that it contains


def core_to_core_ns_of(profile: Profile) -> float | None:
    """Returns the core-to-core latency in ns during the profile's measurements: from scenario `floor`, otherwise that
    of the place of the records, otherwise from calibration. Returns None if the profile has none of these."""
    floor, (other, _) = _core_to_core_latencies(profile)
    return floor or other


def contradictions(profile: Profile) -> Iterator[str]:
    """Yields a sentence for each contradiction between the core-to-core latencies of the profile, and between them and
    the time of the shortest message."""
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
    """Returns the core-to-core latency in ns of scenario `floor`; and (latency, its source) of the place of the
    records, otherwise of calibration. Returns None for both if the profile has several distances, since each distance
    has a latency of its own."""
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
    """Returns the largest half round trip of messages of 8 bytes, in ns; None if there is no such record."""
    if "size_bytes" not in profile.records.columns:
        return None
    found = where(profile.records, scenario="pingpong", metric="half_round_trip", size_bytes=8)
    return max((float(value) for value in found["value"].drop_nulls()), default=None)
