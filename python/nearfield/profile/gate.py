"""Decides for a script whether profile B is slower than profile A. Pure functions without I/O.

The gate fails closed: the verdict "not slower", too, needs the support of records. By default, the gate tests the
geometric mean of each scenario's stable times. Optionally it also tests each single time. Times differ between two runs
by more than their intervals (page placement, other load). So a single time counts as slower only if its ratio is
outside the scatter of its scenario's ratios; see `_ratio_limits`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Literal

from nearfield.base.estimates import t_quantile
from nearfield.base.frames import pl
from nearfield.base.units import format_ratio
from nearfield.base.words import join_and
from nearfield.profile.compare import Change, Comparison, declared_metrics
from nearfield.profile.differences import record_location_text
from nearfield.profile.places import moved_pairs

if TYPE_CHECKING:
    from nearfield.profile.schema import Run

MIN_STABLE_SHARE = 0.5  # minimum share of a scenario's times that are stable in both profiles
MAX_FALSE_ALARM_SHARE = 0.05  # maximum probability that any single time is called slower although nothing changed
MAX_HIDDEN_SLOWDOWN = 2.0  # if the scatter may hide a larger slowdown of a single time, the gate does not decide
_SIGMA_OF_MAD = 1.4826  # standard deviation over median absolute deviation, for a normal distribution
# The median absolute deviation (MAD) of n values is as precise as the standard deviation of 0.37 n values.
_EFFICIENCY_OF_MAD = 0.37
_SIGMAS_OF_95 = 1.96

GateVerdict = Literal["slower", "not slower", "not decided"]


@dataclass(frozen=True)
class SlowTime:
    """A single time that is significantly slower: where it is measured, its ratio B/A, and the largest ratio that is
    within the scatter."""

    where: str
    ratio: float
    limit: float


@dataclass(frozen=True)
class GatedScenario:
    """The verdict on one scenario with its reason, the number of its times, the number of times stable in both
    profiles, and the geometric mean of their ratios B/A."""

    verdict: GateVerdict
    reason: str
    times: int
    stable: int
    geometric_mean: float | None = None
    slow_times: list[SlowTime] = field(default_factory=list)


@dataclass(frozen=True)
class GateResult:
    """The overall verdict, and the verdicts on the scenarios. `reasons` say what prevents a decision."""

    verdict: GateVerdict
    scenarios: Mapping[str, GatedScenario]
    reasons: list[str]


@dataclass(frozen=True)
class GateLimits:
    """The limits of "slower": a scenario's mean ratio above 1 + `share`, or with `each` also a single ratio.
    `least_stable` is the minimum share of a scenario's times that are stable in both profiles."""

    share: float
    least_stable: float = MIN_STABLE_SHARE
    each: bool = False


def judge_slowdown(comparison: Comparison, runs: tuple[Run, Run], limits: GateLimits) -> GateResult:
    """Returns whether B is slower than A. One scenario that is significantly slower decides for all. Otherwise the
    verdict is "not decided" unless every scenario is decided and both profiles are complete. If the core-to-core
    latency of a pair differs between the profiles, nothing is decided, because the times are those of other cores."""
    times = _declared_times(comparison)
    lone = _lone_times(comparison, declared_metrics(*runs))
    stable = {name: [c for c in own if c.ratio and c.verdict != "unstable"] for name, own in times.items()}
    compared = sum(map(len, stable.values()))
    scenarios = {
        name: _judge_scenario(stable.get(name, []), len(times.get(name, [])), lone.get(name, (0, 0)), compared, limits)
        for name in dict.fromkeys([*times, *lone])
    }
    verdicts = {one.verdict for one in scenarios.values()}
    unfinished = [name for name, run in zip("AB", runs, strict=True) if not run.complete]
    reasons = [f"profile {join_and(unfinished)} is incomplete"] if unfinished else []
    reasons += [f"{name}: {one.reason}" for name, one in scenarios.items() if one.verdict == "not decided"]
    reasons += [] if scenarios else ["the two profiles have no time that could be compared"]
    if moved := moved_pairs(*runs):
        return GateResult("not decided", scenarios, [*map(str, moved), *reasons])
    if "slower" in verdicts:
        return GateResult("slower", scenarios, reasons)
    return GateResult("not decided" if reasons else "not slower", scenarios, reasons)


