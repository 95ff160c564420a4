"""Ranks the legal rewrites of a region by the expected gain from a profile's costs, where that distinguishes them,
otherwise by the length of the patch and then by the guidelines of Pellegrini et al. (paper S0, papers/S0). Explains the
benefit of each.

The expected gain compares the time of a message with its buffers cached and not cached, and the time of reading the
message immediately and later, all at the message's size and between ranks at one distance. The gain of overlap has no
expected value: it depends on how far an MPI progresses messages during computation, which no record of a profile
shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from nearfield.base.estimates import Estimate, sum_of_estimates
from nearfield.base.units import format_bytes, parse_bytes
from nearfield.profile import Profile, load
from nearfield.profile.costs import Costs as ProfileCosts
from nearfield.profile.costs import size_ratio, time_at_size
from nearfield.rewrite.analysis.program import Region
from nearfield.rewrite.gain import ExpectedGain, MessageTimes
from nearfield.rewrite.model.schedule import ExecutionOrder, Transformation
from nearfield.rewrite.patch import Patch

# In the order of the guidelines of Pellegrini et al. (paper S0): send cached data and receive late (guidelines 1 and
# 3), delay the use of received data (guideline 2).
PREFERRED_TRANSFORMATIONS = ("warm-send", "overlap", "late-receive", "reverse", "cut", "strip-mine", "late-wait")
MAX_RECORD_RATIO = 2.0  # maximum ratio between a message's size and the nearest measured size
MAX_INTERPOLATION_RATIO = 4.0  # maximum ratio between a message's size and the second measured size of an interpolation


class MessageCosts(ProfileCosts):
    """Message times on a profile's machine, between the most distant ranks of a node, or between nodes if the profile
    has no others. `size_bytes` is the size of messages whose size the source code does not determine."""

    def __init__(self, profile: Profile, size_bytes: int | None = None) -> None:
        super().__init__(profile)
        if self.place is None:
            super().__init__(profile, network=True)
        self.size_bytes = size_bytes

    def expected_gain_of(self, transformation: str, size_bytes: int) -> ExpectedGain:
        """Returns the expected gain of a transformation for messages of `size_bytes`."""
        if transformation in ("overlap", "late-wait"):
            return ExpectedGain(unknown_reason="no record says how far messages get while the program computes")
        time_uncached, time_cached = (self._send_time(size_bytes, state) for state in ("invalid", "modified"))
        read_time_later, read_time_at_once = (
            self._read_time(size_bytes, state) for state in ("base-invalid", "invalid")
        )
        if not (time_uncached and time_cached and read_time_later and read_time_at_once):
            scenarios = {"pingpong": time_uncached and time_cached, "pollution": read_time_later and read_time_at_once}
            return ExpectedGain(
                unknown_reason=_format_missing_records(
                    [name for name, has_records in scenarios.items() if not has_records], size_bytes
                )
            )
        times_after = {
            "warm-send": (time_cached, read_time_later),
            "late-receive": (time_uncached, read_time_at_once),
            "reverse": (time_cached, read_time_at_once),
        }
        return ExpectedGain(
            MessageTimes(
                sum_of_estimates([time_uncached, read_time_later]), sum_of_estimates(times_after[transformation])
            )
        )

    def expected_gain_of_chunking(self, size_bytes: int, chunk_bytes: int) -> ExpectedGain:
        """Returns the expected gain if a long message is produced, sent and read in chunks of `chunk_bytes`."""
        measured_bytes, time_by_chunk_bytes = self.chunked_message_times(size_bytes)
        measured_chunk_bytes = _nearest_size((one for one in time_by_chunk_bytes if one), chunk_bytes)
        if (
            size_ratio(measured_bytes, size_bytes) > MAX_RECORD_RATIO
            or not measured_chunk_bytes
            or 0 not in time_by_chunk_bytes
        ):
            return ExpectedGain(unknown_reason=_format_missing_records(["cut"], size_bytes))
        time_whole, time_chunked = (
            time_by_chunk_bytes[one] * (size_bytes / measured_bytes) for one in (0, measured_chunk_bytes)
        )
        return ExpectedGain(MessageTimes(time_whole, time_chunked))

    def _send_time(self, size_bytes: int, cache_state: str) -> Estimate | None:
        """Returns the time in ns of a message whose send buffer is in the given cache state; None without stable
        records near the size."""
        return interpolate_time(self.times_by_size("pingpong", "half_round_trip", state=cache_state), size_bytes)

    def _read_time(self, size_bytes: int, cache_state: str) -> Estimate | None:
        """Returns the time in ns of reading a received message; None without stable records near the size."""
        return interpolate_time(
            self.times_by_size("pollution", "traverse", side="receiver", state=cache_state), size_bytes
        )


def interpolate_time(time_by_size: Mapping[int, Estimate], size_bytes: int) -> Estimate | None:
    """Returns the time of a message of `size_bytes`, interpolated between measured sizes. Returns None if no measured
    size is within a factor of MAX_RECORD_RATIO, or no second one within MAX_INTERPOLATION_RATIO."""
    if _nearest_size(time_by_size, size_bytes) is None:
        return None
    time = time_at_size(
        {one: t for one, t in time_by_size.items() if size_ratio(one, size_bytes) <= MAX_INTERPOLATION_RATIO},
        size_bytes,
    )
    return time if time and time.value > 0 and time.low > 0 else None


def _nearest_size(sizes: Iterable[int], size_bytes: int) -> int | None:
    """Returns the measured size nearest to `size_bytes`, within a factor of MAX_RECORD_RATIO; None if there is none."""
    nearest = min(sizes, key=lambda one: size_ratio(one, size_bytes), default=None)
    return nearest if nearest is not None and size_ratio(nearest, size_bytes) <= MAX_RECORD_RATIO else None


def _format_missing_records(scenarios: Sequence[str], size_bytes: int) -> str:
    """Returns the sentence that the profile lacks records of some scenarios near a size."""
    return f"the profile has no stable records of {' and '.join(scenarios)} near {format_bytes(size_bytes)}"


def load_message_costs(profile_path: Path | None, message_size: str | None) -> MessageCosts | None:
    """Returns the message times of the profile that the command-line options select; None without a profile."""
    return (
        MessageCosts(load(profile_path), parse_bytes(message_size) if message_size else None)
        if profile_path is not None
        else None
    )


def longest_message_bytes(region: Region) -> int | None:
    """Returns the size in bytes of the longest message in a region; None if it is not constant."""
    sizes = []
    for call in region.calls:
        for message in call.messages:
            elements = 0
            for monomial, factor in message.count.terms.items() if message.count is not None else ():
                values = [region.symbols[key].constant_value for key in monomial]
                if any(value is None for value in values):
                    return None
                elements += factor * math.prod(value for value in values if value is not None)
            sizes.append(elements * message.element_bytes)
    return max(sizes, default=None) or None


def expected_gain(transformation: str, region: Region, costs: MessageCosts | None) -> ExpectedGain:
    """Returns the expected gain in communication time from a transformation of a region, or the reason why it is
    unknown."""
    if costs is None:
        return ExpectedGain()
    size = longest_message_bytes(region) or costs.size_bytes
    if not size:
        return ExpectedGain(unknown_reason="the source does not say how long its messages are (--message-size does)")
    for call in region.calls:
        if call.chunking:
            return costs.expected_gain_of_chunking(size, call.chunking.chunk_elements * call.messages[0].element_bytes)
    return costs.expected_gain_of(transformation, size)


def rank_patches(patches: Sequence[Patch]) -> list[Patch]:
    """Returns the patches by region, the best first. A patch precedes another one if its gain is larger and the
    intervals of the two gains do not overlap; otherwise the shorter patch comes first, and then the one that the
    guidelines prefer."""
    places = groupby(
        sorted(patches, key=lambda one: (one.changed_lines, *_sort_key_by_length(one))),
        key=lambda one: one.changed_lines,
    )
    return [patch for _, patches_of_place in places for patch in _sort_best_first(list(patches_of_place))]


def _sort_key_by_length(patch: Patch) -> tuple[bool, int, int]:
    """Returns the sort key for patches whose gains do not differ significantly: patches that certainly lose time come
    last, then shorter patches first, then by the guidelines."""
    gain = patch.expected_gain.message_times
    return (
        gain is not None and gain.speedup.high < 1,
        patch.num_changed_lines,
        PREFERRED_TRANSFORMATIONS.index(patch.transformation),
    )


def _sort_best_first(patches: list[Patch]) -> list[Patch]:
    """Returns the patches with each significantly better one in front of others, otherwise in their given order."""
    sorted_patches = []
    while patches:
        best = next(one for one in patches if not any(is_significantly_better(other, one) for other in patches))
        sorted_patches.append(best)
        patches = [one for one in patches if one is not best]
    return sorted_patches


def is_significantly_better(patch: Patch, other_patch: Patch) -> bool:
    """Returns whether a patch gains significantly more than another one: the intervals of both gains do not overlap."""
    gain, other_gain = patch.expected_gain.message_times, other_patch.expected_gain.message_times
    return gain is not None and other_gain is not None and gain.speedup.low > other_gain.speedup.high


def format_benefit(transformation: Transformation, order: ExecutionOrder, region: Region) -> str:
    """Returns a sentence on the benefit of a new order."""
    size = longest_message_bytes(region)
    size_note = f" (messages of {format_bytes(size)})" if size else ""
    return f"{transformation.summary}{size_note}: {order.description}"
