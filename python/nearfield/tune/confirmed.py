"""Results of a setting that was measured at every size, and the tables of the rules file that are made of them."""

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
    significantly_below,
    violations,
)
from nearfield.rules.gains import (
    Case,
    Pair,
    Range,
    dominant_latency,
    gain_by_range,
    geometric_mean,
    group_by_distance,
    joint_gain,
    median_gain,
)
from nearfield.rules.knobs import KnobFile, Settings
from nearfield.rules.schema import ApartTable, GainTable, PointTable, RangeTable, RuleTable, TriedTable
from nearfield.tune.search import Trial

MUCH_MORE, BEARABLE = 1.1, 0.75  # times as fast; of stock's speed
SELDOM = 0.02  # share of all pairs; rarer groups are not reported


@dataclass
class ConfirmedGains:
    """A setting measured at every size."""

    settings: Settings
    gains: dict[Case, Gain]
    pairs: dict[Case, list[Pair]]
    never_below: float = MIN_GAIN  # of stock's speed

    @classmethod
    def of(cls, settings: Settings, pairs: dict[Case, list[Pair]], never_below: float) -> ConfirmedGains:
        """Returns the settings with the gains of these pairs."""
        return cls(settings, {case: median_gain(found) for case, found in pairs.items()}, pairs, never_below)

    @property
    def messages(self) -> dict[Case, Gain]:
        """Returns the gains without collectives, which need not gain but must not be slower."""
        return {case: one for case, one in self.gains.items() if case[0] not in COLLECTIVES}

    @property
    def slower(self) -> list[Case]:
        """Returns the cases that surely break the promise."""
        return violations(self.gains, self.never_below, significantly_below, self._gain_by_size)

    @property
    def inconclusive(self) -> list[Case]:
        """Returns the cases that probably break the promise, including the surely slower ones."""
        return violations(self.gains, self.never_below, Gain.below, self._gain_by_size)

    @property
    def _gain_by_size(self) -> dict[int, Gain]:
        """Returns for each size the gain of all message patterns together."""
        sizes = {size for _, size in self.messages}
        return {size: self._joint_gain([case for case in self.messages if case[1] == size]) for size in sizes}

    @property
    def flag_ns(self) -> float:
        """Returns the ns that a flag mostly took between the cores."""
        return dominant_latency(self.pairs)

    @property
    def launches(self) -> int:
        """Returns the number of launches in which every case was measured."""
        return min(len({pair.launch for pair in pairs}) for pairs in self.pairs.values())

    @property
    def mean(self) -> Gain:
        """Returns the gain of all sizes and message patterns together."""
        return self._joint_gain(list(self.messages))

    def ranges(self, limits: Sequence[int]) -> list[Range]:
        """Returns the gains of all message patterns together between the limits (bytes, ascending)."""
        return gain_by_range(self.messages, limits, self._joint_gain)

    def _joint_gain(self, cases: Sequence[Case]) -> Gain:
        return joint_gain([self.pairs[case] for case in cases])

    def gains_between(self, limits: Sequence[int], judged: int = 1) -> bool:
        """Returns whether the setting is surely faster over all sizes, or in a range of them without being slower over
        all sizes. The more settings are `judged`, and the more ranges there are, the surer each must be."""
        mean, ranges = self.mean, self.ranges(limits)
        in_a_range = any(part.gain.among(judged * len(ranges)).faster for part in ranges)
        return mean.among(judged).faster or (mean.high > 1 and in_a_range)

    @property
    def may_gain(self) -> bool:
        """Returns whether these measurements leave open a gain over all sizes that is worth telling."""
        return self.mean.high >= MIN_REPORTED_GAIN

    @property
    def loss(self) -> str:
        """Returns the worst case in words."""
        pattern, size = min(self.slower, key=lambda case: self.gains[case].value)
        return f"{pattern} of {format_bytes(size)} at {self.gains[pattern, size].value:.2f} of stock's speed"


def rule_table(
    knobs: KnobFile,
    distance: str,
    pair: tuple[int, int],
    ranks: int,
    chosen: ConfirmedGains | None,
    reason: str,
    limits: Sequence[int],
    flags: Sequence[Pair] = (),
) -> RuleTable:
    """Returns the rule of a distance. `flags` are all pairs of this distance, which tell where the cores were."""
    settings = chosen.settings if chosen else {}
    table = RuleTable(
        distance=distance,
        pair=f"{pair[0]}-{pair[1]}",
        parameters=settings,
        flag_ns=round(chosen.flag_ns if chosen else 0.0, 1),
        reason=reason,
        memory_per_rank_bytes=knobs.memory(settings, ranks) if settings else None,
        at_ranks_per_node=ranks,
        apart=other_distance_tables(flags),
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


def other_distance_tables(pairs: Sequence[Pair]) -> list[ApartTable]:
    """Returns how far apart the cores were, and how often; nothing if they stayed in their place."""
    groups = [group for group in group_by_distance(pairs) if len(group) >= SELDOM * len(pairs)]
    if len(groups) < 2:
        return []
    return [
        ApartTable(flag_ns=round(median(pair.flag for pair in group), 1), share=round(len(group) / len(pairs), 3))
        for group in groups
    ]


def _point(case: Case, chosen: ConfirmedGains) -> PointTable:
    pairs = chosen.pairs[case]
    stock, tuned = (round(median(times), 1) for times in ([p.stock for p in pairs], [p.other for p in pairs]))
    pattern, size = case
    return PointTable(
        pattern=pattern, size_bytes=size, stock_ns=stock, tuned_ns=tuned, gain=_gain_table(chosen.gains[case])
    )


def _gain_table(gain: Gain) -> GainTable:
    return GainTable(value=round(gain.value, 4), low=round(gain.low, 4), high=round(gain.high, 4), n=gain.n)


def describe_rejected(trials: Sequence[Trial], never_below: float) -> str:
    """Returns in words the settings that gain more than any allowed ones, and are slower somewhere by a little more
    than allowed; empty if there are none. They are picked for their gain, so that must be sure for the best of all."""
    means = [(geometric_mean(trial.gains.values()), trial) for trial in trials if trial.state == "measured"]
    allowed = [mean.value for mean, trial in means if not violations(trial.gains, never_below)]
    refused = [
        (mean.value, min(violations(trial.gains, never_below), key=lambda case: trial.gains[case].value), trial)
        for mean, trial in means
        if mean.among(len(means)).low > MUCH_MORE * max([1.0, *allowed]) and violations(trial.gains, never_below)
    ]
    little = [one for one in refused if one[2].gains[one[1]].value > BEARABLE]
    if not little:
        return ""
    mean, (pattern, size), trial = max(little, key=lambda one: one[0])
    worst = trial.gains[pattern, size].value
    return (
        f"about {mean:.1f}x over all sizes with --max-regression {1 - math.floor(20 * worst - 0.5) / 20:.0%}: "
        f"{pattern} of {format_bytes(size)} would be at {worst:.2f}"
    )


def tried_table(trials: Sequence[Trial]) -> TriedTable:
    """Returns the table of the settings that were tried."""
    unfit = []
    for trial in trials:
        if trial.state == "unfit":
            settings = ", ".join(f"{name} = {value}" for name, value in trial.settings.items())
            unfit.append(f"{settings or 'stock'}: {trial.reason}")
    count = {state: sum(t.state == state for t in trials) for state in ("measured", "left", "refused")}
    return TriedTable(**count, unfit=unfit)