def _declared_times(comparison: Comparison) -> dict[str, list[Change]]:
    """Returns scenario -> the declared times for which at least one profile has a value."""
    found: dict[str, list[Change]] = {}
    for change in comparison.changes:
        if change.unit == "ns" and not change.diagnostic and (change.a or change.b):
            found.setdefault(change.key["scenario"], []).append(change)
    return found


def _lone_times(comparison: Comparison, declared: set[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Returns scenario -> (number of declared times that only A has, number that only B has)."""
    found: dict[str, list[int]] = {}
    for side, records in enumerate((comparison.only_a, comparison.only_b)):
        rows = records.filter((pl.col("unit") == "ns") & pl.col("value").is_not_null())
        for scenario, metric in rows.select("scenario", "metric").iter_rows():
            if not declared or (scenario, metric) in declared:
                found.setdefault(scenario, [0, 0])[side] += 1
    return {scenario: (a, b) for scenario, (a, b) in found.items()}


def _judge_scenario(
    stable: list[Change], common: int, lone: tuple[int, int], compared: int, limits: GateLimits
) -> GatedScenario:
    """Returns the verdict on one scenario with `common` times in both profiles and `lone` times in only A and only B.
    Times that only B has (more sizes) do not matter if B has all times of A."""
    times = common + lone[0] if common else sum(lone)
    ratios = [c.ratio.value for c in stable if c.ratio]
    mean = geometric_mean(ratios) if ratios else None
    bounds = _ratio_limits(stable, compared, limits.share) if limits.each else []
    slow = [
        SlowTime(f"{change.key['metric']}, {record_location_text(change.key)}", change.ratio.value, bound)
        for change, bound in zip(stable, bounds, strict=False)
        if change.ratio and change.ratio.value > bound
    ]
    reason = _missing_times_reason(common, lone, times, len(stable), limits)
    if not reason and ((mean and mean > 1 + limits.share) or slow):
        return GatedScenario("slower", "", times, len(stable), mean, slow)
    reason = reason or _hidden_slowdown_reason(max(bounds, default=0.0))
    return GatedScenario("not decided" if reason else "not slower", reason, times, len(stable), mean)


def _missing_times_reason(common: int, lone: tuple[int, int], times: int, stable: int, limits: GateLimits) -> str:
    """Returns which times a verdict on the scenario lacks, as text for people; '' if none."""
    if not common:
        return f"only profile {'A' if lone[0] else 'B'} has it" if not all(lone) else "the two have no time in common"
    if stable and stable >= limits.least_stable * times:
        return ""
    share = f"{100 * limits.least_stable:g} %"
    return f"{stable} of {times} times are stable in both profiles, and at least {share} must be"


def _hidden_slowdown_reason(limit: float) -> str:
    """Returns why no single time can be called not slower: the scatter may hide a slowdown up to `limit`. Returns '' if
    `limit` is at most MAX_HIDDEN_SLOWDOWN."""
    if limit <= MAX_HIDDEN_SLOWDOWN:
        return ""
    seen = f"if its ratio were above {format_ratio(limit)}" if math.isfinite(limit) else "at no ratio"
    return f"its times scatter so much between the two runs that a slower single one would be seen {seen}"


def _ratio_limits(stable: Sequence[Change], compared: int, share: float) -> list[float]:
    """Returns, for each ratio, the largest value that is consistent with a true ratio of at most 1 + `share`.

    The logarithm of a ratio varies by its own interval, and by differences between two runs. The latter are estimated
    from the scatter of the scenario's ratios around their median (median absolute deviation, which is robust against a
    few times that really changed). The limit is the quantile of Student's t, with the effective degrees of freedom of
    this estimate, at MAX_FALSE_ALARM_SHARE divided by the number of all `compared` times (Bonferroni). Exact times from
    a simulator do not scatter."""
    logs = [math.log(c.ratio.value) for c in stable if c.ratio]
    sigmas = [
        math.log(c.ratio.value / c.ratio.low) / _SIGMAS_OF_95 if c.ratio and c.ratio.low else math.inf for c in stable
    ]
    if not any(sigmas):
        return [1 + share] * len(logs)
    middle = median(logs)
    scatter = _SIGMA_OF_MAD * median(abs(value - middle) for value in logs)
    quantile = t_quantile(1 - MAX_FALSE_ALARM_SHARE / compared, _EFFICIENCY_OF_MAD * (len(logs) - 1))
    exponents = (math.log1p(share) + quantile * math.hypot(sigma, scatter) for sigma in sigmas)
    return [math.exp(exponent) if exponent < 700 else math.inf for exponent in exponents]
