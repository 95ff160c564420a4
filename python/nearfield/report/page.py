"""Renders one profile as a self-contained HTML page, without network access or other files. `render_summary` renders a
single printed sheet with the machine, the main findings and one plot."""

from __future__ import annotations

from dataclasses import replace

from plotly.offline import get_plotlyjs

from nearfield.base import own_command
from nearfield.base.units import counted, format_bytes
from nearfield.machine import machine_files
from nearfield.profile import Profile
from nearfield.profile.curves import plotted_places, restrict_to_one_machine, restrict_to_plotted_places
from nearfield.profile.ending import describe_unfinished
from nearfield.report import core_pairs, provenance, topology_boxes
from nearfield.report.advice import ProgramAdvice, advice_section_html
from nearfield.report.columns import gain_columns_html
from nearfield.report.findings import Finding, findings
from nearfield.report.legend import symbol_legend_html
from nearfield.report.next_steps import next_steps_html
from nearfield.report.plots import PlotSection, sections
from nearfield.report.plots.chart import Chart
from nearfield.report.rules import Guideline, evaluate_guidelines
from nearfield.report.tuned import tuned_html, tuned_section
from nearfield.rules.schema import Rules
from nearfield.ui.html import embedded_json, escape_html, fill_template, folded_html, framed_page, read_asset, tag, text

NUM_FINDINGS_IN_FULL = 6  # number of findings shown in full; the others are collapsed
MAX_SUMMARY_FINDINGS = 3  # number of findings on the summary sheet
_LEVEL_LABELS = {"loss": "time lost", "good": "good as it is"}
_MPI_FAMILY_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH", "intel": "Intel MPI", "simulated": "a simulated MPI"}


def render_report(
    profile: Profile,
    tuned_rules: Rules | None = None,
    apply_command: str = "",
    program_advice: ProgramAdvice | None = None,
) -> str:
    """Returns the HTML page of a profile's report. `tuned_rules` are the rules that `nearfield tune` found for this
    MPI, if any, and `apply_command` is the command line that runs programs with them. `program_advice` has the notes of
    `nearfield advise` on a program, if any."""
    page_sections = _report_sections(profile, tuned_rules)
    heat_maps = core_pairs.heat_map_charts(profile)
    all_findings = findings(profile, tuned_rules, apply_command)
    guidelines = (
        []
        if _has_no_messages(profile)
        else evaluate_guidelines(restrict_to_one_machine(restrict_to_plotted_places(profile)))
    )
    tuned_details = tuned_html(tuned_rules, apply_command) + gain_columns_html(tuned_rules) if tuned_rules else ""
    main = fill_template(
        read_asset("main.html"),
        {
            "findings": findings_html(all_findings),
            "next": next_steps_html(profile, tuned_rules, apply_command),
            "signs": symbol_legend_html() if profile.run.backend == "live" else "",
            "advice": advice_section_html(program_advice),
            "rules": _guidelines_section_html(guidelines),
            "machine": topology_boxes.topology_html(profile),
            "pairs": "".join(map(chart_placeholder_html, heat_maps)) + core_pairs.pairs_table_html(profile),
            "scenarios": "".join(
                section_html(part, tuned_details if part.scenario == "tuned" else "") for part in page_sections
            ),
            "provenance": provenance.provenance_html(profile),
        },
    )
    return framed_page(
        title=f"nearfield: {profile.machine.name}, {profile.run.mpi.name}",
        verb="report",
        headline=headline_html(profile),
        links=_navigation_links(page_sections, bool(_guidelines_section_html(guidelines)), bool(program_advice)),
        main=banners_html(profile, all_findings) + fold_if_unreliable(all_findings, main),
        controls=place_selector_html(_place_labels(profile)),
        scripts=chart_scripts([*heat_maps, *_charts_of_sections(page_sections)], origin_label(profile)),
    )


def _report_sections(profile: Profile, tuned_rules: Rules | None) -> list[PlotSection]:
    return ([tuned_section(tuned_rules)] if tuned_rules else []) + sections(restrict_to_plotted_places(profile))


def charts_of(profile: Profile, tuned_rules: Rules | None = None) -> list[Chart]:
    """Returns all charts of the report page."""
    return [*core_pairs.heat_map_charts(profile), *_charts_of_sections(_report_sections(profile, tuned_rules))]


def _charts_of_sections(page_sections: list[PlotSection]) -> list[Chart]:
    return [chart for part in page_sections for chart in part.charts]


def chart_scripts(charts: list[Chart], origin_label: str) -> str:
    """Returns script elements that draw the charts in the browser. `origin_label` is the origin shown in saved
    pictures."""
    data = embedded_json({"label": origin_label, "charts": [chart.as_dict() for chart in charts]})
    data = f'<script type="application/json" id="charts">{data}</script>'
    return data + "".join(f"<script>\n{script}\n</script>" for script in (get_plotlyjs(), read_asset("report.js")))


