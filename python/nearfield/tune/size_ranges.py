"""Finds the messages that the shared heap should not copy plainly, by measuring with none and with all.

Streaming stores need no line from the other core's cache, but leave none in the receiver's; help by the sender costs
both ends a few lines of coordination. What is better depends on the size, the caches and how far apart the cores are,
and no model foretells it well (S0's subject: who has the lines); but as every size is decided for itself, two
measurements tell it for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base.paired import Gain
from nearfield.rules.criterion import MESSAGES
from nearfield.rules.gains import Case, geometric_mean
from nearfield.rules.knobs import NEVER

SHORTEST = 4 << 10  # bytes: shorter messages are not copied by the heap
WORTH = 1.03  # the other way must be so many times as fast


def faster_size_ranges(never: Mapping[Case, Gain], always: Mapping[Case, Gain]) -> str:
    """Returns the sizes in bytes at which `always` is faster than `never` over all message patterns, as text for a
    knob. A size stands for all up to the next measured one, and the longest for all beyond. Cases that either lacks, as
    after the cores moved, do not count."""
    both = [case for case in never if case in always and case[0] in MESSAGES and case[1] >= SHORTEST]
    sizes = sorted({size for _, size in both})
    faster = [size for size in sizes if _mean(always, both, size) > WORTH * _mean(never, both, size)]
    ranges: list[tuple[int, int | None]] = []
    for size in faster:
        following = next((other for other in sizes if other > size), None)
        if ranges and ranges[-1][1] == size - 1:
            size, _ = ranges.pop()
        ranges.append((size, following - 1 if following else None))
    return "+".join(f"{first}-{last or ''}" for first, last in ranges) or NEVER


def _mean(gains: Mapping[Case, Gain], cases: Sequence[Case], size: int) -> float:
    return geometric_mean(gains[case] for case in cases if case[1] == size).value
