"""Decides whether profile B is slower than profile A, for scripts that gate on performance. Pure functions without I/O.

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
from nearfield.profile.compare import Comparison, RecordChange, declared_metrics
from nearfield.profile.differences import record_location_text
from nearfield.profile.places import find_moved_pairs

if TYPE_CHECKING:
    from nearfield.profile.schema import Run

MIN_STABLE_SHARE = 0.5  # minimum share of a scenario's times that are stable in both profiles
MAX_FALSE_ALARM_RATE = 0.05  # maximum probability that any single time is called slower although nothing changed
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
    """The limits of "slower": a scenario's mean ratio above 1 + `max_slowdown`, or with `checks_single_times` also a
    single ratio. `min_stable_share` is the minimum share of a scenario's times that are stable in both profiles."""

    max_slowdown: float
    min_stable_share: float = MIN_STABLE_SHARE
    checks_single_times: bool = False


def judge_slowdown(comparison: Comparison, runs: tuple[Run, Run], limits: GateLimits) -> GateResult:
    """Returns whether B is slower than A. One scenario that is significantly slower decides for all. Otherwise the
    verdict is "not decided" unless every scenario is decided and both profiles are complete. If the core-to-core
    latency of a pair differs between the profiles, nothing is decided, because the times are those of other cores."""
    times = _declared_times_by_scenario(comparison)
    num_unmatched = _count_unmatched_times(comparison, declared_metrics(*runs))
    stable = {
        name: [c for c in times_of_scenario if c.ratio and c.verdict != "unstable"]
        for name, times_of_scenario in times.items()
    }
    num_compared = sum(map(len, stable.values()))
    scenarios = {
        name: _judge_scenario(
            stable.get(name, []), len(times.get(name, [])), num_unmatched.get(name, (0, 0)), num_compared, limits
        )
        for name in dict.fromkeys([*times, *num_unmatched])
    }
    verdicts = {one.verdict for one in scenarios.values()}
    unfinished = [name for name, run in zip("AB", runs, strict=True) if not run.complete]
    reasons = [f"profile {join_and(unfinished)} is incomplete"] if unfinished else []
    reasons += [f"{name}: {one.reason}" for name, one in scenarios.items() if one.verdict == "not decided"]
    reasons += [] if scenarios else ["the two profiles have no time that could be compared"]
    if moved := find_moved_pairs(*runs):
        return GateResult("not decided", scenarios, [*map(str, moved), *reasons])
    if "slower" in verdicts:
        return GateResult("slower", scenarios, reasons)
    return GateResult("not decided" if reasons else "not slower", scenarios, reasons)


def _declared_times_by_scenario(comparison: Comparison) -> dict[str, list[RecordChange]]:
    """Returns scenario -> the declared times for which at least one profile has a value."""
    times_by_scenario: dict[str, list[RecordChange]] = {}
    for change in comparison.changes:
        if change.unit == "ns" and not change.diagnostic and (change.a or change.b):
            times_by_scenario.setdefault(change.key["scenario"], []).append(change)
    return times_by_scenario


