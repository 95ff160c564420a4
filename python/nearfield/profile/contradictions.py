"""Finds contradictions between the times of one profile. They occur because the virtual CPUs of a virtual machine may
migrate between host cores, so that some times may be those of another pair of cores."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.frames import pl
from nearfield.profile.records import where
from nearfield.profile.store import Profile

MAX_SAME_PLACE_LATENCY_RATIO = 1.3  # ratio of two core-to-core latencies up to which they are of the same place
# If a message takes less than this share of the core-to-core latency, the two contradict each other, since a message
# contains a flag, which takes that latency.
MIN_MESSAGE_TO_FLAG_RATIO = 0.9


def core_to_core_latency_ns_of(profile: Profile) -> float | None:
    """Returns the core-to-core latency in ns during the profile's measurements: from scenario `floor`, otherwise that
    of the place of the records, otherwise from calibration. Returns None if the profile has none of these."""
    floor, (other, _) = _core_to_core_latencies(profile)
    return floor or other


def describe_contradictions(profile: Profile) -> Iterator[str]:
    """Yields a sentence for each contradiction between the core-to-core latencies of the profile, and between them and
    the time of the shortest message."""
    floor, (other, source_of_other) = _core_to_core_latencies(profile)
    message = _shortest_message_ns(profile)
    for ns, source in ((floor, "scenario floor"), (other, source_of_other)):
        if ns and message and message < MIN_MESSAGE_TO_FLAG_RATIO * ns:
            yield (
                f"a message of 8 B took {message:.0f} ns, less than the {ns:.0f} ns of a flag ({source}), which it "
                "contains: the cores moved between the two measurements"
            )
    if floor and other and max(floor, other) > MAX_SAME_PLACE_LATENCY_RATIO**2 * min(floor, other):
        yield (
            f"a flag took {floor:.0f} ns (scenario floor) and {other:.0f} ns ({source_of_other}): the cores moved "
            "between the two measurements"
        )


def _core_to_core_latencies(profile: Profile) -> tuple[float | None, tuple[float | None, str]]:
    """Returns the core-to-core latency in ns of scenario `floor`, and (latency in ns, source) of the place of the
    records or otherwise of calibration. A latency is None if the profile lacks it, and both are None if the profile has
    several distances, since each distance has a latency of its own."""
    records = profile.records
    flag_records = records.clear()
    if {"kind", "distance"} <= {*records.columns}:
        flag_records = where(records, scenario="floor", metric="time", kind="flag").filter(pl.col("value") > 0)
    if flag_records["distance"].n_unique() > 1:
        return None, (None, "")
    floor = [float(value) for value in flag_records["value"]]
    return min(floor, default=None), _core_to_core_latency_ns_of_run(profile)


def _core_to_core_latency_ns_of_run(profile: Profile) -> tuple[float | None, str]:
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
    message_records = where(profile.records, scenario="pingpong", metric="half_round_trip", size_bytes=8)
    return max((float(value) for value in message_records["value"].drop_nulls()), default=None)
