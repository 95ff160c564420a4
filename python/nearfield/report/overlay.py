"""Merges the charts of several profiles, so that their curves are drawn in the same plots. A curve has the same colour
as in the report of its profile alone; dashes and markers identify the profile. The reader selects a core distance
instead of a pair of cores, because PU numbers of different machines do not correspond. The first measured pair
represents each distance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from nearfield.base.frames import pl
from nearfield.profile import Profile
from nearfield.profile.curves import Place, one_place_per_distance
from nearfield.report.plots import SCENARIOS, PlotSection, sections
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant, Figure
from nearfield.report.plots.series import CURVE_STYLES, CurveStyle, Trace, curve_style

MIN_PLOT_HEIGHT_PX = 400  # minimum height of a plot without its legend
LEGEND_LINE_PX = 12  # height of a legend entry
QUESTION_ROW_HEIGHT_PX = 48  # height of a row in a plot of yes/no questions, in pixels
Item = TypeVar("Item")
NamedItems = Sequence[tuple[str, Item]]  # pairs (profile name, object that belongs to this profile)


def overlay_profiles(profiles: Mapping[str, Profile]) -> list[PlotSection]:
    """Returns a merged section for each scenario that any profile has. The keys of `profiles` are the names in the
    legend."""
    sections_by_profile = {name: _sections_by_distance(profile) for name, profile in profiles.items()}
    scenarios = list(dict.fromkeys(section.scenario for parts in sections_by_profile.values() for section in parts))
    known_scenarios = [name for name in SCENARIOS if name in scenarios]
    return [
        _merge_sections(
            [
                (name, part)
                for name, parts in sections_by_profile.items()
                for part in parts
                if part.scenario == scenario
            ],
            sections_by_profile,
        )
        for scenario in [*known_scenarios, *(name for name in scenarios if name not in SCENARIOS)]
    ]


def selectable_distances(merged_sections: Iterable[PlotSection]) -> list[str]:
    """Returns the core selectable_distances that the page offers for selection."""
    choices = (variant.choice for part in merged_sections for chart in part.charts for variant in chart.variants)
    return list(dict.fromkeys(choice[PLACE_OPTION] for choice in choices if PLACE_OPTION in choice))


# ---- sections of a single profile


def _sections_by_distance(profile: Profile) -> list[PlotSection]:
    records = profile.records
    places = [
        p for name in records["scenario"].unique(maintain_order=True) for p in one_place_per_distance(records, name)
    ]
    drawn = records.filter(pl.col("pair").is_null() | pl.col("pair").is_in([place.pair for place in places]))
    return [_name_variants_by_distance(part, places) for part in sections(replace(profile, records=drawn))]


def _name_variants_by_distance(section: PlotSection, places: Iterable[Place]) -> PlotSection:
    """Returns the section with one variant for each core distance. A variant is named after the distance instead of the
    pair."""
    names = {place.label: place.distance or place.label for place in places}
    charts = []
    for chart in section.charts:
        variants: dict[tuple[tuple[str, str], ...], ChartVariant] = {}
        for variant in chart.variants:
            choice = {
                key: names.get(value, value) if key == PLACE_OPTION else value for key, value in variant.choice.items()
            }
            variants.setdefault(tuple(choice.items()), ChartVariant(choice, variant.figure))
        charts.append(replace(chart, variants=list(variants.values())))
    return replace(section, charts=charts)


# ---- merging of the profiles' sections


def _merge_sections(named_sections: NamedItems[PlotSection], profile_names: Iterable[str]) -> PlotSection:
    """Returns the merged section of one scenario. `named_sections` are the sections of the profiles that have this
    scenario, and `profile_names` are the names of all profiles."""
    names = list(profile_names)
    charts: dict[str, list[tuple[str, Chart]]] = {}
    for name, part in named_sections:
        for chart in part.charts:
            charts.setdefault(chart.id, []).append((name, chart))
    profiles_without_scenario = [name for name in names if name not in dict(named_sections)]
    named_remarks = [(name, remark) for name, part in named_sections for remark in part.remarks]
    remarks = _attribute_sentences(
        named_remarks + [(name, "Not measured.") for name in profiles_without_scenario], names
    )
    return replace(
        named_sections[0][1], charts=[_merge_charts(group, names) for group in charts.values()], remarks=remarks
    )


def _merge_charts(named_charts: NamedItems[Chart], profile_names: list[str]) -> Chart:
    variants: dict[tuple[tuple[str, str], ...], list[tuple[str, Figure]]] = {}
    for name, chart in named_charts:
        for variant in chart.variants:
            variants.setdefault(tuple(variant.choice.items()), []).append((name, variant.figure))
    merged = [ChartVariant(dict(choice), _merge_figures(group, profile_names)) for choice, group in variants.items()]
    named_sentences = [
        (name, sentence) for name, chart in named_charts for sentence in re.split(r"(?<=\.) +(?=[A-Z])", chart.caption)
    ]
    caption = " ".join(_attribute_sentences(named_sentences, [name for name, _ in named_charts]))
    return replace(named_charts[0][1], caption=caption, variants=merged)


def _attribute_sentences(named_sentences: NamedItems[str], profile_names: list[str]) -> list[str]:
    """Returns each distinct sentence once. A sentence that does not apply to all profiles starts with the names of
    those to which it applies."""
    names_by_sentence: dict[str, list[str]] = {}
    for name, sentence in named_sentences:
        names_by_sentence.setdefault(sentence, []).append(name)
    return [
        s if len(names_with_sentence) == len(profile_names) else f"{', '.join(names_with_sentence)}: {s}"
        for s, names_with_sentence in names_by_sentence.items()
    ]


def _merge_figures(named_figures: NamedItems[Figure], profile_names: list[str]) -> Figure:
    layout = _merge_layouts([(name, figure["layout"]) for name, figure in named_figures])
    if layout["yaxis"].get("type") == "category":
        data = _merge_question_rows([(name, figure["data"]) for name, figure in named_figures], profile_names)
        layout["yaxis"]["range"] = [-0.6, len(data) - 0.4]
        return {"data": data, "layout": {**layout, "height": QUESTION_ROW_HEIGHT_PX * (len(data) + 1)}}
    data = [
        _style_trace(trace, name, profile_names.index(name))
        for name, figure in named_figures
        for trace in figure["data"]
    ]
    legend = {trace["name"] for trace in data}
    return {"data": data, "layout": {**layout, "height": MIN_PLOT_HEIGHT_PX + LEGEND_LINE_PX * len(legend)}}


def _merge_question_rows(named_traces: NamedItems[list[Trace]], profile_names: list[str]) -> list[Trace]:
    """Returns the traces of a plot of yes/no questions: one row for each question and profile, in the colour of the
    profile."""
    traces_by_profile = [(name, trace) for name, traces in named_traces for trace in traces]
    questions = list(dict.fromkeys(trace["y"][0] for _, trace in traces_by_profile))
    rows = []
    for name, trace in sorted(traces_by_profile, key=lambda row: questions.index(row[1]["y"][0])):
        colour = curve_style(profile_names.index(name)).color
        marker = {**trace["marker"], "color": colour, "line": {**trace["marker"]["line"], "color": colour}}
        row = f"{trace['y'][0]}<br><i>{name}</i>"
        rows.append({**_prefix_profile_name(trace, name), "y": [row] * len(trace["x"]), "marker": marker})
    return rows


def _prefix_profile_name(trace: Trace, profile_name: str) -> Trace:
    full_name = f"{profile_name}: {trace['name']}"
    texts = {"text": [text.replace(trace["name"], full_name, 1) for text in trace["text"]]} if "text" in trace else {}
    return {**trace, "name": full_name, **({"legendgroup": full_name} if "legendgroup" in trace else {}), **texts}


def _style_trace(trace: Trace, profile_name: str, profile_index: int) -> Trace:
    """Returns the trace with the name, dash and markers of profile number `profile_index`. Only the first profile keeps
    the shaded area below its floor."""
    style = CURVE_STYLES[profile_index % len(CURVE_STYLES)]
    styled = _prefix_profile_name(trace, profile_name)
    if trace["type"] == "bar":
        return {**styled, "opacity": max(0.25, 1 - 0.4 * profile_index)}
    if profile_index and trace.get("fill") == "tozeroy":
        styled = {key: value for key, value in styled.items() if key not in ("fill", "fillcolor")}
    if trace.get("line", {}).get("width"):
        styled["line"] = {**trace["line"], "dash": style.dash}
    if "marker" in trace:
        styled["marker"] = {**trace["marker"], "symbol": [_marker_symbol(s, style) for s in trace["marker"]["symbol"]]}
    return styled


def _marker_symbol(symbol: str, style: CurveStyle) -> str:
    """Returns the profile's marker symbol, with the suffixes -open and -dot of `symbol`."""
    kind = re.search(r"(-open)?(-dot)?$", symbol)
    return style.symbol + (kind.group() if kind else "")


