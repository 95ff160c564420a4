"""Renders one profile as a self-contained HTML page, without network access or other files. `render_summary` renders a
single sheet for a talk, with the machine, the main findings and one plot."""

from __future__ import annotations

from dataclasses import replace

from plotly.offline import get_plotlyjs

from nearfield.base import own_command
from nearfield.base.units import counted, format_bytes
from nearfield.machine import machine_files
from nearfield.profile import Profile
from nearfield.profile.curves import drawn_places, restrict_to_drawn, restrict_to_one_machine
from nearfield.profile.ending import describe_unfinished
from nearfield.report import core_pairs, provenance, topology_boxes
from nearfield.report.advice import Advised, advice_section
from nearfield.report.columns import columns_html
from nearfield.report.findings import Finding, findings
from nearfield.report.legend import signs_html
from nearfield.report.next_steps import next_steps
from nearfield.report.plots import Section, sections
from nearfield.report.plots.chart import Chart
from nearfield.report.rules import Guideline, evaluate_guidelines
from nearfield.report.tuned import tuned_html, tuned_section
from nearfield.rules.schema import Rules
from nearfield.ui.html import embedded_json, escape_html, fill_template, folded_html, framed_page, read_asset, tag, text

FIRST = 6  # number of findings shown in full; the others are folded
MAX_IN_SUMMARY = 3  # number of findings on the summary sheet
_LEVELS = {"loss": "time lost", "good": "good as it is"}
_MPI = {"openmpi": "Open MPI", "mpich": "MPICH", "intel": "Intel MPI", "simulated": "a simulated MPI"}


def render(profile: Profile, tuned: Rules | None = None, apply: str = "", advised: Advised | None = None) -> str:
    """Returns the HTML page of a profile's report. `tuned` are the rules that `tune` found for this MPI, and `apply` is
    the command line that runs programs under them. `advised` are notes of `nearfield advise` on a program."""
    parts = _parts(profile, tuned)
    heat = core_pairs.heat_map(profile)
    found = findings(profile, tuned, apply)
    placement = (
        [] if _has_no_messages(profile) else evaluate_guidelines(restrict_to_one_machine(restrict_to_drawn(profile)))
    )
    how = tuned_html(tuned, apply) + columns_html(tuned) if tuned else ""
    main = fill_template(
        read_asset("main.html"),
        {
            "findings": findings_html(found),
            "next": next_steps(profile, tuned, apply),
            "signs": signs_html() if profile.run.backend == "live" else "",
            "advice": advice_section(advised),
            "rules": _placement_section(placement),
            "machine": topology_boxes.topology_html(profile),
            "pairs": "".join(map(chart_placeholder, heat)) + core_pairs.pairs_table(profile),
            "scenarios": "".join(section_html(part, how if part.scenario == "tuned" else "") for part in parts),
            "provenance": provenance.provenance_html(profile),
        },
    )
    return framed_page(
        title=f"nearfield: {profile.machine.name}, {profile.run.mpi.name}",
        verb="report",
        headline=headline(profile),
        links=_links(parts, bool(_placement_section(placement)), bool(advised)),
        main=banners(profile, found) + fold_if_unreliable(found, main),
        controls=place_selector(_labels(profile)),
        scripts=chart_scripts([*heat, *_charts(parts)], origin_label(profile)),
    )


def _parts(profile: Profile, tuned: Rules | None) -> list[Section]:
    return ([tuned_section(tuned)] if tuned else []) + sections(restrict_to_drawn(profile))


def charts_of(profile: Profile, tuned: Rules | None = None) -> list[Chart]:
    """Returns all charts of the page."""
    return [*core_pairs.heat_map(profile), *_charts(_parts(profile, tuned))]


def _charts(parts: list[Section]) -> list[Chart]:
    return [chart for part in parts for chart in part.charts]


def chart_scripts(charts: list[Chart], label: str) -> str:
    """Returns script elements that draw the charts in the browser. `label` is the origin shown in saved pictures."""
    data = embedded_json({"label": label, "charts": [chart.as_dict() for chart in charts]})
    data = f'<script type="application/json" id="charts">{data}</script>'
    return data + "".join(f"<script>\n{script}\n</script>" for script in (get_plotlyjs(), read_asset("report.js")))


def origin_label(profile: Profile) -> str:
    """Returns the origin of the data shown in saved pictures: processor, MPI and date."""
    return f"{profile.machine.cpu_model}, {profile.run.mpi.name}, {profile.run.created:%Y-%m-%d}"


