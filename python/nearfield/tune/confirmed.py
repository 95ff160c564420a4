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
    COLLECTIVE_PATTERNS,
    MESSAGE_PATTERNS,
    MIN_GAIN,
    MIN_REPORTED_GAIN,
    LossVerdict,
    find_violations,
)
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.gains import (
    BenchmarkCase,
    SizeRange,
    TimePair,
    dominant_latency_ns,
    gain_by_range,
    geometric_mean,
    group_by_latency_class,
    joint_gain,
    median_gain,
)
from nearfield.rules.knobs import KnobFile, Settings
from nearfield.rules.schema import LatencyTable, PointTable, RangeTable, RuleTable, TriedTable
from nearfield.tune.search import Trial

MIN_EXTRA_GAIN_TO_REPORT = 1.1  # a rejected setting is reported if it gains this factor more than the allowed ones
MIN_CASE_GAIN_TO_REPORT = 0.75  # fraction of the baseline's speed: settings with a slower case are not reported
MIN_LATENCY_GROUP_SHARE = 0.02  # fraction of all pairs; rarer groups of core-to-core latencies are not reported


@dataclass
class ConfirmedGains:
    """The gains of a setting that was measured at every message size."""

    settings: Settings
    gains: dict[BenchmarkCase, Gain]
    pairs: dict[BenchmarkCase, list[TimePair]]
    min_gain: float = MIN_GAIN  # lower limit for every case, as a fraction of the baseline's speed

    @classmethod
    def from_pairs(
        cls, settings: Settings, pairs: dict[BenchmarkCase, list[TimePair]], min_gain: float
    ) -> ConfirmedGains:
        """Returns the settings with the gains computed from these pairs of times."""
        return cls(settings, {case: median_gain(found) for case, found in pairs.items()}, pairs, min_gain)

    @property
    def message_gains(self) -> dict[BenchmarkCase, Gain]:
        """Returns the gains of the message patterns. Leaves out collectives, which need not gain but must not be
        slower."""
        return {case: one for case, one in self.gains.items() if case[0] not in COLLECTIVE_PATTERNS}

    @property
    def loss_verdicts(self) -> list[LossVerdict]:
        """Returns the verdicts on the cases that probably violate the no-slowdown guarantee."""
        sizes = {size for _, size in self.message_gains}
        of_sizes = {size: self._joint_gain([case for case in self.message_gains if case[1] == size]) for size in sizes}
        return find_violations(self.gains, self.min_gain, of_sizes)

    @property
    def slower_cases(self) -> list[BenchmarkCase]:
        """Returns the cases that are slower beyond the measurement uncertainty, so that they violate the no-slowdown
        guarantee."""
        return [loss.case for loss in self.loss_verdicts if loss.is_significant]

    @property
    def c2c_latency_ns(self) -> float:
        """Returns the median core-to-core latency in ns in the dominant placement of the cores."""
        return dominant_latency_ns(self.pairs)

    @property
    def num_complete_launches(self) -> int:
        """Returns the number of launches in which every case was measured."""
        return min(len({pair.launch_number for pair in pairs}) for pairs in self.pairs.values())

    @property
    def mean_gain(self) -> Gain:
        """Returns the joint gain over all sizes and message patterns."""
        return self._joint_gain(list(self.message_gains))

    def gains_by_range(self, limits_bytes: Sequence[int]) -> list[SizeRange]:
        """Returns the joint gain of all message patterns for each range of sizes between the limits (bytes,
        ascending)."""
        return gain_by_range(self.message_gains, limits_bytes, self._joint_gain)

    def _joint_gain(self, cases: Sequence[BenchmarkCase]) -> Gain:
        return joint_gain([self.pairs[case] for case in cases])

    def has_gain_in_a_range(self, limits_bytes: Sequence[int], num_judged: int = 1) -> bool:
        """Returns whether the setting is significantly faster over all sizes; or in a range between the limits, without
        being slower over all sizes. The confidence intervals are simultaneous ones for `num_judged` settings and for
        the number of ranges."""
        mean, ranges = self.mean_gain, self.gains_by_range(limits_bytes)
        in_a_range = any(part.gain.widen_for_selection(num_judged * len(ranges)).is_faster for part in ranges)
        return mean.widen_for_selection(num_judged).is_faster or (mean.high > 1 and in_a_range)

    @property
    def may_gain(self) -> bool:
        """Returns whether the measurements are compatible with a gain over all sizes that is large enough to report."""
        return self.mean_gain.high >= MIN_REPORTED_GAIN

    @property
    def describe_worst_loss(self) -> str:
        """Returns the slowest case and its speed, as human-readable text."""
        pattern, size = min(self.slower_cases, key=lambda case: self.gains[case].value)
        return f"{pattern} of {format_bytes(size)} at {self.gains[pattern, size].value:.2f} of the baseline's speed"


