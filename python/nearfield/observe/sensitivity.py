"""Computes error bars of the simulated times of a program, and which values of the machine file cause them. The trace
is replayed for each changed value (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nearfield.base.estimates import Estimate, ratio_of
from nearfield.machine.uncertainty import Range, Variation, range_of_factor, range_of_share
from nearfield.observe.repeats import RepeatedReplay


@dataclass(frozen=True)
class ProgramSensitivity:
    """Times of a program with error bars. `times_ns`: of the slowest rank under the base policy, by memory slowdown.
    `saved`: policy -> the share of that time that the policy saves, by memory slowdown. `influences`: variations of
    machine values with the factor by which each changes the first time, the largest change first. `undecided`: the
    number of variations whose factor is not known to differ from 1, because the times of repeated replays scatter.
    `fixed`: keys that cannot be varied."""

    times_ns: list[Range]
    saved: dict[str, list[Range]]
    influences: list[tuple[Variation, float]]
    undecided: int
    fixed: tuple[str, ...]


def sensitivity_of_program(
    base: RepeatedReplay, varied: Mapping[Variation, RepeatedReplay], fixed: tuple[str, ...]
) -> ProgramSensitivity:
    """Returns the error bars of a replayed program from its replays on each variant of the machine. If the replays are
    repeated, a variation counts only if the intervals tell its result from that of the base, and the error bars contain
    the interval of the base's mean."""
    speeds = range(len(base.cluster.slowdowns))
    factors = {one: ratio_of(base.estimate_time(0, 0), of.estimate_time(0, 0)) for one, of in varied.items()}
    decided = [(one, ratio.value) for one, ratio in factors.items() if ratio and not _contains(ratio, 1)]
    exact = [(one, ratio.value) for one, ratio in factors.items() if ratio]
    influences = decided if base.has_intervals else exact
    return ProgramSensitivity(
        [_time_range(base, varied, speed) for speed in speeds],
        {
            name: [_saving_range(base, varied, policy, speed) for speed in speeds]
            for policy, name in enumerate(base.cluster.policies)
            if policy > 0
        },
        sorted(influences, key=lambda one: -abs(math.log(one[1]))),
        len(factors) - len(influences),
        fixed,
    )


def _time_range(base: RepeatedReplay, varied: Mapping[Variation, RepeatedReplay], speed: int) -> Range:
    """Returns the time under the base policy. The error bar adds the deviations of the variations and of the mean in
    quadrature, as factors."""
    mean = base.estimate_time(0, speed)
    if mean.value <= 0:
        return Range(mean.value, mean.low, mean.high)
    changed = _known_results(mean, varied, lambda one: one.estimate_time(0, speed), ratio_of, 1)
    found = range_of_factor(mean.value, changed)
    down = math.hypot(math.log(found.value / found.low), math.log(mean.value / mean.low) if mean.low > 0 else math.inf)
    up = math.hypot(math.log(found.high / found.value), math.log(mean.high / mean.value))
    return Range(mean.value, mean.value * math.exp(-down), mean.value * math.exp(up))


def _saving_range(base: RepeatedReplay, varied: Mapping[Variation, RepeatedReplay], policy: int, speed: int) -> Range:
    """Returns the share that a policy saves. The error bar adds the deviations of the variations and of the mean in
    quadrature, as differences."""
    mean = base.estimate_saving(policy, speed)
    changed = _known_results(mean, varied, lambda one: one.estimate_saving(policy, speed), lambda a, b: b - a, 0)
    found = range_of_share(mean.value, changed)
    down = math.hypot(found.value - found.low, mean.value - mean.low)
    up = math.hypot(found.high - found.value, mean.high - mean.value)
    return Range(mean.value, mean.value - down, mean.value + up)


def _known_results(
    base: Estimate,
    varied: Mapping[Variation, RepeatedReplay],
    result_of: Callable[[RepeatedReplay], Estimate],
    change: Callable[[Estimate, Estimate], Estimate | None],
    no_change: float,
) -> dict[Variation, float]:
    """Returns the results of the variations whose change from the base is known: the interval of `change(base, result)`
    does not contain `no_change`."""
    found = {}
    for variation, repeated in varied.items():
        result = result_of(repeated)
        difference = change(base, result)
        if difference and not _contains(difference, no_change):
            found[variation] = result.value
    return found


def _contains(one: Estimate, value: float) -> bool:
    return one.low <= value <= one.high
