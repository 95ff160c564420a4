"""The HTML page that compares several profiles. It shows, in this order: the significant differences from the first
profile, the findings of each profile, the curves of all profiles in the same plots, and the provenance. Placement
guidelines and the machine are only in each profile's own report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base import own_command
from nearfield.base.units import format_ratio, format_value
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.compare import (
    DEFAULT_THRESHOLD,
    Change,
    Comparison,
    agreement,
    compare,
    largest_changes,
    lone_axes,
    overall_verdict,
    summarise,
)
from nearfield.profile.differences import (
    agreement_line,
    axis_line,
    record_location_text,
    setup_differences,
    variable_differences,
    verdict_line,
    verdict_sentence,
)
from nearfield.report import provenance
from nearfield.report.findings import findings
from nearfield.report.formatting import percent
from nearfield.report.legend import signs_html
from nearfield.report.overlay import distances, overlay_profiles
from nearfield.report.page import (
    banners,
    chart_scripts,
    findings_html,
    fold_if_unreliable,
    origin_label,
    place_selector,
    section_html,
)
from nearfield.report.plots.chart import Chart
from nearfield.ui.html import escape_html, fill_template, folded_html, framed_page, read_asset, table, tag, text

FIRST_CHANGES, MAX_CHANGES = 12, 200
FIRST_FINDINGS = 3


def render(profiles: Sequence[Profile]) -> str:
    """Returns the HTML of the comparison page. Compares all other profiles with the first."""
    by_name = dict(zip(unique_names(profiles), profiles, strict=True))
    parts = overlay_profiles(by_name)
    found = {name: findings(profile) for name, profile in by_name.items()}
    sides = [
        tag("div", tag("h3", escape_html(name)) + fold_if_unreliable(own, findings_html(own, FIRST_FINDINGS)))
        for name, own in found.items()
    ]
    main = {
        "banner": "".join(banners(profile, found[name], name) for name, profile in by_name.items()),
        "threshold": text(percent(DEFAULT_THRESHOLD)),
        "differences": "".join(_differences(by_name, name) for name in list(by_name)[1:]),
        "findings": "".join(sides),
        "signs": signs_html(),
        "scenarios": "".join(map(section_html, parts)),
        "provenance": "".join(
            tag("div", tag("h3", escape_html(name)) + provenance.provenance_html(profile), class_="provenance")
            for name, profile in by_name.items()
        ),
    }
    labels = "; ".join(f"{name}: {origin_label(profile)}" for name, profile in by_name.items())
    links = [("differences", "Differences"), ("findings", "Findings")]
    links += [(f"s-{part.scenario}", part.short) for part in parts]
    return framed_page(
        title=f"nearfield: {', '.join(by_name)}",
        verb="report",
        headline=_headline(by_name),
        links=[*links, ("provenance", "Provenance")],
        main=fill_template(read_asset("comparison.html"), main),
        controls=place_selector(distances(parts)),
        style=read_asset("comparison.css"),
        scripts=chart_scripts([chart for part in parts for chart in part.charts], labels),
    )


def charts_of(profiles: Sequence[Profile]) -> list[Chart]:
    """Returns all charts of the comparison page."""
    parts = overlay_profiles(dict(zip(unique_names(profiles), profiles, strict=True)))
    return [chart for part in parts for chart in part.charts]


def unique_names(profiles: Sequence[Profile]) -> list[str]:
    """Returns a unique name for each profile: its folder's name, or its path if two folders have the same name. If the
    same profile is passed twice, appends a number."""
    folders = [profile.path.resolve().name for profile in profiles]
    found = [str(p.path) if folders.count(f) > 1 else f for p, f in zip(profiles, folders, strict=True)]
    return [name if found.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(found)]


def describe_differences(profiles: Sequence[Profile]) -> list[str]:
    """Returns one line for each profile but the first, which summarises its significant differences from the first."""
    first, *others = unique_names(profiles)
    return [
        f"{name} against {first}: {_count_changes(_compare(profiles[0], b))}"
        for name, b in zip(others, profiles[1:], strict=True)
    ]


def _compare(a: Profile, b: Profile) -> Comparison:
    return compare(a.records, b.records, (a.run, b.run), DEFAULT_THRESHOLD)


def _count_changes(found: Comparison) -> str:
    """Returns for example 'surely different: 12 faster, 3 slower; ...', followed by the fraction of times that
    agree."""
    if not found.changes:
        return "the two have no record in common"
    if overall_verdict(found.changes) == "cannot tell":
        return verdict_sentence(found.changes)
    return f"{verdict_sentence(found.changes)}; {agreement_line(agreement(found.changes))}"


def _headline(profiles: Mapping[str, Profile]) -> str:
    first, *others = profiles.values()
    title = " beside ".join(map(escape_html, profiles))
    alike = "; ".join(
        f"{name}: {verdict_line(first, other)}" for name, other in zip(list(profiles)[1:], others, strict=True)
    )
    if len(others) == 1:
        alike = capitalize(verdict_line(first, others[0]))
    return tag("h1", title) + tag("p", text(alike), class_="facts-line")


# ---- differences between two profiles


def _differences(profiles: Mapping[str, Profile], name: str) -> str:
    first = next(iter(profiles))
    a, b = profiles[first], profiles[name]
    found = _compare(a, b)
    changes = largest_changes(found.changes)
    rest = changes[FIRST_CHANGES:MAX_CHANGES]
    whole = own_command.line("diff", a.path.resolve(), b.path.resolve(), "--json", anywhere=True)
    all_of_them = tag("p", f"All {len(changes)} changes: " + tag("code", escape_html(whole)), class_="quiet")
    lone = [tag("li", text(axis_line(axis))) for axis in lone_axes(a.records, b.records)]
    verdict = overall_verdict(found.changes)
    numbers = _summary(found) + _changes(changes[:FIRST_CHANGES])
    numbers += folded_html(f"{len(rest)} smaller changes", _changes(rest))
    numbers += all_of_them if len(changes) > MAX_CHANGES else ""
    parts = [
        tag("h3", f"{escape_html(name)} (B) against {escape_html(first)} (A)"),
        tag("p", text(capitalize(_count_changes(found)) + "."), class_=f"whole {verdict.replace(' ', '-')}"),
        folded_html("what was compared all the same", numbers) if verdict == "cannot tell" else numbers,
        folded_html("machine, MPI and run, where they differ", _side_by_side(setup_differences(a, b))),
        folded_html("control variables of the MPI that differ", _side_by_side(variable_differences(a, b))),
        folded_html("what only one of the two has", tag("ul", "".join(lone)) if lone else ""),
    ]
    return tag("div", "".join(parts), class_="against")


def _summary(found: Comparison) -> str:
    """Returns the HTML table of verdicts by scenario, without empty columns."""
    summaries = summarise(found.changes)
    words = ("records", "faster", "slower", "changed", "same", "unstable", "missing")
    columns = {word: [str(summary[word] or "") for summary in summaries.values()] for word in words}
    means = (summary["geometric_mean"] for summary in summaries.values())
    columns["geometric mean B/A"] = ["" if mean is None else text(format_ratio(mean)) for mean in means]
    columns = {title: cells for title, cells in columns.items() if any(cells)}
    rows = zip(map(text, summaries), *columns.values(), strict=True)
    return table(["scenario", *columns], list(rows), class_="numbers") if columns else ""


def _changes(changes: list[Change]) -> str:
    rows = [
        [text(f"{change.key['scenario']} {change.key['metric']}"), text(record_location_text(change.key)),
         *(text(format_value(e.value, change.unit)) if e else "" for e in (change.a, change.b)), text(_ratio(change)),
         tag("span", text(change.verdict), class_=f"verdict {change.verdict}")]
        for change in changes
    ]  # fmt: skip
    return table(["what", "where", "A", "B", "B/A", ""], rows, class_="numbers changes") if rows else ""


def _ratio(change: Change) -> str:
    ratio = change.ratio
    return f"{format_ratio(ratio.value)} [{ratio.low:.2f} to {ratio.high:.2f}]" if ratio else ""


def _side_by_side(unequal: list[tuple[str, str, str]]) -> str:
    return table(["", "A", "B"], [[escape_html(cell) for cell in row] for row in unequal]) if unequal else ""
