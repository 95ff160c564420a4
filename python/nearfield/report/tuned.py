"""What rules say on the page: the factor, and the one line that applies it."""

from __future__ import annotations

from nearfield.report.findings import Finding
from nearfield.report.markup import raw, table, tag, text
from nearfield.report.plots import Section, tuned
from nearfield.report.words import sentence
from nearfield.tune.rules import GainTable, Rules, RuleTable
from nearfield.units import format_bytes, format_span


def tuned_findings(rules: Rules | None, apply: str) -> list[Finding]:
    """How much faster the same programs could be, where it gains most; `apply`: the command that runs them so."""
    found = []
    for rule in rules.rule if rules else []:
        best = rule.gaining()
        if not best:
            continue
        span = format_span(best.from_bytes, best.to_bytes)
        where = f"between cores of distance {rule.distance}, " if rules and len(rules.rule) > 1 else ""
        found.append(
            Finding(
                topic="tuned",
                title=f"{best.gain.value:.1f}x as fast when tuned",
                statement=sentence(
                    f"{where}messages of {span} are {best.gain.value:.2f} times as fast with other "
                    f"parameters of this MPI ({best.gain.low:.2f} to {best.gain.high:.2f}); {rule.promise()}."
                ),
                level="loss",
                action=f"Run programs as they are: {apply}",
                numbers={"gain": best.gain.value, "from_bytes": best.from_bytes, "to_bytes": best.to_bytes},
                weight=best.gain.value,
            )
        )
    return found


def tuned_section(rules: Rules) -> Section:
    refused = [f"{rule.distance}: stock is best ({rule.reason})" for rule in rules.rule if not rule.parameters]
    return Section("tuned", tuned.TITLE, tuned.SHORT, "", tuned.charts(rules), refused)


def tuned_html(rules: Rules, apply: str) -> str:
    """The line that applies the rules, what they set, and the gain by range."""
    settings = rules.best_for_all().parameters
    environment = rules.knobs().environment(settings)
    if not environment:
        return _notes(rules)
    html = tag("p", "To apply it to programs as they are:", class_="quiet")
    html += tag("pre", tag("code", text(apply)))
    if not rules.knobs().uses_heap(settings):
        lines = "\n".join(f"export {name}={value}" for name, value in environment.items())
        html += tag("p", "or, without nearfield:", class_="quiet") + tag("pre", tag("code", text(lines)))
    return html + "".join(_ranges(rule) for rule in rules.rule if rule.range) + _notes(rules)


def _notes(rules: Rules) -> str:
    told = [f"{rule.distance}: {moved}" for rule in rules.rule if (moved := rule.moved())]
    told += [f"{rule.distance}, there is more: {rule.beyond}" for rule in rules.rule if rule.beyond]
    return "".join(tag("p", text(line + "."), class_="quiet") for line in told)


def _ranges(rule: RuleTable) -> str:
    patterns = rule.patterns()
    rows = []
    for one in rule.range:
        each = [raw(rule.gain_text(pattern, one)) for pattern in patterns]
        rows.append([text(format_span(one.from_bytes, one.to_bytes)), raw(_text(one.gain)), *each])
    cost = f"{format_bytes(rule.memory_per_rank_bytes)} of shared memory per rank at {rule.at_ranks_per_node} per node"
    name = f"{rule.distance}, PUs {rule.pair}; {cost}" if rule.memory_per_rank_bytes else rule.distance
    return tag("p", text(name), class_="quiet") + table(("message size", "gain, all patterns", *patterns), rows)


def _text(gain: GainTable) -> str:
    return f"{gain.value:.2f}x [{gain.low:.2f} to {gain.high:.2f}]"
