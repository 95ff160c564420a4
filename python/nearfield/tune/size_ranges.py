"""Finds the message sizes for which the shared heap should use streaming stores, or a cooperative copy by sender and
receiver.

Streaming stores fetch no cache line from the other core's cache, but leave no line in the receiver's cache. A
cooperative copy costs the transfer of a few cache lines for coordination. Which is faster depends on the message size,
the caches and the core-to-core latency, and no model predicts it well (paper S0, see papers/S0/README.md, shows that it
depends on which cache holds the lines). Since every size is decided separately, two measurements suffice: with the
mechanism off and on for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base.paired import Gain
from nearfield.rules.criterion import MESSAGE_PATTERNS
from nearfield.rules.gains import BenchmarkCase, geometric_mean
from nearfield.rules.knobs import NO_SIZES

MIN_HEAP_COPY_BYTES = 4 << 10  # the heap does not copy shorter messages
MIN_COPY_SPEEDUP = 1.03  # minimum speed-up of the other way to copy


def find_faster_size_ranges(
    gains_when_off: Mapping[BenchmarkCase, Gain], gains_when_on: Mapping[BenchmarkCase, Gain]
) -> str:
    """Returns the ranges of message sizes in bytes in which `gains_when_on` is faster than `gains_when_off` over all
    message patterns, in the syntax of a knob: "4096-65535+1048576-", or NO_SIZES. A measured size stands for all sizes
    up to the next one, and the longest for all longer ones. Ignores cases that only one of the two measurements has."""
    both = [
        case
        for case in gains_when_off
        if case in gains_when_on and case[0] in MESSAGE_PATTERNS and case[1] >= MIN_HEAP_COPY_BYTES
    ]
    sizes = sorted({size for _, size in both})
    faster = [
        size
        for size in sizes
        if _mean_gain(gains_when_on, both, size) > MIN_COPY_SPEEDUP * _mean_gain(gains_when_off, both, size)
    ]
    ranges: list[tuple[int, int | None]] = []
    for size in faster:
        following = next((other for other in sizes if other > size), None)
        if ranges and ranges[-1][1] == size - 1:
            size, _ = ranges.pop()
        ranges.append((size, following - 1 if following else None))
    return "+".join(f"{first}-{last or ''}" for first, last in ranges) or NO_SIZES


def _mean_gain(gains: Mapping[BenchmarkCase, Gain], cases: Sequence[BenchmarkCase], size: int) -> float:
    return geometric_mean(gains[case] for case in cases if case[1] == size).value
