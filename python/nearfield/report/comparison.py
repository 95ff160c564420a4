"""Renders the HTML page that compares several profiles. It shows, in this order, the significant differences from the
first profile, the findings of each profile, the curves of all profiles in the same plots, and the provenance. Only the
reports of single profiles show the placement guidelines and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base import own_command
from nearfield.base.units import format_ratio, format_value
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.compare import (
    DEFAULT_THRESHOLD,
    Comparison,
    RecordChange,
    compare_records,
    count_agreeing_times,
    find_unmatched_values,
    largest_changes,
    overall_verdict,
    summarize_by_scenario,
)
from nearfield.profile.differences import (
    agreement_line,
    record_location_text,
    same_setup_line,
    setup_differences,
    unmatched_values_line,
    variable_differences,
    verdict_sentence,
)
from nearfield.report import provenance
from nearfield.report.findings import findings
from nearfield.report.formatting import format_percent
from nearfield.report.legend import symbol_legend_html
from nearfield.report.overlay import overlay_profiles, selectable_distances
from nearfield.report.page import (
    banners_html,
    chart_scripts,
    findings_html,
    fold_if_unreliable,
    origin_label,
    place_selector_html,
    section_html,
)
from nearfield.report.plots.chart import Chart
from nearfield.ui.html import escape_html, fill_template, folded_html, framed_page, read_asset, table, tag, text

NUM_CHANGES_IN_FULL, MAX_CHANGES = 12, 200
NUM_FINDINGS_IN_FULL = 3


def render_comparison(profiles: Sequence[Profile]) -> str:
    """Returns the HTML of the comparison page, on which all other profiles are compared with the first."""
    by_name = dict(zip(unique_names(profiles), profiles, strict=True))
    page_sections = overlay_profiles(by_name)
    findings_by_name = {name: findings(profile) for name, profile in by_name.items()}
    sides = [
        tag(
            "div",
            tag("h3", escape_html(name))
            + fold_if_unreliable(profile_findings, findings_html(profile_findings, NUM_FINDINGS_IN_FULL)),
        )
        for name, profile_findings in findings_by_name.items()
    ]
    main = {
        "banner": "".join(banners_html(profile, findings_by_name[name], name) for name, profile in by_name.items()),
        "threshold": text(format_percent(DEFAULT_THRESHOLD)),
        "differences": "".join(_differences_html(by_name, name) for name in list(by_name)[1:]),
        "findings": "".join(sides),
        "signs": symbol_legend_html(),
        "scenarios": "".join(map(section_html, page_sections)),
        "provenance": "".join(
            tag("div", tag("h3", escape_html(name)) + provenance.provenance_html(profile), class_="provenance")
            for name, profile in by_name.items()
        ),
    }
    labels = "; ".join(f"{name}: {origin_label(profile)}" for name, profile in by_name.items())
    links = [("differences", "Differences"), ("findings", "Findings")]
    links += [(f"s-{part.scenario}", part.navigation_title) for part in page_sections]
    return framed_page(
        title=f"nearfield: {', '.join(by_name)}",
        verb="report",
        headline=_headline_html(by_name),
        links=[*links, ("provenance", "Provenance")],
        main=fill_template(read_asset("comparison.html"), main),
        controls=place_selector_html(selectable_distances(page_sections)),
        style=read_asset("comparison.css"),
        scripts=chart_scripts([chart for part in page_sections for chart in part.charts], labels),
    )


def charts_of(profiles: Sequence[Profile]) -> list[Chart]:
    """Returns all charts of the comparison page."""
    parts = overlay_profiles(dict(zip(unique_names(profiles), profiles, strict=True)))
    return [chart for part in parts for chart in part.charts]


def unique_names(profiles: Sequence[Profile]) -> list[str]:
    """Returns a unique name for each profile: the name of its folder, or its path if several folders have the same
    name. If the same path is passed more than once, a number is appended."""
    folders = [profile.path.resolve().name for profile in profiles]
    names = [str(p.path) if folders.count(f) > 1 else f for p, f in zip(profiles, folders, strict=True)]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def describe_differences(profiles: Sequence[Profile]) -> list[str]:
    """Returns one line for each profile except the first, with a summary of its significant differences from the
    first."""
    first_name, *other_names = unique_names(profiles)
    return [
        f"{name} against {first_name}: {_summarize_changes(_compare_profiles(profiles[0], other))}"
        for name, other in zip(other_names, profiles[1:], strict=True)
    ]


def _compare_profiles(a: Profile, b: Profile) -> Comparison:
    return compare_records(a.records, b.records, (a.run, b.run), DEFAULT_THRESHOLD)


def _summarize_changes(comparison: Comparison) -> str:
    """Returns a sentence with the number of significantly faster and slower records, followed by the fraction of times
    that agree."""
    if not comparison.changes:
        return "the two have no record in common"
    if overall_verdict(comparison.changes) == "cannot tell":
        return verdict_sentence(comparison.changes)
    return f"{verdict_sentence(comparison.changes)}; {agreement_line(count_agreeing_times(comparison.changes))}"


def _headline_html(profiles: Mapping[str, Profile]) -> str:
    first, *other_profiles = profiles.values()
    title = " beside ".join(map(escape_html, profiles))
    verdict_text = "; ".join(
        f"{name}: {same_setup_line(first, other)}"
        for name, other in zip(list(profiles)[1:], other_profiles, strict=True)
    )
    if len(other_profiles) == 1:
        verdict_text = capitalize(same_setup_line(first, other_profiles[0]))
    return tag("h1", title) + tag("p", text(verdict_text), class_="facts-line")


# ---- differences between two profiles


def _differences_html(profiles: Mapping[str, Profile], name: str) -> str:
    first = next(iter(profiles))
    a, b = profiles[first], profiles[name]
    comparison = _compare_profiles(a, b)
    changes = largest_changes(comparison.changes)
    smaller_changes = changes[NUM_CHANGES_IN_FULL:MAX_CHANGES]
    diff_command = own_command.command_line(
        "diff", a.path.resolve(), b.path.resolve(), "--json", works_in_any_folder=True
    )
    all_changes_html = tag(
        "p", f"All {len(changes)} changes: " + tag("code", escape_html(diff_command)), class_="quiet"
    )
    lone = [tag("li", text(unmatched_values_line(axis))) for axis in find_unmatched_values(a.records, b.records)]
    verdict = overall_verdict(comparison.changes)
    numbers = _verdict_table_html(comparison) + _changes_table_html(changes[:NUM_CHANGES_IN_FULL])
    numbers += folded_html(f"{len(smaller_changes)} smaller changes", _changes_table_html(smaller_changes))
    numbers += all_changes_html if len(changes) > MAX_CHANGES else ""
    parts = [
        tag("h3", f"{escape_html(name)} (B) against {escape_html(first)} (A)"),
        tag("p", text(capitalize(_summarize_changes(comparison)) + "."), class_=f"whole {verdict.replace(' ', '-')}"),
        folded_html("unreliable comparison", numbers) if verdict == "cannot tell" else numbers,
        folded_html("machine, MPI and run, where they differ", _differing_values_table_html(setup_differences(a, b))),
        folded_html(
            "control variables of the MPI that differ", _differing_values_table_html(variable_differences(a, b))
        ),
        folded_html("values of only one of the two", tag("ul", "".join(lone)) if lone else ""),
    ]
    return tag("div", "".join(parts), class_="against")


def _verdict_table_html(comparison: Comparison) -> str:
    """Returns an HTML table with the number of records by scenario and verdict (faster, slower, ...), without empty
    columns."""
    summaries = summarize_by_scenario(comparison.changes)
    words = ("records", "faster", "slower", "changed", "same", "unstable", "missing")
    columns = {word: [str(summary[word] or "") for summary in summaries.values()] for word in words}
    means = (summary["geometric_mean"] for summary in summaries.values())
    columns["geometric mean B/A"] = ["" if mean is None else text(format_ratio(mean)) for mean in means]
    columns = {title: cells for title, cells in columns.items() if any(cells)}
    rows = zip(map(text, summaries), *columns.values(), strict=True)
    return table(["scenario", *columns], list(rows), class_="numbers") if columns else ""


def _changes_table_html(changes: list[RecordChange]) -> str:
    rows = [
        [text(f"{change.key['scenario']} {change.key['metric']}"), text(record_location_text(change.key)),
         *(text(format_value(e.value, change.unit)) if e else "" for e in (change.a, change.b)),
         text(_format_ratio_with_interval(change)),
         tag("span", text(change.verdict), class_=f"verdict {change.verdict}")]
        for change in changes
    ]  # fmt: skip
    return table(["what", "where", "A", "B", "B/A", ""], rows, class_="numbers changes") if rows else ""


def _format_ratio_with_interval(change: RecordChange) -> str:
    ratio = change.ratio
    return f"{format_ratio(ratio.value)} [{ratio.low:.2f} to {ratio.high:.2f}]" if ratio else ""


def _differing_values_table_html(rows: list[tuple[str, str, str]]) -> str:
    return table(["", "A", "B"], [[escape_html(cell) for cell in row] for row in rows]) if rows else ""