def _count_unmatched_times(comparison: Comparison, declared: set[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Returns scenario -> (number of declared times that only A has, number that only B has)."""
    counts_by_scenario: dict[str, list[int]] = {}
    for side, records in enumerate((comparison.only_a, comparison.only_b)):
        rows = records.filter((pl.col("unit") == "ns") & pl.col("value").is_not_null())
        for scenario, metric in rows.select("scenario", "metric").iter_rows():
            if not declared or (scenario, metric) in declared:
                counts_by_scenario.setdefault(scenario, [0, 0])[side] += 1
    return {scenario: (a, b) for scenario, (a, b) in counts_by_scenario.items()}


def _judge_scenario(
    stable_changes: list[RecordChange],
    num_common: int,
    num_unmatched: tuple[int, int],
    num_compared: int,
    limits: GateLimits,
) -> GatedScenario:
    """Returns the verdict on one scenario with `num_common` times in both profiles and `num_unmatched` times in only A
    and only B. Times that only B has (more sizes) do not matter if B has all times of A."""
    num_times = num_common + num_unmatched[0] if num_common else sum(num_unmatched)
    ratios = [c.ratio.value for c in stable_changes if c.ratio]
    mean = geometric_mean(ratios) if ratios else None
    bounds = _ratio_limits(stable_changes, num_compared, limits.max_slowdown) if limits.checks_single_times else []
    slow = [
        SlowTime(f"{change.key['metric']}, {record_location_text(change.key)}", change.ratio.value, bound)
        for change, bound in zip(stable_changes, bounds, strict=False)
        if change.ratio and change.ratio.value > bound
    ]
    reason = _missing_times_reason(num_common, num_unmatched, num_times, len(stable_changes), limits)
    if not reason and ((mean and mean > 1 + limits.max_slowdown) or slow):
        return GatedScenario("slower", "", num_times, len(stable_changes), mean, slow)
    reason = reason or _hidden_slowdown_reason(max(bounds, default=0.0))
    return GatedScenario("not decided" if reason else "not slower", reason, num_times, len(stable_changes), mean)


def _missing_times_reason(
    num_common: int, num_unmatched: tuple[int, int], num_times: int, num_stable: int, limits: GateLimits
) -> str:
    """Returns a human-readable reason why the scenario has too few times for a verdict; '' if it has enough."""
    if not num_common:
        return (
            f"only profile {'A' if num_unmatched[0] else 'B'} has it"
            if not all(num_unmatched)
            else "the two have no time in common"
        )
    if num_stable and num_stable >= limits.min_stable_share * num_times:
        return ""
    share = f"{100 * limits.min_stable_share:g} %"
    return f"{num_stable} of {num_times} times are stable in both profiles, and at least {share} must be"


def _hidden_slowdown_reason(limit: float) -> str:
    """Returns why the gate cannot exclude that a single time is slower: the scatter may hide a slowdown by up to a
    factor of `limit`. Returns '' if `limit` is at most MAX_HIDDEN_SLOWDOWN."""
    if limit <= MAX_HIDDEN_SLOWDOWN:
        return ""
    seen = f"if its ratio were above {format_ratio(limit)}" if math.isfinite(limit) else "at no ratio"
    return f"its times scatter so much between the two runs that a slower single one would be seen {seen}"


def _ratio_limits(stable_changes: Sequence[RecordChange], num_compared: int, max_slowdown: float) -> list[float]:
    """Returns, for each ratio, the largest value that is consistent with a true ratio of at most 1 + `max_slowdown`.

    The logarithm of a ratio varies by its own interval, and by differences between two runs. The latter are estimated
    from the scatter of the scenario's ratios around their median (median absolute deviation, which is robust against a
    few times that really changed). The limit is the quantile of Student's t, with the effective degrees of freedom of
    this estimate, at MAX_FALSE_ALARM_RATE divided by the number of all `num_compared` times (Bonferroni). Exact times
    from a simulator do not scatter."""
    logs = [math.log(c.ratio.value) for c in stable_changes if c.ratio]
    sigmas = [
        math.log(c.ratio.value / c.ratio.low) / _SIGMAS_OF_95 if c.ratio and c.ratio.low else math.inf
        for c in stable_changes
    ]
    if not any(sigmas):
        return [1 + max_slowdown] * len(logs)
    middle = median(logs)
    scatter = _SIGMA_OF_MAD * median(abs(value - middle) for value in logs)
    quantile = t_quantile(1 - MAX_FALSE_ALARM_RATE / num_compared, _EFFICIENCY_OF_MAD * (len(logs) - 1))
    exponents = (math.log1p(max_slowdown) + quantile * math.hypot(sigma, scatter) for sigma in sigmas)
    return [math.exp(exponent) if exponent < 700 else math.inf for exponent in exponents]
