"""Decides by bootstrap whether a statement holds for a curve that was measured in several launches.

The unit of resampling is the launch: its ranks have other memory, and on a virtual machine other processors, than those
of the next one. The judge sees median curves of resampled launches, with all points of a curve from the same launches.
Resamples cannot be wider than the measurements, and a judge over all points would find one that is off by noise alone;
so it also sees the bounding curves of the intervals. There is an answer only if all of these agree.

If a single point can decide the answer ("some size gains" holds, "every size gains" does not), the error probability
grows with the number of points. Then the intervals are wider, so that all points together err as often as one."""

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
MIN_LAUNCHES = 3  # launches

Word = Literal["holds", "does not", "cannot tell"]
Interval = tuple[float, float]


def median_curve(launches: Sequence[Points]) -> Points:
    """Returns the medians over the launches, at the parameters that all of them have."""
    shared = [x for x in launches[0] if all(x in one for one in launches)]
    return {x: median(one[x] for one in launches) for x in shared}


def launch_intervals(launches: Sequence[Points], simultaneous: int = 1) -> dict[float, Interval]:
    """Returns the median -+ the range of the launches, times `interval_widening`. Under noise alone, the true value is
    outside of an interval, or of any of `simultaneous` ones, in 1 % of cases with five launches, 3 % with four, and 10
    % with three (tests/unit/test_here.py)."""
    wider = interval_widening(simultaneous, len(launches))
    found = {}
    for x, y in median_curve(launches).items():
        ys = [one[x] for one in launches]
        half = wider * (max(ys) - min(ys))
        found[x] = (y - half, y + half)
    return found


def interval_widening(simultaneous: int, launches: int) -> float:
    """Returns the factor by which intervals must be wider if any of `simultaneous` ones may miss the true value. For
    that value to be farther than k ranges from the median, all n launches must lie within 1/k of that distance: the
    probability falls as k to the power of 1 - n, for any noise, and the sum over all intervals must stay the same."""
    return float(max(simultaneous, 1) ** (1 / max(launches - 1, 1)))


def decide_by_bootstrap(
    launches: Sequence[Points], holds: Callable[[Points], bool], levels: Sequence[float], at: Interval,
    over: Over = "every",
) -> Word:  # fmt: skip
    """Returns whether the statement holds. `levels`: numbers with which the judge compares a curve. `at`: the position
    of the paper's extreme; bounding curves have theirs there and elsewhere. `over`: the points over which the judge
    holds; if a single point can decide the answer, the intervals are corrected for their number."""
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
    chance = random.Random(SEED)
    for _ in range(RESAMPLES):
        yield median_curve(chance.choices(launches, k=len(launches)))


def bounding_curves(within: dict[float, Interval], levels: Sequence[float], at: Interval) -> Iterator[Points]:
    """Yields curves inside the intervals: lowest, highest, alternating, as flat as possible, rising, falling, and those
    that are high only within `at`, or only outside of it."""
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
