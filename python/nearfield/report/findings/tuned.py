"""Findings on the result of `tune`: the speed-up of unmodified programs over all sizes; or that the MPI's defaults are
best, with the confidence; or that nothing is decided."""

from __future__ import annotations

from nearfield.base.paired import Gain
from nearfield.base.units import counted, format_bytes, format_span
from nearfield.base.words import capitalize
from nearfield.report.findings.finding import Finding
from nearfield.rules.collectives import OF_MPI
from nearfield.rules.criterion import MIN_REPORTED_GAIN
from nearfield.rules.gain_table import GainTable
from nearfield.rules.gains import geometric_mean
from nearfield.rules.schema import Rules, RuleTable, UndecidedTable

FIRST = 100  # weight that ranks a gain for unmodified programs above all other losses


def find_tuned_gains(rules: Rules, apply: str) -> list[Finding]:
    """Returns a finding for each rule, for collectives and for each undecided distance. `apply` is the command line
    that runs programs under these rules."""
    tuned_rules = [rule for rule in rules.rule if rule.is_tuned]
    found = [_gain(rules, rule, rule.gain, apply) if rule.gain else _baseline(rules, rule) for rule in tuned_rules]
    return found + _collectives(rules, apply) + [_undecided(one) for one in rules.undecided]


def _collectives(rules: Rules, apply: str) -> list[Finding]:
    """Returns a finding on the collectives that nearfield's algorithms speed up; [] if there are none."""
    gains = {
        (table.operation, point.size_bytes): point.gain
        for table in rules.collectives()
        for point in table.point
        if point.algorithm != OF_MPI
    }
    if not gains:
        return []
    (operation, size), best = max(gains.items(), key=lambda item: item[1].value)
    gain = geometric_mean(one.as_gain() for one in gains.values())
    points = sum(len(table.point) for table in rules.collectives())
    length = f" of {format_bytes(size)}" if size else ""
    return [
        Finding(
            topic="tuned",
            title=f"Collectives inside a node: {gain.value:.2f}x as fast",
            statement=f"Of {points} pairs of operation and length, nearfield's own algorithms inside a node are "
            f"used for {len(gains)}: {_interval(gain)} times as fast as the MPI's in the geometric mean, and "
            f"{best.value:.2f} times for {operation}{length}. The MPI does the others itself.",
            level="loss" if gain.value >= MIN_REPORTED_GAIN else "fact",
            action=f"Run programs as they are: {apply}",
            numbers={"gain": gain.value, "low": gain.low, "high": gain.high},
            weight=FIRST * gain.value,
        )
    ]


def _gain(rules: Rules, rule: RuleTable, gain: GainTable, apply: str) -> Finding:
    """Returns a finding with the gain over all sizes, and the range of sizes with the largest gain."""
    best = rule.gaining_range()
    best_range = ""
    numbers = {"gain": gain.value, "low": gain.low, "high": gain.high}
    if best:
        span = format_span(best.from_bytes, best.to_bytes)
        best_range = f", most for messages of {span}: {_interval(best.gain)}"
        numbers |= {"best_gain": best.gain.value, "from_bytes": best.from_bytes, "to_bytes": best.to_bytes}
    return Finding(
        topic="tuned",
        title=f"{gain.value:.2f}x as fast when tuned",
        statement=capitalize(
            f"{_where(rules, rule)}messages are {_interval(gain)} times as fast with other parameters of this MPI, in "
            f"the mean over all sizes and patterns{best_range}; {rule.promise_text()}."
        )
        + "".join(f" The gain was {brief}." for brief in (rule.few_launches_note(),) if brief)
        + _beyond(rule),
        level="loss" if gain.value >= MIN_REPORTED_GAIN else "fact",
        action=f"Run programs as they are: {apply}",
        numbers=numbers,
        weight=FIRST * gain.value,
    )


def _baseline(rules: Rules, rule: RuleTable) -> Finding:
    """Returns a finding that the MPI's defaults are best. Its level is `good` only if the cores were not moved and the
    machine was quiet; otherwise another tune may find a gain."""
    tried = rules.tried
    action = "Tune again when the machine is quiet." if rule.latency or rules.busy() or not tried.measured else ""
    return Finding(
        topic="tuned",
        title="The defaults of this MPI are best",
        statement=capitalize(
            f"{_where(rules, rule)}no other setting is surely faster ({rule.reason}). The search took "
            f"{rules.seconds:.0f} s and measured {counted(tried.measured, 'setting')} to the end; it left {tried.left} "
            f"half-way, and {len(tried.unfit)} did not work."
        )
        + "".join(f" {capitalize(sentence)}." for sentence in (rule.changed_latency_note(), rules.busy()) if sentence)
        + _beyond(rule),
        level="fact" if action or rule.beyond else "good",
        action=action,
        numbers={"measured": tried.measured, "left": tried.left, "unfit": len(tried.unfit), "seconds": rules.seconds},
        weight=FIRST,
    )


def _undecided(one: UndecidedTable) -> Finding:
    return Finding(
        topic="tuned",
        title="Tuning has not decided yet",
        statement=f"Between cores of distance {one.distance} it is not known whether other settings are faster: "
        f"{one.explanation}.",
        level="fact",
        action="Go on with tune --resume when the machine is quiet.",
        weight=FIRST,
    )


def _where(rules: Rules, rule: RuleTable) -> str:
    return f"between cores of distance {rule.distance}, " if len(rules.rule) > 1 else ""


def _beyond(rule: RuleTable) -> str:
    return f" There is more: {rule.beyond}." if rule.beyond else ""


def _interval(gain: GainTable | Gain) -> str:
    return f"{gain.value:.2f} ({gain.low:.2f} to {gain.high:.2f})"
