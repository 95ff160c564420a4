"""Ranks the legal rewrites of a region by the expected gain from a profile's costs, where that distinguishes them,
otherwise by the length of the patch and then by the guidelines of Pellegrini et al. (S0). Explains the benefit of each.

The expected gain compares the time of a message with its buffers cached and not cached, and the time of reading the
message immediately and later, all at the message's size and between ranks at one distance. The gain of overlap has no
expected value: it depends on how far an MPI progresses messages during computation, which no record of a profile
shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from nearfield.base.estimates import Estimate, sum_of
from nearfield.base.units import format_bytes, parse_bytes
from nearfield.profile import Profile, load
from nearfield.profile.costs import Costs as ProfileCosts
from nearfield.profile.costs import size_ratio, time_at_size
from nearfield.rewrite.analysis.program import Region
from nearfield.rewrite.gain import ExpectedGain, MessageTimes
from nearfield.rewrite.model.schedule import ExecutionOrder, Transformation
from nearfield.rewrite.patch import Patch

# By the guidelines of Pellegrini et al. (S0): send cached data, receive late (1 and 3), delay the use of received
# data (2).
BY_RULE = ("warm-send", "overlap", "late-receive", "reverse", "cut", "strip-mine", "late-wait")
MAX_RECORD_RATIO = 2.0  # maximum ratio between a message's size and the nearest measured size
MAX_NEIGHBOUR_RATIO = 4.0  # maximum ratio between a message's size and the second measured size of an interpolation


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
            return ExpectedGain(unknown="no record says how far messages get while the program computes")
        cold, warm = (self._send_time(size_bytes, state) for state in ("invalid", "modified"))
        later, at_once = (self._read_time(size_bytes, state) for state in ("base-invalid", "invalid"))
        if not (cold and warm and later and at_once):
            scenarios = {"pingpong": cold and warm, "pollution": later and at_once}
            return ExpectedGain(
                unknown=_missing_records_text([name for name, known in scenarios.items() if not known], size_bytes)
            )
        after = {"warm-send": (warm, later), "late-receive": (cold, at_once), "reverse": (warm, at_once)}
        return ExpectedGain(MessageTimes(sum_of([cold, later]), sum_of(after[transformation])))

    def expected_gain_of_chunking(self, size_bytes: int, piece_bytes: int) -> ExpectedGain:
        """Returns the expected gain if a long message is produced, sent and read in chunks of `piece_bytes`."""
        size, times = self.points_of_pieces(size_bytes)
        piece = _nearest_size((one for one in times if one), piece_bytes)
        if size_ratio(size, size_bytes) > MAX_RECORD_RATIO or not piece or 0 not in times:
            return ExpectedGain(unknown=_missing_records_text(["cut"], size_bytes))
        whole, cut = (times[one] * (size_bytes / size) for one in (0, piece))
        return ExpectedGain(MessageTimes(whole, cut))

    def _send_time(self, size_bytes: int, state: str) -> Estimate | None:
        """Returns the time in ns of a message whose send buffer is in the given cache state; None without stable
        records near the size."""
        return interpolate_near(self.points("pingpong", "half_round_trip", state=state), size_bytes)

    def _read_time(self, size_bytes: int, state: str) -> Estimate | None:
        """Returns the time in ns of reading a received message; None without stable records near the size."""
        return interpolate_near(self.points("pollution", "traverse", side="receiver", state=state), size_bytes)


def interpolate_near(points: Mapping[int, Estimate], size_bytes: int) -> Estimate | None:
    """Returns the time of a message of `size_bytes`, interpolated between measured sizes. Returns None if no measured
    size is within a factor of MAX_RECORD_RATIO, or no second one within MAX_NEIGHBOUR_RATIO."""
    if _nearest_size(points, size_bytes) is None:
        return None
    found = time_at_size(
        {one: t for one, t in points.items() if size_ratio(one, size_bytes) <= MAX_NEIGHBOUR_RATIO}, size_bytes
    )
    return found if found and found.value > 0 and found.low > 0 else None


def _nearest_size(sizes: Iterable[int], size_bytes: int) -> int | None:
    """Returns the measured size nearest to `size_bytes`, within a factor of MAX_RECORD_RATIO; None if there is none."""
    found = min(sizes, key=lambda one: size_ratio(one, size_bytes), default=None)
    return found if found is not None and size_ratio(found, size_bytes) <= MAX_RECORD_RATIO else None


def _missing_records_text(scenarios: Sequence[str], size_bytes: int) -> str:
    """Returns the sentence that the profile lacks records of some scenarios near a size."""
    return f"the profile has no stable records of {' and '.join(scenarios)} near {format_bytes(size_bytes)}"


def costs_from_options(profile: Path | None, size: str | None) -> MessageCosts | None:
    """Returns the message times of the profile that the command-line options select; None without a profile."""
    return MessageCosts(load(profile), parse_bytes(size) if size else None) if profile is not None else None


def message_bytes(region: Region) -> int | None:
    """Returns the size in bytes of the longest message in a region; None if it is not constant."""
    sizes = []
    for call in region.calls:
        for message in call.messages:
            elements = 0
            for monomial, factor in message.count.terms.items() if message.count is not None else ():
                values = [region.symbols[key].value for key in monomial]
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
    size = message_bytes(region) or costs.size_bytes
    if not size:
        return ExpectedGain(unknown="the source does not say how long its messages are (--message-size does)")
    for call in region.calls:
        if call.chunking:
            return costs.expected_gain_of_chunking(size, call.chunking.chunk_elements * call.messages[0].element_bytes)
    return costs.expected_gain_of(transformation, size)


def rank_patches(patches: Sequence[Patch]) -> list[Patch]:
    """Returns the patches by region, the best first. A patch precedes another one if it gains more beyond the intervals
    of both; otherwise the shorter patch comes first, and then the one that the guidelines prefer."""
    places = groupby(sorted(patches, key=lambda one: (one.lines, *_sort_key_by_length(one))), key=lambda one: one.lines)
    return [patch for _, some in places for patch in _sort_best_first(list(some))]


def _sort_key_by_length(patch: Patch) -> tuple[bool, int, int]:
    """Returns the sort key for patches whose gains do not differ significantly: patches with a certain loss last, then
    by length, then by the guidelines."""
    gain = patch.expected.gain
    return gain is not None and gain.ratio.high < 1, patch.changed_line_count, BY_RULE.index(patch.transformation)


def _sort_best_first(waiting: list[Patch]) -> list[Patch]:
    """Returns the patches with each significantly better one in front of others, otherwise in their given order."""
    found = []
    while waiting:
        best = next(one for one in waiting if not any(is_better(other, one) for other in waiting))
        found.append(best)
        waiting = [one for one in waiting if one is not best]
    return found


def is_better(one: Patch, other: Patch) -> bool:
    """Returns whether a patch gains significantly more than another one: the intervals of both gains do not overlap."""
    mine, theirs = one.expected.gain, other.expected.gain
    return mine is not None and theirs is not None and mine.ratio.low > theirs.ratio.high


def benefit_sentence(transformation: Transformation, order: ExecutionOrder, region: Region) -> str:
    """Returns a sentence on the benefit of a new order."""
    size = message_bytes(region)
    of = f" (messages of {format_bytes(size)})" if size else ""
    return f"{transformation.summary}{of}: {order.words}"
