"""Computes what a setting gains over stock from times taken in turn, in pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist, fmean, median, stdev
from typing import NamedTuple

from nearfield import _native

# Places of two cores, by the time in ns of a flag between them: hardware threads of one core, or cores that share near
# caches; cores of one package; cores farther apart, as a virtual machine's host may place them.
DISTANCE_BORDERS_NS = (35.0, 140.0)
MIN_LAUNCHES = 3  # from so many on, intervals come from launches, which vary more than pairs
MIN_CONFIRMING_LAUNCHES = 6  # the fewest whose least and greatest hold the median with 95 % certainty
Case = tuple[str, int]  # pattern, size in bytes


class Pair(NamedTuple):
    """Times in ns of stock and of the setting, milliseconds apart, and of a flag between the two cores meanwhile; and
    the number of the launch of the two jobs."""

    stock: float
    other: float
    flag: float = 0.0
    launch: int = 0


@dataclass(frozen=True)
class Gain:
    """Stock's time over the setting's: above 1 is faster. A median with its 95 % interval over `n` launches, or pairs
    of times where there were only one or two launches."""

    value: float
    low: float
    high: float
    n: int

    def below(self, limit: float) -> bool:
        """Returns whether it is probably below a limit: its value is, and its interval ends at most 3 % above."""
        return self.value < limit and self.high < 1.03 * limit

    @property
    def faster(self) -> bool:
        """Returns whether it is surely above 1, by twice the measurement's error. Once is not enough, because the best
        of many looks better than it is: slow-looking ones were measured again, and fast-looking ones were not."""
        return self.low**2 > self.value

    def among(self, count: int) -> Gain:
        """Returns the gain with the interval that it needs if it is picked out of `count` gains for being large: so
        wide that all their intervals hold together with 95 % (Bonferroni), if errors are normal on a log scale."""
        wider = NormalDist().inv_cdf(1 - 0.025 / max(1, count)) / NormalDist().inv_cdf(0.975)
        low, high = (self.value * (end / self.value) ** wider for end in (self.low, self.high))
        return Gain(self.value, low, high, self.n)


def median_gain(pairs: Sequence[Pair]) -> Gain:
    """Returns the gain of a case: the median of its launches' medians, or of all pairs if launches are few."""
    launches = [[pair for pair in pairs if pair.launch == launch] for launch in {pair.launch for pair in pairs}]
    if len(launches) >= MIN_LAUNCHES:
        ratios = [median(pair.stock / pair.other for pair in launch) for launch in launches]
        ratio = _native.paired_ratio([1.0] * len(ratios), ratios)
    else:
        ratio = _native.paired_ratio([pair.other for pair in pairs], [pair.stock for pair in pairs])
    return Gain(ratio.value, ratio.low, ratio.high, ratio.n)


def distance_class_of(flag_ns: float) -> int:
    """Returns the number of the place (PLACES_NS) of two cores, the nearest first."""
    return sum(flag_ns >= border for border in DISTANCE_BORDERS_NS)


def same_distance(one_ns: float, other_ns: float) -> bool:
    """Returns whether two times of a flag are of one place, or too near for a border between them to matter."""
    return distance_class_of(one_ns) == distance_class_of(other_ns) or max(one_ns, other_ns) <= 1.25 * min(
        one_ns, other_ns
    )


