"""The gains of a setting that was measured at every message size, and the tables of the rules file that hold these
gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nearfield.base.paired import Gain
from nearfield.base.units import format_bytes
from nearfield.rules.criterion import (
    COLLECTIVES,
    MESSAGES,
    MIN_GAIN,
    MIN_REPORTED_GAIN,
    Verdict,
    violations,
)
from nearfield.rules.gain_table import GainTable
from nearfield.rules.gains import (
    Case,
    Pair,
    SizeRange,
    dominant_latency_ns,
    gain_by_range,
    geometric_mean,
    group_by_distance,
    joint_gain,
    median_gain,
)
from nearfield.rules.knobs import KnobFile, Settings
from nearfield.rules.schema import LatencyTable, PointTable, RangeTable, RuleTable, TriedTable
from nearfield.tune.search import Trial

MIN_EXTRA_GAIN = 1.1  # a rejected setting is reported if it gains this factor more than the allowed ones
MIN_BEARABLE_GAIN = 0.75  # fraction of the baseline's speed: settings with a slower case are not reported
MIN_LATENCY_SHARE = 0.02  # fraction of all pairs; rarer groups of core-to-core latencies are not reported


@dataclass
class ConfirmedGains:
    """The gains of a setting that was measured at every message size."""

    settings: Settings
    gains: dict[Case, Gain]
    pairs: dict[Case, list[Pair]]
    never_below: float = MIN_GAIN  # lower limit for every case, as a fraction of the baseline's speed

    @classmethod
    def of(cls, settings: Settings, pairs: dict[Case, list[Pair]], never_below: float) -> ConfirmedGains:
        """Returns the settings with the gains computed from these pairs of times."""
        return cls(settings, {case: median_gain(found) for case, found in pairs.items()}, pairs, never_below)

    @property
    def messages(self) -> dict[Case, Gain]:
        """Returns the gains of the message patterns. Leaves out collectives, which need not gain but must not be
        slower."""
        return {case: one for case, one in self.gains.items() if case[0] not in COLLECTIVES}

    @property
    def losses(self) -> list[Verdict]:
        """Returns the verdicts on the cases that probably or surely break the promise not to be slower."""
        sizes = {size for _, size in self.messages}
        of_sizes = {size: self._joint_gain([case for case in self.messages if case[1] == size]) for size in sizes}
        return violations(self.gains, self.never_below, of_sizes)

    @property
    def slower_cases(self) -> list[Case]:
        """Returns the cases that surely break the promise not to be slower."""
        return [loss.case for loss in self.losses if loss.sure]

    @property
    def c2c_latency_ns(self) -> float:
        """Returns the median core-to-core latency in ns in the dominant placement of the cores."""
        return dominant_latency_ns(self.pairs)

    @property
    def launches(self) -> int:
        """Returns the number of launches in which every case was measured."""
        return min(len({pair.launch for pair in pairs}) for pairs in self.pairs.values())

    @property
    def mean(self) -> Gain:
        """Returns the joint gain over all sizes and message patterns."""
        return self._joint_gain(list(self.messages))

    def ranges(self, limits: Sequence[int]) -> list[SizeRange]:
        """Returns the joint gain of all message patterns for each range of sizes between the limits (bytes,
        ascending)."""
        return gain_by_range(self.messages, limits, self._joint_gain)

    def _joint_gain(self, cases: Sequence[Case]) -> Gain:
        return joint_gain([self.pairs[case] for case in cases])

    def has_gain_between(self, limits: Sequence[int], judged: int = 1) -> bool:
        """Returns whether the setting is significantly faster over all sizes; or in a range between the limits, without
        being slower over all sizes. The confidence intervals are simultaneous ones for `judged` settings and for the
        number of ranges."""
        mean, ranges = self.mean, self.ranges(limits)
        in_a_range = any(part.gain.widen_for_selection(judged * len(ranges)).is_faster for part in ranges)
        return mean.widen_for_selection(judged).is_faster or (mean.high > 1 and in_a_range)

    @property
    def may_gain(self) -> bool:
        """Returns whether the measurements are compatible with a gain over all sizes that is large enough to report."""
        return self.mean.high >= MIN_REPORTED_GAIN

    @property
    def loss(self) -> str:
        """Returns the slowest case and its speed, as text for people."""
        pattern, size = min(self.slower_cases, key=lambda case: self.gains[case].value)
        return f"{pattern} of {format_bytes(size)} at {self.gains[pattern, size].value:.2f} of the baseline's speed"


def rule_table(
    knobs: KnobFile,
    distance: str,
    pair: tuple[int, int],
    ranks: int,
    chosen: ConfirmedGains | None,
    reason: str,
    limits: Sequence[int],
    all_pairs: Sequence[Pair] = (),
) -> RuleTable:
    """Returns the table of a core distance's rule. `all_pairs` are all pairs of times measured at this distance; their
    core-to-core latencies show whether the cores moved."""
    settings = chosen.settings if chosen else {}
    table = RuleTable(
        distance=distance,
        pair=f"{pair[0]}-{pair[1]}",
        parameters=settings,
        c2c_latency_ns=round(chosen.c2c_latency_ns if chosen else 0.0, 1),
        reason=reason,
        memory_per_rank_bytes=knobs.memory(settings, ranks) if settings else None,
        at_ranks_per_node=ranks,
        latency=latency_tables(all_pairs),
        never_below=chosen.never_below if chosen else MIN_GAIN,
    )
    if chosen:
        table.gain = _gain_table(chosen.mean)
        table.launches = chosen.launches
        for part in chosen.ranges(limits):
            table.range.append(
                RangeTable(from_bytes=part.from_bytes, to_bytes=part.to_bytes, gain=_gain_table(part.gain))
            )
        patterns = [*MESSAGES, *COLLECTIVES]
        table.point = [
            _point(case, chosen) for case in sorted(chosen.gains, key=lambda c: (patterns.index(c[0]), c[1]))
        ]
    return table


def latency_tables(pairs: Sequence[Pair]) -> list[LatencyTable]:
    """Returns each class of core-to-core latency among the pairs, with its share of the pairs; empty if the cores did
    not move."""
    groups = [group for group in group_by_distance(pairs) if len(group) >= MIN_LATENCY_SHARE * len(pairs)]
    if len(groups) < 2:
        return []
    return [
        LatencyTable(
            c2c_latency_ns=round(median(pair.c2c_latency_ns for pair in group), 1),
            share=round(len(group) / len(pairs), 3),
        )
        for group in groups
    ]


def _point(case: Case, chosen: ConfirmedGains) -> PointTable:
    pairs = chosen.pairs[case]
    baseline, tuned = (round(median(times), 1) for times in ([p.baseline for p in pairs], [p.other for p in pairs]))
    pattern, size = case
    return PointTable(
        pattern=pattern, size_bytes=size, baseline_ns=baseline, tuned_ns=tuned, gain=_gain_table(chosen.gains[case])
    )


def _gain_table(gain: Gain) -> GainTable:
    return GainTable(value=round(gain.value, 4), low=round(gain.low, 4), high=round(gain.high, 4), n=gain.n)


def describe_rejected(trials: Sequence[Trial], never_below: float) -> str:
    """Returns, as text for people, the setting that gains much more than any allowed setting but has a slightly too
    slow case; empty if there is none. Its interval is a simultaneous one, because it is selected by its gain."""
    measured = [trial.gains for trial in trials if trial.state == "measured"]
    judged = [(geometric_mean(gains.values()), violations(gains, never_below)) for gains in measured]
    enough = MIN_EXTRA_GAIN * max([1.0, *(mean.value for mean, losses in judged if not losses)])
    refused = [
        (mean.value, min(losses, key=lambda loss: loss.gain.value))
        for mean, losses in judged
        if losses and mean.widen_for_selection(len(judged)).low > enough
    ]
    bearable = [(gain, worst) for gain, worst in refused if worst.gain.value > MIN_BEARABLE_GAIN]
    if not bearable:
        return ""
    gain, worst = max(bearable, key=lambda one: one[0])
    (pattern, size), value = worst.case, worst.gain.value
    return (
        f"about {gain:.1f}x over all sizes with --max-regression {1 - math.floor(20 * value - 0.5) / 20:.0%}: "
        f"{pattern} of {format_bytes(size)} would be at {value:.2f}"
    )


def tried_table(trials: Sequence[Trial]) -> TriedTable:
    """Returns the table that counts the tried settings by outcome."""
    unfit = []
    for trial in trials:
        if trial.state == "unfit":
            settings = ", ".join(f"{name} = {value}" for name, value in trial.settings.items())
            unfit.append(f"{settings or 'baseline'}: {trial.reason}")
    count = {state: sum(t.state == state for t in trials) for state in ("measured", "left", "refused")}
    return TriedTable(**count, unfit=unfit)
