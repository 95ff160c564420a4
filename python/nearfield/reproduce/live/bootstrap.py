"""Decides by bootstrap whether a statement holds for a curve that was measured in several launches.

The unit of resampling is the launch (one MPI job), because each launch gets other memory pages, and on a virtual
machine possibly other cores. The judge evaluates median curves of resampled launches; all points of such a curve come
from the same launches. Since resampled curves never leave the range of the measurements, the judge also evaluates the
bounding curves of the confidence intervals. A statement is decided only if all of these curves lead to the same result.

If a single point of the curve can decide the statement (one gain proves "some size gains" and one loss refutes "every
size gains"), the error probability grows with the number of points. In this case the intervals are widened, so that all
points together have the error probability of one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from statistics import median
from typing import Literal

from nearfield.reproduce.curves import Points
from nearfield.reproduce.judges import Quantifier

NUM_RESAMPLES, RANDOM_SEED = 200, 20121105
CONFIDENCE_LEVEL = 0.95
MIN_LAUNCHES = 3  # minimum number of launches for an answer

AnswerWord = Literal["holds", "does not", "cannot tell"]
Interval = tuple[float, float]


def median_curve(launch_curves: Sequence[Points]) -> Points:
    """Returns x -> median over the launches, for the x values at which all launches have a point."""
    shared = [x for x in launch_curves[0] if all(x in one for one in launch_curves)]
    return {x: median(one[x] for one in launch_curves) for x in shared}


def launch_intervals(launch_curves: Sequence[Points], num_simultaneous: int = 1) -> dict[float, Interval]:
    """Returns x -> interval. The interval is the median over the launches plus and minus their range (maximum minus
    minimum), multiplied by interval_widening(). The probability that the true value is outside its interval (or that
    any of `num_simultaneous` true values is) is 1 % with five launches, 3 % with four, and 10 % with three
    (tests/unit/test_here.py)."""
    widening = interval_widening(num_simultaneous, len(launch_curves))
    interval_by_x = {}
    for x, y in median_curve(launch_curves).items():
        ys = [one[x] for one in launch_curves]
        half_width = widening * (max(ys) - min(ys))
        interval_by_x[x] = (y - half_width, y + half_width)
    return interval_by_x


def interval_widening(num_intervals: int, num_launches: int) -> float:
    """Returns the factor k by which to widen `num_intervals` intervals, so that the probability that any of them misses
    its true value stays that of one interval. An interval of k ranges misses the true value with a probability
    proportional to k^(1 - n) for n launches, whatever the distribution of the noise."""
    return float(max(num_intervals, 1) ** (1 / max(num_launches - 1, 1)))


def decide_by_bootstrap(
    launch_curves: Sequence[Points], holds: Callable[[Points], bool], reference_levels: Sequence[float],
    extreme_range: Interval, quantifier: Quantifier = "every",
) -> AnswerWord:  # fmt: skip
    """Returns whether the statement holds, according to the predicate `holds` on curves. `reference_levels` are numbers
    with which the judge compares a curve. `extreme_range` is the range of x in which the paper's extreme lies: bounding
    curves have their extreme inside or outside of it. `quantifier` is that of the judge: if a single point can decide
    the statement, the intervals are widened for the number of points."""
    if len(launch_curves) < MIN_LAUNCHES:
        return "cannot tell"
    num_points = len(median_curve(launch_curves))
    outcomes = [holds(curve) for curve in _resampled_median_curves(launch_curves)]
    share_holding = sum(outcomes) / len(outcomes)

    def all_bounds_agree(expected: bool, can_one_point_decide: bool) -> bool:
        interval_by_x = launch_intervals(launch_curves, num_points if can_one_point_decide else 1)
        return all(
            holds(curve) is expected for curve in bounding_curves(interval_by_x, reference_levels, extreme_range)
        )

    if share_holding >= CONFIDENCE_LEVEL and all_bounds_agree(True, can_one_point_decide=quantifier != "every"):
        return "holds"
    return (
        "does not"
        if share_holding <= 1 - CONFIDENCE_LEVEL and all_bounds_agree(False, can_one_point_decide=quantifier != "some")
        else "cannot tell"
    )


def _resampled_median_curves(launch_curves: Sequence[Points]) -> Iterator[Points]:
    """Yields NUM_RESAMPLES median curves, each of launches drawn with replacement. The seed is fixed."""
    generator = random.Random(RANDOM_SEED)
    for _ in range(NUM_RESAMPLES):
        yield median_curve(generator.choices(launch_curves, k=len(launch_curves)))


def bounding_curves(
    interval_by_x: dict[float, Interval], reference_levels: Sequence[float], extreme_range: Interval
) -> Iterator[Points]:
    """Yields extreme curves inside the intervals: the lowest, the highest, two that alternate between low and high,
    curves as close as possible to each reference level, one rising, one falling, and curves that are high only inside
    or only outside of `extreme_range`."""
    low, high = ({x: ends[side] for x, ends in interval_by_x.items()} for side in (0, 1))
    yield from (low, high)
    for odd in (0, 1):
        yield {x: interval_by_x[x][(i + odd) % 2] for i, x in enumerate(interval_by_x)}
    reference_levels = (*reference_levels, (max(low.values()) + min(high.values())) / 2)
    rising = [*accumulate(low.values(), max)][:-1] + [*high.values()][-1:]
    falling = [*accumulate(high.values(), min)][:-1] + [*low.values()][-1:]
    for targets in (*map(repeat, reference_levels), rising, falling):
        yield {x: min(max(y, low[x]), high[x]) for x, y in zip(interval_by_x, targets, strict=False)}
    is_inside_by_x = {x: extreme_range[0] <= x <= extreme_range[1] for x in interval_by_x}
    for inside_peak in (True, False):
        yield {x: interval_by_x[x][is_inside_by_x[x] == inside_peak] for x in interval_by_x}
