"""Renders tuned rules in the report: the command line that applies them, their parameters, and the gain by range of
message sizes."""

from __future__ import annotations

from nearfield.base.units import format_bytes, format_size_range
from nearfield.report.plots import PlotSection, tuned
from nearfield.rules.schema import Rules, RuleTable
from nearfield.ui.html import escape_html, table, tag, text


def tuned_section(rules: Rules) -> PlotSection:
    """Returns the section with the plots of the rules and remarks on distances without a rule."""
    baseline = [rule for rule in rules.rule if rule.is_tuned_for_messages and not rule.parameters]
    notes = [f"{rule.distance}: the MPI's defaults are best ({rule.reason})." for rule in baseline]
    notes += [f"{undecided}." for undecided in rules.undecided]
    return PlotSection("tuned", tuned.TITLE, tuned.NAVIGATION_TITLE, "", tuned.charts(rules), notes)


def tuned_html(rules: Rules, apply_command: str) -> str:
    """Returns the HTML with the command line that applies the rules, their parameters, and the gain by range of
    sizes."""
    settings = rules.best_rule_for_all_pairs().parameters
    environment = rules.find_knob_file().environment(settings)
    if not rules.has_any_setting:
        return _notes_html(rules) + _collectives_html(rules) + _native_algorithms_html(rules)
    html = tag("p", "To apply it to programs as they are:", class_="quiet")
    html += tag("pre", tag("code", text(apply_command)))
    if environment and not rules.find_knob_file().uses_heap(settings) and not rules.loads_collectives:
        lines = "\n".join(f"export {name}={value}" for name, value in environment.items())
        html += tag("p", "or, without nearfield:", class_="quiet") + tag("pre", tag("code", text(lines)))
    return (
        html
        + "".join(_ranges_html(rule) for rule in rules.rule if rule.range)
        + _notes_html(rules)
        + _collectives_html(rules)
        + _native_algorithms_html(rules)
    )


def _notes_html(rules: Rules) -> str:
    notes = [f"{rule.distance}: {moved}" for rule in rules.rule if (moved := rule.changed_latency_note())]
    notes += [f"{rule.distance}: {brief}" for rule in rules.rule if (brief := rule.few_launches_note())]
    notes += [f"{rule.distance}, there is more: {rule.beyond}" for rule in rules.rule if rule.beyond]
    return "".join(tag("p", text(line + "."), class_="quiet") for line in notes)


def _ranges_html(rule: RuleTable) -> str:
    patterns = rule.message_patterns()
    rows = []
    for size_range in rule.range:
        pattern_cells = [escape_html(rule.format_pattern_gain(pattern, size_range)) for pattern in patterns]
        gain = f"{size_range.gain.value:.2f}x [{size_range.gain.low:.2f} to {size_range.gain.high:.2f}]"
        rows.append(
            [text(format_size_range(size_range.from_bytes, size_range.to_bytes)), escape_html(gain), *pattern_cells]
        )
    name = rule.distance
    if rule.memory_per_rank_bytes:
        cost = f"{format_bytes(rule.memory_per_rank_bytes)} of shared memory per rank"
        name = f"{rule.distance}, PUs {rule.pair}; {cost} at {rule.at_ranks_per_node} per node"
    return tag("p", text(name), class_="quiet") + table(("message size", "gain, all patterns", *patterns), rows)


def _collectives_html(rules: Rules) -> str:
    """Returns the HTML table of the algorithms selected for collectives; '' if collectives were not tuned."""
    rows = [
        [
            text(found.operation),
            escape_html(str(found.ranks)),
            *map(text, (one.format_max_length(), one.format_algorithm(), one.format_gain())),
        ]
        for found in rules.collective_tables()
        for one in found.range
    ]
    if not rows:
        return ""
    head = ("collective", "ranks", "bytes up to", "done by", "times as fast as the MPI's own")
    return tag("p", "Collectives of ranks on one node:", class_="quiet") + table(head, rows)


def _native_algorithms_html(rules: Rules) -> str:
    """Returns the HTML table of the selection among the MPI's own algorithms; '' if they were not searched."""
    rows = [
        [
            text(found.operation),
            escape_html(found.format_communicator_shape),
            *map(text, (one.format_max_length(), one.algorithm, one.format_gain())),
        ]
        for found in rules.native_collective_tables()
        for one in found.range
    ]
    if not rows:
        return ""
    head = ("collective", "ranks", "bytes up to", "algorithm", "times as fast as the MPI's choice")
    return tag("p", "The MPI's own algorithms, which need no preloaded library:", class_="quiet") + table(head, rows)