def group_by_distance(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Returns groups of pairs with the cores in the same place, the nearest first, without empty groups."""
    groups: list[list[Pair]] = [[] for _ in range(len(DISTANCE_BORDERS_NS) + 1)]
    for pair in pairs:
        groups[distance_class_of(pair.flag)].append(pair)
    return [group for group in groups if group]


def in_dominant_placement(pairs: Mapping[Case, Sequence[Pair]]) -> dict[Case, list[Pair]]:
    """Returns the pairs from the place where the cores mostly were, since a virtual machine's cores move. Leaves out
    cases without such pairs."""
    groups = group_by_distance(pair for taken in pairs.values() for pair in taken)
    place = distance_class_of(max(groups, key=len)[0].flag) if groups else 0
    there = {case: [pair for pair in taken if distance_class_of(pair.flag) == place] for case, taken in pairs.items()}
    return {case: kept for case, kept in there.items() if kept}


def dominant_latency(pairs: Mapping[Case, Sequence[Pair]]) -> float:
    """Returns the ns that a flag mostly took between the cores."""
    return median(pair.flag for taken in in_dominant_placement(pairs).values() for pair in taken)


def geometric_mean(gains: Iterable[Gain]) -> Gain:
    """Returns the mean of independent gains. Its interval comes from theirs, as if errors were normal on a log scale;
    if one is of a single pair, which has no interval, it also covers how the gains differ."""
    logs = [(math.log(g.value), (math.log(g.high) - math.log(g.low)) / 2, g.n) for g in gains]
    if not logs:
        raise ValueError("no gains")
    middle = math.fsum(value for value, _, _ in logs) / len(logs)
    half = math.sqrt(math.fsum(width**2 for _, width, _ in logs)) / len(logs)
    if len(logs) > 1 and any(n == 1 for _, _, n in logs):
        half = max(half, 2 * stdev(value for value, _, _ in logs) / math.sqrt(len(logs)))
    return Gain(math.exp(middle), math.exp(middle - half), math.exp(middle + half), sum(n for _, _, n in logs))


def joint_gain(cases: Sequence[Sequence[Pair]]) -> Gain:
    """Returns the geometric mean of the gains of several cases that were measured in the same launches. A launch slows
    all its cases alike, by where its memory happens to lie, so the interval comes from the means of the launches."""
    gains = [median_gain(pairs) for pairs in cases]
    mean = geometric_mean(gains)
    deviations: dict[int, list[float]] = defaultdict(list)  # by launch: log ratios of its cases to their medians
    for pairs, typical in zip(cases, gains, strict=True):
        for launch in {pair.launch for pair in pairs}:
            ratio = median(pair.stock / pair.other for pair in pairs if pair.launch == launch)
            deviations[launch].append(math.log(ratio / typical.value))
    if len(deviations) < MIN_LAUNCHES:
        return mean
    ratios = [mean.value * math.exp(fmean(differences)) for differences in deviations.values()]
    found = _native.paired_ratio([1.0] * len(ratios), ratios)
    return Gain(found.value, found.low, found.high, found.n)


@dataclass(frozen=True)
class Range:
    """Consecutive sizes with one gain."""

    from_bytes: int
    to_bytes: int
    gain: Gain


def gain_by_range(cases: Iterable[Case], limits: Sequence[int], mean: Callable[[list[Case]], Gain]) -> list[Range]:
    """Returns the ranges of sizes between the limits (bytes, ascending). `mean` returns the gain of cases together."""
    found = []
    cases, borders = list(cases), [0, *limits, math.inf]
    for above, upto in zip(borders, borders[1:], strict=False):
        if inside := [case for case in cases if above < case[1] <= upto]:
            sizes = [size for _, size in inside]
            found.append(Range(min(sizes), max(sizes), mean(inside)))
    return found


def select_gaining_range(gains: Mapping[Case, Gain], least: float) -> Range | None:
    """Returns the consecutive sizes that gain most, at each of which all patterns together surely gain `least`. Sizes
    are picked by their gains, so the intervals are those of picks among all sizes."""
    sizes = sorted({size for _, size in gains})
    alone = {size: geometric_mean(g for case, g in gains.items() if case[1] == size) for size in sizes}
    means = {size: one.among(len(sizes)) for size, one in alone.items()}
    runs = [list(run) for gains_there, run in groupby(sizes, lambda size: means[size].low > least) if gains_there]
    if not runs:
        return None
    best = max(runs, key=lambda run: math.fsum(math.log(means[size].value) for size in run))
    return Range(best[0], best[-1], geometric_mean(means[size] for size in best))
