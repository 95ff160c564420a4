"""Computes error bars of the simulated times of a program, and which values of the machine file cause them. The trace
is replayed for each changed value (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nearfield.base.estimates import Estimate, ratio_of_estimates
from nearfield.machine.uncertainty import ErrorBar, Variation, error_bar_of_factor, error_bar_of_share
from nearfield.observe.repeats import RepeatedReplay


@dataclass(frozen=True)
class ProgramSensitivity:
    """Times of a program with error bars. `times_ns`: of the slowest rank under the base policy, by memory slowdown.
    `saved`: policy -> the share of that time that the policy saves, by memory slowdown. `influences`: variations of
    machine values with the factor by which each changes the first time, the largest change first. `num_undecided`: the
    number of variations whose factor is not known to differ from 1, because the times of repeated replays scatter.
    `fixed_keys`: keys that cannot be varied."""

    times_ns: list[ErrorBar]
    saved: dict[str, list[ErrorBar]]
    influences: list[tuple[Variation, float]]
    num_undecided: int
    fixed_keys: tuple[str, ...]


def sensitivity_of_program(
    base: RepeatedReplay, replay_by_variation: Mapping[Variation, RepeatedReplay], fixed_keys: tuple[str, ...]
) -> ProgramSensitivity:
    """Returns the error bars of a replayed program from its replays on each variant of the machine. If the replays are
    repeated, a variation counts only if the interval of its effect excludes "no effect", and the error bars include the
    interval of the base's mean."""
    speeds = range(len(base.cluster.slowdowns))
    factors = {
        one: ratio_of_estimates(base.estimate_time(0, 0), of.estimate_time(0, 0))
        for one, of in replay_by_variation.items()
    }
    decided = [(one, ratio.value) for one, ratio in factors.items() if ratio and not _interval_contains(ratio, 1)]
    exact = [(one, ratio.value) for one, ratio in factors.items() if ratio]
    influences = decided if base.has_intervals else exact
    return ProgramSensitivity(
        [_error_bar_of_time(base, replay_by_variation, speed) for speed in speeds],
        {
            name: [_error_bar_of_saving(base, replay_by_variation, policy, speed) for speed in speeds]
            for policy, name in enumerate(base.cluster.policies)
            if policy > 0
        },
        sorted(influences, key=lambda one: -abs(math.log(one[1]))),
        len(factors) - len(influences),
        fixed_keys,
    )


def _error_bar_of_time(
    base: RepeatedReplay, replay_by_variation: Mapping[Variation, RepeatedReplay], speed: int
) -> ErrorBar:
    """Returns the time under the base policy. The error bar adds the deviations of the variations and of the mean in
    quadrature, as factors."""
    mean = base.estimate_time(0, speed)
    if mean.value <= 0:
        return ErrorBar(mean.value, mean.low, mean.high)
    result_by_variation = _select_known_results(
        mean, replay_by_variation, lambda one: one.estimate_time(0, speed), ratio_of_estimates, 1
    )
    error_bar = error_bar_of_factor(mean.value, result_by_variation)
    down = math.hypot(
        math.log(error_bar.value / error_bar.low), math.log(mean.value / mean.low) if mean.low > 0 else math.inf
    )
    up = math.hypot(math.log(error_bar.high / error_bar.value), math.log(mean.high / mean.value))
    return ErrorBar(mean.value, mean.value * math.exp(-down), mean.value * math.exp(up))


def _error_bar_of_saving(
    base: RepeatedReplay, replay_by_variation: Mapping[Variation, RepeatedReplay], policy: int, speed: int
) -> ErrorBar:
    """Returns the share that a policy saves. The error bar adds the deviations of the variations and of the mean in
    quadrature, as differences."""
    mean = base.estimate_saving(policy, speed)
    result_by_variation = _select_known_results(
        mean, replay_by_variation, lambda one: one.estimate_saving(policy, speed), lambda a, b: b - a, 0
    )
    error_bar = error_bar_of_share(mean.value, result_by_variation)
    down = math.hypot(error_bar.value - error_bar.low, mean.value - mean.low)
    up = math.hypot(error_bar.high - error_bar.value, mean.high - mean.value)
    return ErrorBar(mean.value, mean.value - down, mean.value + up)


def _select_known_results(
    base: Estimate,
    replay_by_variation: Mapping[Variation, RepeatedReplay],
    result_of: Callable[[RepeatedReplay], Estimate],
    change: Callable[[Estimate, Estimate], Estimate | None],
    no_change: float,
) -> dict[Variation, float]:
    """Returns the results of those variations whose effect is significant: the interval of `change(base, result)` does
    not contain `no_change`."""
    known_results = {}
    for variation, repeated_replay in replay_by_variation.items():
        result = result_of(repeated_replay)
        difference = change(base, result)
        if difference and not _interval_contains(difference, no_change):
            known_results[variation] = result.value
    return known_results


def _interval_contains(estimate: Estimate, value: float) -> bool:
    return estimate.low <= value <= estimate.high
