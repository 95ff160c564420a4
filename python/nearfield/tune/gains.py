"""What a setting gains over stock, from times taken in turn. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median, stdev
from typing import NamedTuple

from nearfield import _native

NEVER_BELOW = 0.97  # of stock, at any size: the promise of tune
PATTERN_NEVER_BELOW = 0.9  # of stock, in one pattern at a size where all together lose nothing
WORTH_TELLING = 1.05
NOISE = 0.07  # what a pair or two may show of a setting that loses nothing
MOST_CREDIBLE = 8.0
FARTHER = 1.8  # a flag that takes so many times as long: the cores are not where they were
MAIN = "pingpong"  # the pattern that everybody measures
Case = tuple[str, int]  # pattern, size in bytes


class Pair(NamedTuple):
    """Times of stock and of the setting, milliseconds apart, and of a flag between the two cores meanwhile, in ns."""

    stock: float
    other: float
    flag: float = 0.0


@dataclass(frozen=True)
class Gain:
    """Stock's time over the setting's: above 1 is faster. A median with its 95 % interval over `n` pairs."""

    value: float
    low: float
    high: float
    n: int

    @property
    def slower(self) -> bool:
        """Beyond what the measurement may be wrong by, and beyond what counts."""
        return self.below(NEVER_BELOW)

    def below(self, limit: float) -> bool:
        """Beyond what the measurement may be wrong by."""
        return self.value < limit and self.high < limit / NEVER_BELOW

    @property
    def faster(self) -> bool:
        """Surely: above 1 by twice what the measurement may be wrong by. Once is not enough for the best of many, of
        which what looked slow was measured again, and what looked fast was not."""
        return self.low**2 > self.value


def gain(pairs: Sequence[Pair]) -> Gain:
    ratio = _native.paired_ratio([pair.other for pair in pairs], [pair.stock for pair in pairs])
    return Gain(ratio.value, ratio.low, ratio.high, ratio.n)


def usual(pairs: Mapping[Case, Sequence[Pair]]) -> dict[Case, list[Pair]]:
    """Those taken with the cores as far apart as they mostly were, since a virtual machine's move; of each case that
    has any."""
    groups = by_flag(pair for taken in pairs.values() for pair in taken)
    there = max(groups, key=len, default=[])
    return {
        case: kept
        for case, taken in pairs.items()
        if (kept := [pair for pair in taken if there[0].flag <= pair.flag <= there[-1].flag])
    }


def flag_of(pairs: Mapping[Case, Sequence[Pair]]) -> float:
    """What a flag mostly took between the cores, in ns."""
    return median(pair.flag for taken in usual(pairs).values() for pair in taken)


def alike(one_ns: float, other_ns: float) -> bool:
    """Whether the cores are as far apart: a flag takes about as long."""
    return max(one_ns, other_ns) <= FARTHER * min(one_ns, other_ns)


def by_flag(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Groups of pairs with the cores equally far apart, the nearest first."""
    groups: list[list[Pair]] = []
    for pair in sorted(pairs, key=lambda pair: pair.flag):
        if groups and pair.flag <= FARTHER * groups[-1][-1].flag:
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return groups


def tamer(one: Gain, other: Gain) -> Gain:
    """Of two launches, the one that differs less from stock: what is slower or faster in one launch only is neither."""
    return min(one, other, key=lambda gain: abs(math.log(gain.value)))


def broken(gains: Mapping[Case, Gain], never_below: float = NEVER_BELOW) -> list[Case]:
    """The cases that break the promise: where a size is slower in ping-pong, or in all patterns together, those of its
    patterns that are; and any pattern that is slower by more than may be made up for by others."""
    lost = []
    for size in sorted({size for _, size in gains}):
        there = {case: g for case, g in gains.items() if case[1] == size}
        main = [g for (pattern, _), g in there.items() if pattern == MAIN]
        if any(g.below(never_below) for g in (*main, geometric_mean(there.values()))):
            lost += [case for case, g in there.items() if g.value < never_below]
        else:
            lost += [case for case, g in there.items() if g.below(min(never_below, PATTERN_NEVER_BELOW))]
    return lost


def geometric_mean(gains: Iterable[Gain]) -> Gain:
    """The mean of independent gains; its interval from the intervals, as if errors were normal on a log scale. One pair
    has no interval: then from how the gains differ."""
    logs = [(math.log(g.value), (math.log(g.high) - math.log(g.low)) / 2, g.n) for g in gains]
    if not logs:
        raise ValueError("no gains")
    middle = math.fsum(value for value, _, _ in logs) / len(logs)
    half = math.sqrt(math.fsum(width**2 for _, width, _ in logs)) / len(logs)
    if len(logs) > 1 and any(n == 1 for _, _, n in logs):
        half = max(half, 2 * stdev(value for value, _, _ in logs) / math.sqrt(len(logs)))
    return Gain(math.exp(middle), math.exp(middle - half), math.exp(middle + half), sum(n for _, _, n in logs))


def score(gains: Mapping[Case, Gain], never_below: float = NEVER_BELOW) -> float:
    """What a search maximises: the mean log gain over patterns and sizes, less what it loses anywhere beyond what is
    allowed. A loss weighs as if it were at three sizes: a few pairs cannot tell it from noise, the finals can. Beyond
    what noise may be, as if at nine: the finals will refuse it. Nothing counts for more than MOST_CREDIBLE: a job that
    was not running for a while looks a hundred times slower."""
    logs = [math.log(min(max(g.value, 1 / MOST_CREDIBLE), MOST_CREDIBLE)) for g in gains.values()]
    losses = 2 * _below(logs, never_below) + 6 * _below(logs, never_below - NOISE)
    return (math.fsum(logs) - losses) / len(logs)


def _below(logs: Iterable[float], limit: float) -> float:
    return math.fsum(max(0.0, math.log(limit) - value) for value in logs)


@dataclass(frozen=True)
class Range:
    """Consecutive sizes with one gain."""

    from_bytes: int
    to_bytes: int
    gain: Gain


def ranges(gains: Mapping[Case, Gain], limits: Sequence[int]) -> list[Range]:
    """The gain between the limits (bytes, ascending), all patterns together."""
    found = []
    borders = [0, *limits, math.inf]
    for above, upto in zip(borders, borders[1:], strict=False):
        inside = {case: g for case, g in gains.items() if above < case[1] <= upto}
        if inside:
            sizes = [size for _, size in inside]
            found.append(Range(min(sizes), max(sizes), geometric_mean(inside.values())))
    return found


def gaining(gains: Mapping[Case, Gain], least: float) -> Range | None:
    """Of consecutive sizes at each of which all patterns together surely gain so much, those that gain most in all."""
    sizes = sorted({size for _, size in gains})
    means = {size: geometric_mean(g for case, g in gains.items() if case[1] == size) for size in sizes}
    runs = [list(run) for gains_there, run in groupby(sizes, lambda size: means[size].low > least) if gains_there]
    if not runs:
        return None
    best = max(runs, key=lambda run: math.fsum(math.log(means[size].value) for size in run))
    return Range(best[0], best[-1], geometric_mean(means[size] for size in best))
