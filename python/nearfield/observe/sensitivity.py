"""Computes error bars of the simulated times of a program, and which values of the machine file cause them. The trace
is replayed once for each changed value (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nearfield.machine import DescribedMachine
from nearfield.machine.sweep import with_settings
from nearfield.machine.uncertainty import Range, Variation, range_of_factor, range_of_share, uncertainty_of
from nearfield.observe.replay import Replay, Times


@dataclass(frozen=True)
class ProgramSensitivity:
    """Times of a program with error bars. `times_ns`: of the slowest rank under the base policy, by memory slowdown.
    `saved`: policy -> the share of that time that the policy saves, by memory slowdown. `influences`: variations of
    machine values with the factor by which each changes the first time, the largest change first. `fixed`: keys that
    cannot be varied."""

    times_ns: list[Range]
    saved: dict[str, list[Range]]
    influences: list[tuple[Variation, float]]
    fixed: tuple[str, ...]


def sensitivity_of_program(
    base: Replay, simulate: Callable[[DescribedMachine], Replay], progress: Callable[[int, int], None]
) -> ProgramSensitivity:
    """Returns the error bars of a replayed program. `simulate` replays it on a variant of the machine. Calls
    `progress(number, all)` before each replay."""
    cluster = base.cluster
    uncertainty = uncertainty_of(cluster.machine)
    varied: dict[Variation, Times] = {}
    for number, one in enumerate(uncertainty.variations, 1):
        progress(number, len(uncertainty.variations))
        varied[one] = simulate(with_settings(cluster.machine, ((one.key, one.other),))).time_ns()
    times, speeds = base.time_ns(), range(len(cluster.slowdowns))

    def saved(of: Times, policy: int, speed: int) -> float:
        return 1 - of[policy][speed] / of[0][speed]

    factors = [(one, of[0][0] / times[0][0]) for one, of in varied.items()]
    return ProgramSensitivity(
        [range_of_factor(times[0][speed], {one: of[0][speed] for one, of in varied.items()}) for speed in speeds],
        {
            name: [
                range_of_share(
                    saved(times, policy, speed), {one: saved(of, policy, speed) for one, of in varied.items()}
                )
                for speed in speeds
            ]
            for policy, name in enumerate(cluster.policies)
            if policy > 0
        },
        sorted(factors, key=lambda one: -abs(math.log(one[1]))),
        uncertainty.fixed,
    )
