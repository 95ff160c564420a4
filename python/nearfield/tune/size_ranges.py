"""Finds the message sizes for which the shared heap should use streaming stores, or a cooperative copy by sender and
receiver.

Streaming stores fetch no cache line from the other core's cache, but leave no line in the receiver's cache. A
cooperative copy costs the transfer of a few cache lines for coordination. Which is faster depends on the message size,
the caches and the core-to-core latency, and no model predicts it well (S0 shows that it depends on which cache holds
the lines). Since every size is decided separately, two measurements suffice: with the mechanism off and on for all
sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base.paired import Gain
from nearfield.rules.criterion import MESSAGES
from nearfield.rules.gains import Case, geometric_mean
from nearfield.rules.knobs import NEVER

MIN_BYTES = 4 << 10  # the heap does not copy shorter messages
MIN_COPY_SPEEDUP = 1.03  # minimum speed-up of the other way to copy


def faster_size_ranges(never: Mapping[Case, Gain], always: Mapping[Case, Gain]) -> str:
    """Returns the ranges of message sizes in bytes in which `always` is faster than `never` over all message patterns,
    in the syntax of a knob: "4096-65535+1048576-", or NEVER. A measured size stands for all sizes up to the next one,
    and the longest for all longer ones. Ignores cases that only one of the two measurements has."""
    both = [case for case in never if case in always and case[0] in MESSAGES and case[1] >= MIN_BYTES]
    sizes = sorted({size for _, size in both})
    faster = [
        size for size in sizes if _mean_gain(always, both, size) > MIN_COPY_SPEEDUP * _mean_gain(never, both, size)
    ]
    ranges: list[tuple[int, int | None]] = []
    for size in faster:
        following = next((other for other in sizes if other > size), None)
        if ranges and ranges[-1][1] == size - 1:
            size, _ = ranges.pop()
        ranges.append((size, following - 1 if following else None))
    return "+".join(f"{first}-{last or ''}" for first, last in ranges) or NEVER


def _mean_gain(gains: Mapping[Case, Gain], cases: Sequence[Case], size: int) -> float:
    return geometric_mean(gains[case] for case in cases if case[1] == size).value