# ---- axes and marks of merged plots


def _merge_layouts(named_layouts: NamedItems[dict[str, Any]]) -> dict[str, Any]:
    layouts = [layout for _, layout in named_layouts]
    axes = {axis: _merge_axes([layout[axis] for layout in layouts]) for axis in ("xaxis", "yaxis")}
    return {**layouts[0], **axes, **{kind: _merge_marks(named_layouts, kind) for kind in ("shapes", "annotations")}}


def _merge_axes(axes: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns an axis that covers the ranges of all axes. It has all ticks of the axis with the longest range, and
    those ticks of the other axes that lie outside this range."""
    ranged = sorted((axis for axis in axes if "range" in axis), key=lambda axis: axis["range"][0] - axis["range"][1])
    if not ranged:
        return _merge_ticks(axes)
    ends = [min(axis["range"][0] for axis in ranged), max(axis["range"][1] for axis in ranged)]
    return {**_merge_ticks(ranged), "range": ends}


def _merge_ticks(axes: list[dict[str, Any]]) -> dict[str, Any]:
    if "tickvals" not in axes[0]:
        return axes[0]
    ticks = dict(zip(axes[0]["tickvals"], axes[0]["ticktext"], strict=True))
    low, high = min(ticks), max(ticks)
    for axis in axes[1:]:
        further = zip(axis.get("tickvals", []), axis.get("ticktext", []), strict=True)
        ticks |= {at: text for at, text in further if not low <= at <= high}
    return {**axes[0], "tickvals": sorted(ticks), "ticktext": [ticks[at] for at in sorted(ticks)]}


def _merge_marks(named_layouts: NamedItems[dict[str, Any]], mark_kind: str) -> list[dict[str, Any]]:
    """Returns each distinct mark (shape or annotation) of the plots once. If not all profiles have a mark, its text
    lists those that do."""
    mark_and_profiles: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, layout in named_layouts:
        for mark in layout[mark_kind]:
            mark_and_profiles.setdefault(repr(mark), (mark, []))[1].append(name)
    return [
        {**mark, "text": f"{mark['text']} ({', '.join(profile_names)})"}
        if "text" in mark and len(profile_names) < len(named_layouts)
        else mark
        for mark, profile_names in mark_and_profiles.values()
    ]