def headline(profile: Profile) -> str:
    """Returns the HTML of the page title and a line of facts about the machine and the run."""
    machine, run = profile.machine, profile.run
    caches = " · ".join(f"L{c.level} {format_bytes(c.size_bytes, digits=3)}" for c in machine.data_caches)
    mpi = f"{run.mpi.name}" + (f" ({run.mpi.transport})" if run.mpi.transport else "")
    facts = [
        f"{machine.cores} cores" if machine.cores == machine.pus else f"{machine.cores} cores, {machine.pus} PUs",
        caches or "caches unknown",
        mpi,
        f"{run.created:%d %B %Y}".lstrip("0"),
    ]
    title = f"{' '.join(machine.cpu_model.split())} with {_MPI[run.mpi.family]} {run.mpi.version}"
    if run.backend == "sim":
        title = f"Simulated: {machine.cpu_model}"
    return tag("h1", text(title)) + tag("p", " &ensp;|&ensp; ".join(text(f) for f in facts), class_="facts-line")


def banners(profile: Profile, found: list[Finding], name: str = "") -> str:
    """Returns the HTML of the warnings at the top of the page. `name` is the profile's name, for pages with several
    profiles."""
    before = f"{name}: " if name else ""
    return _warning_banners(found, before) + _simulated_banner(profile, before) + _incomplete_banner(profile, before)


def fold_if_unreliable(found: list[Finding], html: str) -> str:
    """Returns the HTML unchanged, or folded if a warning says that the measurements are unreliable."""
    return folded_html("What was measured all the same", html, class_="useless") if is_unreliable(found) else html


def is_unreliable(found: list[Finding]) -> bool:
    """Returns whether the findings include a warning, which means that the measurements are unreliable."""
    return any(finding.level == "warning" for finding in found)


def _simulated_banner(profile: Profile, before: str) -> str:
    """Returns a banner that marks the profile as simulated; '' if it was measured."""
    run = profile.run
    if run.backend != "sim":
        return ""
    message = (
        f"{before}Simulated: nothing {'of it' if before else 'on this page'} was measured. It is what nearfield's "
        f"simulator (version {run.simulator}) foresees for the described machine '{run.simulated}'. Every number is "
        "exact for that description, and no more."
    )
    if run.simulated not in machine_files():
        return tag("p", text(message), class_="banner simulated", role="note")
    sources = tag("code", escape_html(own_command.line("machine", "show", run.simulated, anywhere=True)))
    sentence = f"{text(message)} Where its numbers are from, and which were chosen: {sources}."
    return tag("p", sentence, class_="banner simulated", role="note")


def _incomplete_banner(profile: Profile, before: str) -> str:
    if profile.run.complete:
        return ""
    message = f"{before}This profile is {describe_unfinished(profile.run)}. Some of what belongs here is missing."
    remedy = f" {tag('code', text(profile.completed_by))} completes it."
    return tag("p", text(message) + remedy, class_="banner", role="alert")


def _warning_banners(found: list[Finding], before: str) -> str:
    sentence = [(f.statement, *f.action.partition(": ")) for f in found if f.level == "warning"]
    return "".join(
        tag(
            "p",
            f"{text(f'{before}{said} {action}{colon}')}{tag('code', escape_html(command))}",
            class_="banner",
            role="alert",
        )
        for said, action, colon, command in sentence
    )


def _has_no_messages(profile: Profile) -> bool:
    """Returns whether the profile has only simulated collectives or applications, from which no placement guideline can
    be judged."""
    return profile.run.backend == "sim" and not {"pingpong", "protocol"} & set(profile.records["scenario"])


def _placement_section(found: list[Guideline]) -> str:
    judged = [rule for rule in found if rule.status != "not measured"]
    if not judged:
        return ""
    missing = [f"rule {rule.number}: {rule.evidence}" for rule in found if rule not in judged]
    rest = tag("p", text(f"Not judged here, {' '.join(missing)}"), class_="quiet") if missing else ""
    intro = "The three placement rules of Pellegrini, Hoefler and Fahringer, with this machine's thresholds."
    items = tag("ol", "".join(map(_rule, judged)), class_="rules") + rest
    return tag("section", tag("h2", "Where to put communication") + tag("p", intro, class_="quiet") + items, id="rules")


def _links(parts: list[Section], has_rules: bool, has_advice: bool) -> list[tuple[str, str]]:
    if_any = [*([("advice", "Advice")] if has_advice else []), *([("rules", "Rules")] if has_rules else [])]
    first = [("findings", "Findings"), *if_any, ("machine", "Machine")]
    return [*first, *((f"s-{part.scenario}", part.short) for part in parts), ("provenance", "Provenance")]


