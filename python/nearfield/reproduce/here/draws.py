"""Answers whether a statement holds when its curve was measured in several launches that differ.

A launch is the unit: its ranks lie in other memory, and on other processors of a virtual machine, than those of the
next one. The judge sees curves of medians over launches that are drawn again and again, all points of a curve from
the same launches. Such draws cannot be wider than what was measured, and a judge that asks for all points finds one
that is off in noise alone; so it also sees the extreme curves that the intervals allow. Only if all of these say the
same is there an answer.

An answer that one point alone can bring about ("some size gains" holds, "every size gains" does not) has as many
chances to be wrong as there are points. Its intervals are wider, so that all points together err as often as one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from statistics import median
from typing import Literal

from nearfield.reproduce.curves import Points
from nearfield.reproduce.judges import Over

DRAWS, SEED = 200, 20121105
SURE = 0.95
FEWEST = 3  # launches

Word = Literal["holds", "does not", "cannot tell"]
Interval = tuple[float, float]


def middle(launches: Sequence[Points]) -> Points:
    """Returns the medians over the launches, at what all of them have."""
    shared = [x for x in launches[0] if all(x in one for one in launches)]
    return {x: median(one[x] for one in launches) for x in shared}


def intervals(launches: Sequence[Points], together: int = 1) -> dict[float, Interval]:
    """Returns the median -+ the range of the launches, times `widening`. In noise alone the truth is outside one
    interval, or outside any of so many `together`, in one of a hundred cases with five launches, in three with four,
    and in ten with three (tests/unit/test_here.py)."""
    wider = widening(together, len(launches))
    found = {}
    for x, y in middle(launches).items():
        ys = [one[x] for one in launches]
        half = wider * (max(ys) - min(ys))
        found[x] = (y - half, y + half)
    return found


def widening(together: int, launches: int) -> float:
    """Returns by which factor intervals must be wider if any of so many may be the one that misses the truth. That the
    truth is farther from the median than k ranges needs all n launches within a k-th of that distance: its probability
    falls as k to the power of 1 - n, whatever the noise is like, and the sum over all intervals is to stay the same."""
    return float(max(together, 1) ** (1 / max(launches - 1, 1)))


def answer(
    launches: Sequence[Points], holds: Callable[[Points], bool], levels: Sequence[float], at: Interval,
    over: Over = "every",
) -> Word:  # fmt: skip
    """Returns whether the statement holds. `levels`: numbers with which the judge compares a curve. `at`: where the
    paper has its extreme; extreme curves have theirs there and elsewhere. `over`: the points over which the judge
    holds; an answer that one point alone brings about is corrected for their number."""
    if len(launches) < FEWEST:
        return "cannot tell"
    points = len(middle(launches))
    drawn = [holds(curve) for curve in _drawn(launches)]
    share = sum(drawn) / len(drawn)

    def all_say(word: bool, by_one_point: bool) -> bool:
        within = intervals(launches, points if by_one_point else 1)
        return all(holds(curve) is word for curve in extremes(within, levels, at))

    if share >= SURE and all_say(True, by_one_point=over != "every"):
        return "holds"
    return "does not" if share <= 1 - SURE and all_say(False, by_one_point=over != "some") else "cannot tell"


def _drawn(launches: Sequence[Points]) -> Iterator[Points]:
    chance = random.Random(SEED)
    for _ in range(DRAWS):
        yield middle(chance.choices(launches, k=len(launches)))


def extremes(within: dict[float, Interval], levels: Sequence[float], at: Interval) -> Iterator[Points]:
    """Yields curves inside the intervals: lowest, highest, to and fro, as level as they can be, growing, falling, and
    those that are high only where `at` says, or only elsewhere."""
    low, high = ({x: ends[side] for x, ends in within.items()} for side in (0, 1))
    yield from (low, high)
    for odd in (0, 1):
        yield {x: within[x][(i + odd) % 2] for i, x in enumerate(within)}
    levels = (*levels, (max(low.values()) + min(high.values())) / 2)
    rising = [*accumulate(low.values(), max)][:-1] + [*high.values()][-1:]
    falling = [*accumulate(high.values(), min)][:-1] + [*low.values()][-1:]
    for wanted in (*map(repeat, levels), rising, falling):
        yield {x: min(max(y, low[x]), high[x]) for x, y in zip(within, wanted, strict=False)}
    inside = {x: at[0] <= x <= at[1] for x in within}
    for there in (True, False):
        yield {x: within[x][inside[x] == there] for x in within}