def origin_label(profile: Profile) -> str:
    """Returns the origin of the data shown in saved pictures: processor, MPI and date."""
    return f"{profile.machine.cpu_model}, {profile.run.mpi.name}, {profile.run.created:%Y-%m-%d}"


def headline_html(profile: Profile) -> str:
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
    title = f"{' '.join(machine.cpu_model.split())} with {_MPI_FAMILY_NAMES[run.mpi.family]} {run.mpi.version}"
    if run.backend == "sim":
        title = f"Simulated: {machine.cpu_model}"
    return tag("h1", text(title)) + tag("p", " &ensp;|&ensp; ".join(text(f) for f in facts), class_="facts-line")


def banners_html(profile: Profile, all_findings: list[Finding], profile_name: str = "") -> str:
    """Returns the HTML of the warnings at the top of the page. On pages with several profiles, `profile_name` says
    which profile the warnings are about."""
    name_prefix = f"{profile_name}: " if profile_name else ""
    return (
        _warning_banners_html(all_findings, name_prefix)
        + _simulated_banner_html(profile, name_prefix)
        + _incomplete_banner_html(profile, name_prefix)
    )


def fold_if_unreliable(all_findings: list[Finding], html: str) -> str:
    """Returns the HTML unchanged, or in a collapsed element if a finding says that the measurements are unreliable."""
    return folded_html("Unreliable measurements", html, class_="useless") if is_unreliable(all_findings) else html


def is_unreliable(all_findings: list[Finding]) -> bool:
    """Returns whether the findings include a warning, which means that the measurements are unreliable."""
    return any(finding.level == "warning" for finding in all_findings)


def _simulated_banner_html(profile: Profile, name_prefix: str) -> str:
    """Returns a banner that marks the profile as simulated; '' if it was measured."""
    run = profile.run
    if run.backend != "sim":
        return ""
    message = (
        f"{name_prefix}Simulated: nothing {'of it' if name_prefix else 'on this page'} was measured. It is what "
        "nearfield's "
        f"simulator (version {run.simulator}) foresees for the described machine '{run.simulated}'. Every number is "
        "exact for that description, and no more."
    )
    if run.simulated not in machine_files():
        return tag("p", text(message), class_="banner simulated", role="note")
    sources = tag(
        "code", escape_html(own_command.command_line("machine", "show", run.simulated, works_in_any_folder=True))
    )
    sentence = f"{text(message)} Where its numbers are from, and which were chosen: {sources}."
    return tag("p", sentence, class_="banner simulated", role="note")


def _incomplete_banner_html(profile: Profile, name_prefix: str) -> str:
    if profile.run.complete:
        return ""
    message = f"{name_prefix}This profile is {describe_unfinished(profile.run)}. Parts of this page are missing."
    remedy = f" {tag('code', text(profile.completed_by))} completes it."
    return tag("p", text(message) + remedy, class_="banner", role="alert")


def _warning_banners_html(all_findings: list[Finding], name_prefix: str) -> str:
    warnings = [(f.statement, *f.action.partition(": ")) for f in all_findings if f.level == "warning"]
    return "".join(
        tag(
            "p",
            f"{text(f'{name_prefix}{said} {action}{colon}')}{tag('code', escape_html(command))}",
            class_="banner",
            role="alert",
        )
        for said, action, colon, command in warnings
    )


def _has_no_messages(profile: Profile) -> bool:
    """Returns whether the profile is simulated and has no messages between two ranks, without which no placement
    guideline can be judged."""
    return profile.run.backend == "sim" and not {"pingpong", "protocol"} & set(profile.records["scenario"])


def _guidelines_section_html(guidelines: list[Guideline]) -> str:
    judged = [rule for rule in guidelines if rule.status != "not measured"]
    if not judged:
        return ""
    reasons_not_judged = [f"rule {rule.number}: {rule.evidence}" for rule in guidelines if rule not in judged]
    not_judged_html = (
        tag("p", text(f"Not judged here, {' '.join(reasons_not_judged)}"), class_="quiet") if reasons_not_judged else ""
    )
    intro = "The three placement rules of Pellegrini, Hoefler and Fahringer, with this machine's thresholds."
    items = tag("ol", "".join(map(_guideline_html, judged)), class_="rules") + not_judged_html
    return tag("section", tag("h2", "Where to put communication") + tag("p", intro, class_="quiet") + items, id="rules")


def _navigation_links(page_sections: list[PlotSection], has_rules: bool, has_advice: bool) -> list[tuple[str, str]]:
    optional_links = [*([("advice", "Advice")] if has_advice else []), *([("rules", "Rules")] if has_rules else [])]
    links = [("findings", "Findings"), *optional_links, ("machine", "Machine")]
    return [
        *links,
        *((f"s-{part.scenario}", part.navigation_title) for part in page_sections),
        ("provenance", "Provenance"),
    ]


