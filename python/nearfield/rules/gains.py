"""Computes the gain of settings over the baseline from interleaved measurements, in pure functions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median, stdev
from typing import NamedTuple

from nearfield.base.paired import MIN_PAIRS, Gain, paired_gain

# Borders in ns between classes of core-to-core latency: hardware threads of one core or cores that share inner caches;
# cores of one package; cores of different packages (where a hypervisor may place vCPUs).
LATENCY_CLASS_BORDERS_NS = (35.0, 140.0)
MIN_LAUNCHES = 3  # min launches for an interval over launches, which vary more than pairs of one launch
MIN_CONFIRMING_LAUNCHES = MIN_PAIRS
BenchmarkCase = tuple[str, int]  # (pattern, message size in bytes)


class TimePair(NamedTuple):
    """Times in ns of the baseline and of the setting, measured within milliseconds of each other; the core-to-core
    latency in ns during the measurement; and the number of the launch of the two jobs."""

    baseline_ns: float
    other_ns: float
    c2c_latency_ns: float = 0.0
    launch_number: int = 0


def median_gain(pairs: Sequence[TimePair]) -> Gain:
    """Returns the gain of one case: the median over launches of each launch's median ratio. With fewer than
    MIN_LAUNCHES launches, computes the gain from the individual pairs."""
    launches = [
        [pair for pair in pairs if pair.launch_number == launch] for launch in {pair.launch_number for pair in pairs}
    ]
    if len(launches) >= MIN_LAUNCHES:
        ratios = [median(pair.baseline_ns / pair.other_ns for pair in launch) for launch in launches]
        return paired_gain(ratios, [1.0] * len(ratios))
    return paired_gain([pair.baseline_ns for pair in pairs], [pair.other_ns for pair in pairs])


def latency_class_of(c2c_latency_ns: float) -> int:
    """Returns the class of a core-to-core latency: 0 for the nearest (LATENCY_CLASS_BORDERS_NS)."""
    return sum(c2c_latency_ns >= border for border in LATENCY_CLASS_BORDERS_NS)


def is_same_distance(one_ns: float, other_ns: float) -> bool:
    """Returns whether two core-to-core latencies are in the same class, or differ by at most 25 %."""
    return latency_class_of(one_ns) == latency_class_of(other_ns) or max(one_ns, other_ns) <= 1.25 * min(
        one_ns, other_ns
    )


def group_by_latency_class(pairs: Iterable[TimePair]) -> list[list[TimePair]]:
    """Groups the pairs by class of core-to-core latency, nearest first. Omits empty groups."""
    groups: list[list[TimePair]] = [[] for _ in range(len(LATENCY_CLASS_BORDERS_NS) + 1)]
    for pair in pairs:
        groups[latency_class_of(pair.c2c_latency_ns)].append(pair)
    return [group for group in groups if group]


def pairs_in_dominant_placement(
    pairs: Mapping[BenchmarkCase, Sequence[TimePair]],
) -> dict[BenchmarkCase, list[TimePair]]:
    """Returns the pairs in the most frequent class of core-to-core latency, because a virtual machine's vCPUs may be
    moved during the measurement. Omits cases without such pairs."""
    groups = group_by_latency_class(pair for taken in pairs.values() for pair in taken)
    dominant = max(groups, key=len, default=[])
    latency_class = latency_class_of(dominant[0].c2c_latency_ns) if dominant else 0
    in_class = {
        case: [pair for pair in taken if latency_class_of(pair.c2c_latency_ns) == latency_class]
        for case, taken in pairs.items()
    }
    return {case: taken for case, taken in in_class.items() if taken}


def dominant_latency_ns(pairs: Mapping[BenchmarkCase, Sequence[TimePair]]) -> float:
    """Returns the median core-to-core latency in ns over the pairs in its most frequent class."""
    return median(pair.c2c_latency_ns for taken in pairs_in_dominant_placement(pairs).values() for pair in taken)


def geometric_mean(gains: Iterable[Gain]) -> Gain:
    """Returns the geometric mean of independent gains, with an interval computed from their intervals under the
    assumption of errors that are normal on a log scale. If some gain is based on a single pair, which has no interval,
    the result's interval also covers the spread between the gains. Raises ValueError for no gains."""
    logs = [(math.log(g.value), (math.log(g.high) - math.log(g.low)) / 2, g.n) for g in gains]
    if not logs:
        raise ValueError("no gains")
    middle = math.fsum(value for value, _, _ in logs) / len(logs)
    half = math.sqrt(math.fsum(width**2 for _, width, _ in logs)) / len(logs)
    if len(logs) > 1 and any(n == 1 for _, _, n in logs):
        half = max(half, 2 * stdev(value for value, _, _ in logs) / math.sqrt(len(logs)))
    return Gain(math.exp(middle), math.exp(middle - half), math.exp(middle + half), sum(n for _, _, n in logs))


def joint_gain(cases: Sequence[Sequence[TimePair]]) -> Gain:
    """Returns the geometric mean of the gains of several cases that were measured in the same launches. The memory
    addresses of a launch affect all its cases alike, so the interval is computed from the means of the launches."""
    gains = [median_gain(pairs) for pairs in cases]
    mean = geometric_mean(gains)
    deviations: dict[int, list[float]] = defaultdict(list)  # launch -> log ratios of its cases to the cases' medians
    for pairs, typical in zip(cases, gains, strict=True):
        for launch in {pair.launch_number for pair in pairs}:
            ratio = median(pair.baseline_ns / pair.other_ns for pair in pairs if pair.launch_number == launch)
            deviations[launch].append(math.log(ratio / typical.value))
    if len(deviations) < MIN_LAUNCHES:
        return mean
    ratios = [mean.value * math.exp(fmean(differences)) for differences in deviations.values()]
    return paired_gain(ratios, [1.0] * len(ratios))


@dataclass(frozen=True)
class SizeRange:
    """A range of consecutive message sizes with its joint gain."""

    from_bytes: int
    to_bytes: int
    gain: Gain


def gain_by_range(
    cases: Iterable[BenchmarkCase], limits_bytes: Sequence[int], mean_gain_of: Callable[[list[BenchmarkCase]], Gain]
) -> list[SizeRange]:
    """Returns the gain of each range of sizes between the limits (bytes, ascending). `mean_gain_of` computes the joint
    gain of a list of cases."""
    found = []
    cases, borders = list(cases), [0, *limits_bytes, math.inf]
    for above, upto in zip(borders, borders[1:], strict=False):
        if inside := [case for case in cases if above < case[1] <= upto]:
            sizes = [size for _, size in inside]
            found.append(SizeRange(min(sizes), max(sizes), mean_gain_of(inside)))
    return found


def select_gaining_range(gains: Mapping[BenchmarkCase, Gain], min_gain: float) -> SizeRange | None:
    """Returns the run of consecutive sizes with the largest total gain, in which the joint gain of all patterns is
    significantly above `min_gain` at each size; None if there is none. Uses simultaneous confidence intervals, because
    the sizes are selected by their gains."""
    sizes = sorted({size for _, size in gains})
    alone = {size: geometric_mean(g for case, g in gains.items() if case[1] == size) for size in sizes}
    means = {size: one.widen_for_selection(len(sizes)) for size, one in alone.items()}
    runs = [list(run) for gains_there, run in groupby(sizes, lambda size: means[size].low > min_gain) if gains_there]
    if not runs:
        return None
    best = max(runs, key=lambda run: math.fsum(math.log(means[size].value) for size in run))
    return SizeRange(best[0], best[-1], geometric_mean(means[size] for size in best))