def make_rule_table(
    knobs: KnobFile,
    distance: str,
    core_pair: tuple[int, int],
    ranks_per_node: int,
    confirmed: ConfirmedGains | None,
    reason: str,
    limits_bytes: Sequence[int],
    all_pairs: Sequence[TimePair] = (),
) -> RuleTable:
    """Returns the table of a core distance's rule. `all_pairs` are all pairs of times measured at this distance; their
    core-to-core latencies show whether the cores moved."""
    settings = confirmed.settings if confirmed else {}
    table = RuleTable(
        distance=distance,
        pair=f"{core_pair[0]}-{core_pair[1]}",
        parameters=settings,
        c2c_latency_ns=round(confirmed.c2c_latency_ns if confirmed else 0.0, 1),
        reason=reason,
        memory_per_rank_bytes=knobs.shared_memory_bytes(settings, ranks_per_node) if settings else None,
        at_ranks_per_node=ranks_per_node,
        latency=make_latency_tables(all_pairs),
        never_below=confirmed.min_gain if confirmed else MIN_GAIN,
    )
    if confirmed:
        table.gain = _to_gain_table(confirmed.mean_gain)
        table.launches = confirmed.num_complete_launches
        for part in confirmed.gains_by_range(limits_bytes):
            table.range.append(
                RangeTable(from_bytes=part.from_bytes, to_bytes=part.to_bytes, gain=_to_gain_table(part.gain))
            )
        patterns = [*MESSAGE_PATTERNS, *COLLECTIVE_PATTERNS]
        table.point = [
            _make_point_table(case, confirmed)
            for case in sorted(confirmed.gains, key=lambda c: (patterns.index(c[0]), c[1]))
        ]
    return table


def make_latency_tables(pairs: Sequence[TimePair]) -> list[LatencyTable]:
    """Returns each class of core-to-core latency among the pairs, with its share of the pairs; empty if the cores did
    not move."""
    groups = [group for group in group_by_latency_class(pairs) if len(group) >= MIN_LATENCY_GROUP_SHARE * len(pairs)]
    if len(groups) < 2:
        return []
    return [
        LatencyTable(
            c2c_latency_ns=round(median(pair.c2c_latency_ns for pair in group), 1),
            share=round(len(group) / len(pairs), 3),
        )
        for group in groups
    ]


def _make_point_table(case: BenchmarkCase, confirmed: ConfirmedGains) -> PointTable:
    pairs = confirmed.pairs[case]
    baseline, tuned = (
        round(median(times), 1) for times in ([p.baseline_ns for p in pairs], [p.other_ns for p in pairs])
    )
    pattern, size = case
    return PointTable(
        pattern=pattern,
        size_bytes=size,
        baseline_ns=baseline,
        tuned_ns=tuned,
        gain=_to_gain_table(confirmed.gains[case]),
    )


def _to_gain_table(gain: Gain) -> StoredGain:
    return StoredGain(value=round(gain.value, 4), low=round(gain.low, 4), high=round(gain.high, 4), n=gain.n)


def describe_rejected_setting(trials: Sequence[Trial], min_gain: float) -> str:
    """Returns, as human-readable text, the setting that gains much more than any allowed setting but has a slightly too
    slow case; empty if there is none. Its interval is a simultaneous one, because it is selected by its gain."""
    measured = [trial.gains for trial in trials if trial.state == "measured"]
    judged = [(geometric_mean(gains.values()), find_violations(gains, min_gain)) for gains in measured]
    enough = MIN_EXTRA_GAIN_TO_REPORT * max([1.0, *(mean.value for mean, losses in judged if not losses)])
    refused = [
        (mean.value, min(losses, key=lambda loss: loss.gain.value))
        for mean, losses in judged
        if losses and mean.widen_for_selection(len(judged)).low > enough
    ]
    bearable = [(gain, worst) for gain, worst in refused if worst.gain.value > MIN_CASE_GAIN_TO_REPORT]
    if not bearable:
        return ""
    gain, worst = max(bearable, key=lambda one: one[0])
    (pattern, size), value = worst.case, worst.gain.value
    return (
        f"about {gain:.1f}x over all sizes with --max-regression {1 - math.floor(20 * value - 0.5) / 20:.0%}: "
        f"{pattern} of {format_bytes(size)} would be at {value:.2f}"
    )


def make_tried_table(trials: Sequence[Trial]) -> TriedTable:
    """Returns the table that counts the tried settings by outcome."""
    unfit = []
    for trial in trials:
        if trial.state == "unfit":
            settings = ", ".join(f"{name} = {value}" for name, value in trial.settings.items())
            unfit.append(f"{settings or 'baseline'}: {trial.reason}")
    count = {state: sum(t.state == state for t in trials) for state in ("measured", "left", "refused")}
    return TriedTable(**count, unfit=unfit)
