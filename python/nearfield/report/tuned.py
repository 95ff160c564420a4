"""Shows tuned rules in the report: the command line that applies them, their parameters, and the gain by range of
sizes."""

from __future__ import annotations

from nearfield.base.units import format_bytes, format_span
from nearfield.report.plots import Section, tuned
from nearfield.rules.schema import Rules, RuleTable
from nearfield.ui.html import escape_html, table, tag, text


def tuned_section(rules: Rules) -> Section:
    """Returns the section with the plots of the rules and remarks on distances without a rule."""
    baseline = [rule for rule in rules.rule if rule.is_tuned and not rule.parameters]
    notes = [f"{rule.distance}: the MPI's defaults are best ({rule.reason})." for rule in baseline]
    notes += [f"{undecided}." for undecided in rules.undecided]
    return Section("tuned", tuned.TITLE, tuned.SHORT, "", tuned.charts(rules), notes)


def tuned_html(rules: Rules, apply: str) -> str:
    """Returns the HTML with the command line that applies the rules, their parameters, and the gain by range of
    sizes."""
    settings = rules.best_for_all().parameters
    environment = rules.knobs().environment(settings)
    if not rules.sets_something:
        return _notes(rules) + _collectives(rules) + _native(rules)
    html = tag("p", "To apply it to programs as they are:", class_="quiet")
    html += tag("pre", tag("code", text(apply)))
    if environment and not rules.knobs().uses_heap(settings) and not rules.loads_collectives:
        lines = "\n".join(f"export {name}={value}" for name, value in environment.items())
        html += tag("p", "or, without nearfield:", class_="quiet") + tag("pre", tag("code", text(lines)))
    return (
        html
        + "".join(_ranges(rule) for rule in rules.rule if rule.range)
        + _notes(rules)
        + _collectives(rules)
        + _native(rules)
    )


def _notes(rules: Rules) -> str:
    notes = [f"{rule.distance}: {moved}" for rule in rules.rule if (moved := rule.changed_latency_note())]
    notes += [f"{rule.distance}: {brief}" for rule in rules.rule if (brief := rule.few_launches_note())]
    notes += [f"{rule.distance}, there is more: {rule.beyond}" for rule in rules.rule if rule.beyond]
    return "".join(tag("p", text(line + "."), class_="quiet") for line in notes)


def _ranges(rule: RuleTable) -> str:
    patterns = rule.patterns()
    rows = []
    for one in rule.range:
        each = [escape_html(rule.gain_text(pattern, one)) for pattern in patterns]
        gain = f"{one.gain.value:.2f}x [{one.gain.low:.2f} to {one.gain.high:.2f}]"
        rows.append([text(format_span(one.from_bytes, one.to_bytes)), escape_html(gain), *each])
    name = rule.distance
    if rule.memory_per_rank_bytes:
        cost = f"{format_bytes(rule.memory_per_rank_bytes)} of shared memory per rank"
        name = f"{rule.distance}, PUs {rule.pair}; {cost} at {rule.at_ranks_per_node} per node"
    return tag("p", text(name), class_="quiet") + table(("message size", "gain, all patterns", *patterns), rows)


def _collectives(rules: Rules) -> str:
    """Returns the HTML table of the algorithms selected for collectives; '' if collectives were not tuned."""
    rows = [
        [
            text(found.operation),
            escape_html(str(found.ranks)),
            *map(text, (one.length_text(), one.algorithm_text(), one.gain_text())),
        ]
        for found in rules.collectives()
        for one in found.range
    ]
    if not rows:
        return ""
    head = ("collective", "ranks", "bytes up to", "done by", "times as fast as the MPI's own")
    return tag("p", "Collectives of ranks on one node:", class_="quiet") + table(head, rows)


def _native(rules: Rules) -> str:
    """Returns the HTML table of the selection among the MPI's own algorithms; '' if they were not searched."""
    rows = [
        [
            text(found.operation),
            escape_html(found.place),
            *map(text, (one.length_text(), one.algorithm, one.gain_text())),
        ]
        for found in rules.native_collectives()
        for one in found.range
    ]
    if not rows:
        return ""
    head = ("collective", "ranks", "bytes up to", "algorithm", "times as fast as the MPI's choice")
    return tag("p", "The MPI's own algorithms, for programs that load nothing:", class_="quiet") + table(head, rows)
