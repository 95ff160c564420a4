"""Decides by bootstrap whether a statement holds for a curve that was measured in several launches.

The unit of resampling is the launch, because each launch gets other memory pages, and on a virtual machine other cores.
The judge sees median curves of resampled launches; all points of a curve come from the same launches. Resampled curves
cannot leave the range of the measurements, and a judge over all points would fail at one point that is off by noise. So
the judge also sees the bounding curves of the intervals. There is an answer only if all of these curves lead to it.

If a single point can decide the answer ("some size gains" holds, "every size gains" does not), the error probability
grows with the number of points. Then the intervals are widened, so that all points together err as often as one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from statistics import median
from typing import Literal

from nearfield.reproduce.curves import Points
from nearfield.reproduce.judges import Over

RESAMPLES, SEED = 200, 20121105
CONFIDENCE = 0.95
MIN_LAUNCHES = 3  # minimum number of launches for an answer

Word = Literal["holds", "does not", "cannot tell"]
Interval = tuple[float, float]


def median_curve(launches: Sequence[Points]) -> Points:
    """Returns x -> median over the launches, at the x values that all launches have."""
    shared = [x for x in launches[0] if all(x in one for one in launches)]
    return {x: median(one[x] for one in launches) for x in shared}


def launch_intervals(launches: Sequence[Points], simultaneous: int = 1) -> dict[float, Interval]:
    """Returns x -> interval: the median plus and minus the range of the launches, times `interval_widening`. Under
    noise alone, the true value is outside its interval (or outside any of `simultaneous` intervals) in 1 % of cases
    with five launches, 3 % with four, and 10 % with three (tests/unit/test_here.py)."""
    wider = interval_widening(simultaneous, len(launches))
    found = {}
    for x, y in median_curve(launches).items():
        ys = [one[x] for one in launches]
        half = wider * (max(ys) - min(ys))
        found[x] = (y - half, y + half)
    return found


def interval_widening(simultaneous: int, launches: int) -> float:
    """Returns the factor by which to widen intervals if none of `simultaneous` ones may miss its true value. For the
    true value to be farther than k ranges from the median, all n launches must lie within 1/k of that distance. So the
    probability falls as k to the power of 1 - n, for any noise, and the sum over all intervals must stay constant."""
    return float(max(simultaneous, 1) ** (1 / max(launches - 1, 1)))


def decide_by_bootstrap(
    launches: Sequence[Points], holds: Callable[[Points], bool], levels: Sequence[float], at: Interval,
    over: Over = "every",
) -> Word:  # fmt: skip
    """Returns whether the statement holds. `levels` are numbers with which the judge compares a curve. `at` is the
    range of the paper's extreme; there are bounding curves with their extreme inside and outside of this range. `over`
    is that of the judge: if a single point can decide the answer, the intervals are widened for the number of
    points."""
    if len(launches) < MIN_LAUNCHES:
        return "cannot tell"
    points = len(median_curve(launches))
    drawn = [holds(curve) for curve in _resample(launches)]
    share = sum(drawn) / len(drawn)

    def unanimous(word: bool, by_one_point: bool) -> bool:
        within = launch_intervals(launches, points if by_one_point else 1)
        return all(holds(curve) is word for curve in bounding_curves(within, levels, at))

    if share >= CONFIDENCE and unanimous(True, by_one_point=over != "every"):
        return "holds"
    return "does not" if share <= 1 - CONFIDENCE and unanimous(False, by_one_point=over != "some") else "cannot tell"


def _resample(launches: Sequence[Points]) -> Iterator[Points]:
    """Yields RESAMPLES median curves of launches drawn with replacement, from a fixed seed."""
    chance = random.Random(SEED)
    for _ in range(RESAMPLES):
        yield median_curve(chance.choices(launches, k=len(launches)))


def bounding_curves(within: dict[float, Interval], levels: Sequence[float], at: Interval) -> Iterator[Points]:
    """Yields curves inside the intervals: lowest, highest, alternating, as flat as possible, rising, falling, and those
    that are high only inside `at` or only outside of it."""
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
    for inside_peak in (True, False):
        yield {x: within[x][inside[x] == inside_peak] for x in within}
