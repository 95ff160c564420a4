"""Findings on the result of `nearfield tune` for each core distance: the speed-up of unmodified programs over all
message sizes; or that the MPI's defaults are best; or that the search has not decided yet."""

from __future__ import annotations

from nearfield.base.paired import Gain
from nearfield.base.units import counted, format_bytes, format_size_range
from nearfield.base.words import capitalize
from nearfield.report.findings.finding import Finding
from nearfield.rules.collectives import MPI_ALGORITHM
from nearfield.rules.criterion import MIN_REPORTED_GAIN
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.gains import geometric_mean
from nearfield.rules.schema import Rules, RuleTable, UndecidedTable

TOP_WEIGHT = 100  # weight that ranks a gain for unmodified programs above all other losses


def find_tuned_gains(rules: Rules, apply_command: str) -> list[Finding]:
    """Returns a finding for each rule, for collectives, and for each undecided core distance. `apply_command` is the
    command line that runs programs with these rules."""
    tuned_rules = [rule for rule in rules.rule if rule.is_tuned_for_messages]
    found = [
        _gain_finding(rules, rule, rule.gain, apply_command) if rule.gain else _baseline_finding(rules, rule)
        for rule in tuned_rules
    ]
    return found + _collectives_findings(rules, apply_command) + [_undecided_finding(one) for one in rules.undecided]


def _collectives_findings(rules: Rules, apply_command: str) -> list[Finding]:
    """Returns a finding on the collectives that nearfield's algorithms speed up; [] if there are none."""
    gains = {
        (table.operation, point.size_bytes): point.gain
        for table in rules.collective_tables()
        for point in table.point
        if point.algorithm != MPI_ALGORITHM
    }
    if not gains:
        return []
    (operation, size), best = max(gains.items(), key=lambda item: item[1].value)
    gain = geometric_mean(one.as_gain() for one in gains.values())
    points = sum(len(table.point) for table in rules.collective_tables())
    length = f" of {format_bytes(size)}" if size else ""
    return [
        Finding(
            topic="tuned",
            title=f"Collectives inside a node: {gain.value:.2f}x as fast",
            statement=f"Of {points} pairs of operation and length, nearfield's own algorithms inside a node are "
            f"used for {len(gains)}: {_format_gain_interval(gain)} times as fast as the MPI's in the geometric mean, "
            f"and {best.value:.2f} times for {operation}{length}. The MPI does the others itself.",
            level="loss" if gain.value >= MIN_REPORTED_GAIN else "fact",
            action=f"Run programs as they are: {apply_command}",
            numbers={"gain": gain.value, "low": gain.low, "high": gain.high},
            weight=TOP_WEIGHT * gain.value,
        )
    ]


def _gain_finding(rules: Rules, rule: RuleTable, gain: StoredGain, apply_command: str) -> Finding:
    """Returns a finding with the gain over all sizes, and the range of sizes with the largest gain."""
    best = rule.gaining_range()
    best_range = ""
    numbers = {"gain": gain.value, "low": gain.low, "high": gain.high}
    if best:
        span = format_size_range(best.from_bytes, best.to_bytes)
        best_range = f", most for messages of {span}: {_format_gain_interval(best.gain)}"
        numbers |= {"best_gain": best.gain.value, "from_bytes": best.from_bytes, "to_bytes": best.to_bytes}
    return Finding(
        topic="tuned",
        title=f"{gain.value:.2f}x as fast when tuned",
        statement=capitalize(
            f"{_distance_prefix(rules, rule)}messages are {_format_gain_interval(gain)} times as fast with other "
            f"parameters of this MPI, in the mean over all sizes and patterns{best_range}; {rule.describe_promise()}."
        )
        + "".join(f" The gain was {brief}." for brief in (rule.few_launches_note(),) if brief)
        + _format_beyond_note(rule),
        level="loss" if gain.value >= MIN_REPORTED_GAIN else "fact",
        action=f"Run programs as they are: {apply_command}",
        numbers=numbers,
        weight=TOP_WEIGHT * gain.value,
    )


def _baseline_finding(rules: Rules, rule: RuleTable) -> Finding:
    """Returns a finding that the MPI's defaults are best. Its level is `good` only if the hypervisor did not move the
    cores and the machine was quiet; otherwise another search may find a gain."""
    tried = rules.tried
    action = (
        "Tune again when the machine is quiet."
        if rule.latency or rules.busy_machine_note() or not tried.measured
        else ""
    )
    return Finding(
        topic="tuned",
        title="The defaults of this MPI are best",
        statement=capitalize(
            f"{_distance_prefix(rules, rule)}no other setting is significantly faster ({rule.reason}). The search took "
            f"{rules.seconds:.0f} s and measured {counted(tried.measured, 'setting')} to the end; it left {tried.left} "
            f"half-way, and {len(tried.unfit)} did not work."
        )
        + "".join(
            f" {capitalize(sentence)}."
            for sentence in (rule.changed_latency_note(), rules.busy_machine_note())
            if sentence
        )
        + _format_beyond_note(rule),
        level="fact" if action or rule.beyond else "good",
        action=action,
        numbers={"measured": tried.measured, "left": tried.left, "unfit": len(tried.unfit), "seconds": rules.seconds},
        weight=TOP_WEIGHT,
    )


def _undecided_finding(undecided: UndecidedTable) -> Finding:
    return Finding(
        topic="tuned",
        title="Tuning has not decided yet",
        statement=f"Between cores of distance {undecided.distance} it is not known whether other settings are faster: "
        f"{undecided.explain}.",
        level="fact",
        action="Go on with tune --resume when the machine is quiet.",
        weight=TOP_WEIGHT,
    )


def _distance_prefix(rules: Rules, rule: RuleTable) -> str:
    return f"between cores of distance {rule.distance}, " if len(rules.rule) > 1 else ""


def _format_beyond_note(rule: RuleTable) -> str:
    return f" There is more: {rule.beyond}." if rule.beyond else ""


def _format_gain_interval(gain: StoredGain | Gain) -> str:
    return f"{gain.value:.2f} ({gain.low:.2f} to {gain.high:.2f})"