def _labels(profile: Profile) -> list[str]:
    scenarios = profile.records["scenario"].unique(maintain_order=True)
    return list(dict.fromkeys(place.label for name in scenarios for place in drawn_places(profile.records, name)))


def place_selector(labels: list[str]) -> str:
    """Returns the HTML of a selector of pairs of cores that applies to the whole page; '' if at most one pair was
    measured."""
    if len(labels) < 2:
        return ""
    options = "".join(tag("option", text(label), value=label) for label in labels)
    return tag("label", "Cores " + tag("select", options, id="place"), class_="place")


def findings_html(found: list[Finding], first: int = FIRST) -> str:
    """Returns the HTML of all findings except warnings, which are at the top of the page. Shows the first `first`
    findings in full and folds the others."""
    sentence = [f for f in found if f.level not in ("warning", "note")]
    notes = [f for f in found if f.level == "note"]
    html = tag("ol", "".join(map(finding_item, sentence[:first])), class_="findings")
    if not sentence:
        html = tag("p", "No finding: no stable record gives one.", class_="quiet")
    html += _more("more finding", sentence[first:]) + _more("note", notes, " on the measurement")
    return html


def _more(noun: str, found: list[Finding], about: str = "") -> str:
    inner = tag("ol", "".join(map(finding_item, found)), class_="findings")
    return folded_html(counted(len(found), noun) + about, inner if found else "")


def finding_item(finding: Finding) -> str:
    """Returns the HTML of one finding as a list item."""
    action = tag("p", text(finding.action), class_="action") if finding.action else ""
    kind = tag("span", _LEVELS[finding.level], class_="level") if finding.level in _LEVELS else ""
    body = tag("h3", f"{text(finding.title)} {kind}") + tag("p", text(finding.statement)) + action
    return tag("li", body, class_=f"finding {finding.level}", data_topic=finding.topic)


def _rule(rule: Guideline) -> str:
    mark = tag("span", text(rule.status), class_="status " + rule.status.replace(" ", "-"))
    body = tag("h3", f"Rule {rule.number} {mark}") + tag("p", text(rule.range), class_="range")
    return tag("li", body + tag("p", text(rule.advice)) + tag("p", text(rule.evidence), class_="quiet"))


def section_html(section: Section, how: str = "") -> str:
    """Returns the HTML of a scenario's section. `how` is HTML to insert above its charts."""
    summary = tag("p", text(section.summary), class_="quiet") if section.summary else ""
    remarks = "".join(tag("p", text(remark), class_="skipped") for remark in section.remarks)
    body = tag("h2", text(section.title)) + summary + how + remarks + "".join(map(chart_placeholder, section.charts))
    return tag("section", body, id=f"s-{section.scenario}")


def chart_placeholder(chart: Chart) -> str:
    """Returns the placeholder element of a chart. report.js adds the buttons, the plot and the table in the browser."""
    head = tag("figcaption", tag("h3", text(chart.title)) + tag("p", text(chart.caption)))
    return tag("figure", head + tag("div", "", class_="chart"), class_="plot", id=chart.id)


# ---- summary sheet for a talk


def render_summary(profile: Profile, tuned: Rules | None = None, apply: str = "") -> str:
    """Returns an HTML page that prints on one sheet: headline, main findings and the first chart."""
    found = findings(profile, tuned, apply)
    charts = _first_chart(profile, tuned)
    rest = _list_main_findings(found) + "".join(map(chart_placeholder, charts))
    return framed_page(
        title=f"nearfield: {profile.machine.name}, {profile.run.mpi.name}",
        verb="summary",
        headline=headline(profile),
        links=[],
        main=banners(profile, found) + fold_if_unreliable(found, rest),
        style=read_asset("summary.css"),
        scripts=chart_scripts(charts, origin_label(profile)),
    )


def _list_main_findings(found: list[Finding]) -> str:
    sentence = [f for f in found if f.level not in ("warning", "note")][:MAX_IN_SUMMARY]
    return tag("ol", "".join(map(finding_item, sentence)), class_="findings")


def _first_chart(profile: Profile, tuned: Rules | None) -> list[Chart]:
    """Returns a list with the first chart, reduced to its first variant; [] if the profile has no values."""
    parts = _parts(profile, tuned)
    charts = [replace(chart, variants=chart.variants[:1]) for chart in _charts(parts)]
    return charts[:1]
