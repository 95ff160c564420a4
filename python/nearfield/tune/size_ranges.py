"""Finds the sizes of messages that the shared heap should copy by streaming stores, or by both ends.

Streaming stores fetch no line from the other core's cache, but leave none in the receiver's. A copy by both ends costs
them a few lines of coordination. Which is faster depends on the size, the caches and the core-to-core latency, and no
model predicts it well (S0 shows that it depends on which cache has the lines). Since every size is decided separately,
one measurement with no size and one with all sizes suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base.paired import Gain
from nearfield.rules.criterion import MESSAGES
from nearfield.rules.gains import Case, geometric_mean
from nearfield.rules.knobs import NEVER

MIN_BYTES = 4 << 10  # shorter messages are not copied by the heap
MIN_RATIO = 1.03  # the other copy must be at least this many times as fast


def faster_size_ranges(never: Mapping[Case, Gain], always: Mapping[Case, Gain]) -> str:
    """Returns the sizes in bytes at which `always` is faster than `never` over all message patterns, as text for a
    knob. A measured size stands for all sizes up to the next one, and the longest for all longer ones. Cases that only
    one of the two has, as after the cores moved, do not count."""
    both = [case for case in never if case in always and case[0] in MESSAGES and case[1] >= MIN_BYTES]
    sizes = sorted({size for _, size in both})
    faster = [size for size in sizes if _mean(always, both, size) > MIN_RATIO * _mean(never, both, size)]
    ranges: list[tuple[int, int | None]] = []
    for size in faster:
        following = next((other for other in sizes if other > size), None)
        if ranges and ranges[-1][1] == size - 1:
            size, _ = ranges.pop()
        ranges.append((size, following - 1 if following else None))
    return "+".join(f"{first}-{last or ''}" for first, last in ranges) or NEVER


def _mean(gains: Mapping[Case, Gain], cases: Sequence[Case], size: int) -> float:
    return geometric_mean(gains[case] for case in cases if case[1] == size).value