def _place_labels(profile: Profile) -> list[str]:
    scenarios = profile.records["scenario"].unique(maintain_order=True)
    return list(dict.fromkeys(place.label for name in scenarios for place in plotted_places(profile.records, name)))


def place_selector_html(labels: list[str]) -> str:
    """Returns the HTML of a drop-down list that selects the pair of cores for all charts of the page; '' if at most one
    pair was measured."""
    if len(labels) < 2:
        return ""
    options = "".join(tag("option", text(label), value=label) for label in labels)
    return tag("label", "Cores " + tag("select", options, id="place"), class_="place")


def findings_html(all_findings: list[Finding], num_in_full: int = NUM_FINDINGS_IN_FULL) -> str:
    """Returns the HTML of all findings except warnings, which are at the top of the page. The first `num_in_full`
    findings are shown in full, and the others are collapsed."""
    main_findings = [f for f in all_findings if f.level not in ("warning", "note")]
    notes = [f for f in all_findings if f.level == "note"]
    html = tag("ol", "".join(map(finding_item_html, main_findings[:num_in_full])), class_="findings")
    if not main_findings:
        html = tag("p", "No finding: no stable record gives one.", class_="quiet")
    html += _folded_findings_html("more finding", main_findings[num_in_full:]) + _folded_findings_html(
        "note", notes, " on the measurement"
    )
    return html


def _folded_findings_html(noun: str, folded_findings: list[Finding], noun_suffix: str = "") -> str:
    inner = tag("ol", "".join(map(finding_item_html, folded_findings)), class_="findings")
    return folded_html(counted(len(folded_findings), noun) + noun_suffix, inner if folded_findings else "")


def finding_item_html(finding: Finding) -> str:
    """Returns the HTML of one finding as a list item."""
    action = tag("p", text(finding.action), class_="action") if finding.action else ""
    kind = tag("span", _LEVEL_LABELS[finding.level], class_="level") if finding.level in _LEVEL_LABELS else ""
    body = tag("h3", f"{text(finding.title)} {kind}") + tag("p", text(finding.statement)) + action
    return tag("li", body, class_=f"finding {finding.level}", data_topic=finding.topic)


def _guideline_html(rule: Guideline) -> str:
    mark = tag("span", text(rule.status), class_="status " + rule.status.replace(" ", "-"))
    body = tag("h3", f"Rule {rule.number} {mark}") + tag("p", text(rule.range), class_="range")
    return tag("li", body + tag("p", text(rule.advice)) + tag("p", text(rule.evidence), class_="quiet"))


def section_html(section: PlotSection, inserted_html: str = "") -> str:
    """Returns the HTML of a scenario's section, with `inserted_html` above its charts."""
    summary = tag("p", text(section.summary), class_="quiet") if section.summary else ""
    remarks = "".join(tag("p", text(remark), class_="skipped") for remark in section.remarks)
    body = (
        tag("h2", text(section.title))
        + summary
        + inserted_html
        + remarks
        + "".join(map(chart_placeholder_html, section.charts))
    )
    return tag("section", body, id=f"s-{section.scenario}")


def chart_placeholder_html(chart: Chart) -> str:
    """Returns the placeholder element of a chart. report.js adds the buttons, the plot and the table in the browser."""
    head = tag("figcaption", tag("h3", text(chart.title)) + tag("p", text(chart.caption)))
    return tag("figure", head + tag("div", "", class_="chart"), class_="plot", id=chart.id)


# ---- summary sheet for a talk


def render_summary(profile: Profile, tuned_rules: Rules | None = None, apply_command: str = "") -> str:
    """Returns an HTML page that prints on one sheet: headline_html, main findings and the first chart."""
    all_findings = findings(profile, tuned_rules, apply_command)
    charts = _first_chart_reduced(profile, tuned_rules)
    body = _main_findings_html(all_findings) + "".join(map(chart_placeholder_html, charts))
    return framed_page(
        title=f"nearfield: {profile.machine.name}, {profile.run.mpi.name}",
        verb="summary",
        headline=headline_html(profile),
        links=[],
        main=banners_html(profile, all_findings) + fold_if_unreliable(all_findings, body),
        style=read_asset("summary.css"),
        scripts=chart_scripts(charts, origin_label(profile)),
    )


def _main_findings_html(all_findings: list[Finding]) -> str:
    main_findings = [f for f in all_findings if f.level not in ("warning", "note")][:MAX_SUMMARY_FINDINGS]
    return tag("ol", "".join(map(finding_item_html, main_findings)), class_="findings")


def _first_chart_reduced(profile: Profile, tuned_rules: Rules | None) -> list[Chart]:
    """Returns a list with the first chart, reduced to its first variant; [] if the profile has no values."""
    parts = _report_sections(profile, tuned_rules)
    charts = [replace(chart, variants=chart.variants[:1]) for chart in _charts_of_sections(parts)]
    return charts[:1]
