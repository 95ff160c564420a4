"""Draws the curves of several profiles in the same plots. A curve has the same colour as in its profile's own report;
dashes and markers identify the profile. The reader selects pairs of cores by core distance, because PU numbers are
meaningless on another machine. The first measured pair represents each distance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from nearfield.base.frames import pl
from nearfield.profile import Profile
from nearfield.profile.curves import Place, one_per_distance
from nearfield.report.plots import SCENARIOS, Section, sections
from nearfield.report.plots.chart import PLACE, Chart, Figure, Variant
from nearfield.report.plots.series import STYLES, Style, Trace, curve_style

MIN_PX, LINE_PX = 400, 12  # min height of a plot without its legend, and height of a legend entry, in pixels
ROW_PX = 48  # height in pixels of a row in a plot of yes/no questions
Item = TypeVar("Item")
Named = Sequence[tuple[str, Item]]  # pairs (name of a profile, object that belongs to the profile)


def overlay_profiles(profiles: Mapping[str, Profile]) -> list[Section]:
    """Returns a section for each scenario that at least one profile has. The keys of `profiles` are the names in the
    legend."""
    found = {name: _by_distance(profile) for name, profile in profiles.items()}
    scenarios = list(dict.fromkeys(section.scenario for parts in found.values() for section in parts))
    known = [name for name in SCENARIOS if name in scenarios]
    return [
        _section([(name, part) for name, parts in found.items() for part in parts if part.scenario == scenario], found)
        for scenario in [*known, *(name for name in scenarios if name not in SCENARIOS)]
    ]


def distances(parts: Iterable[Section]) -> list[str]:
    """Returns the core distances that the page offers for selection."""
    choices = (variant.choice for part in parts for chart in part.charts for variant in chart.variants)
    return list(dict.fromkeys(choice[PLACE] for choice in choices if PLACE in choice))


# ---- sections of a single profile


def _by_distance(profile: Profile) -> list[Section]:
    records = profile.records
    first = [p for name in records["scenario"].unique(maintain_order=True) for p in one_per_distance(records, name)]
    drawn = records.filter(pl.col("pair").is_null() | pl.col("pair").is_in([place.pair for place in first]))
    return [_name_by_distance(part, first) for part in sections(replace(profile, records=drawn))]


def _name_by_distance(part: Section, places: Iterable[Place]) -> Section:
    """Returns the section with one variant for each core distance, named after the distance instead of the pair."""
    names = {place.label: place.distance or place.label for place in places}
    charts = []
    for chart in part.charts:
        variants: dict[tuple[tuple[str, str], ...], Variant] = {}
        for variant in chart.variants:
            choice = {key: names.get(value, value) if key == PLACE else value for key, value in variant.choice.items()}
            variants.setdefault(tuple(choice.items()), Variant(choice, variant.figure))
        charts.append(replace(chart, variants=list(variants.values())))
    return replace(part, charts=charts)


# ---- merging of the profiles' sections


def _section(own: Named[Section], everyone: Iterable[str]) -> Section:
    """Returns the merged section of one scenario. `own` holds the sections of the profiles that have this scenario, and
    `everyone` the names of all profiles."""
    names = list(everyone)
    charts: dict[str, list[tuple[str, Chart]]] = {}
    for name, part in own:
        for chart in part.charts:
            charts.setdefault(chart.id, []).append((name, chart))
    missing = [name for name in names if name not in dict(own)]
    said = [(name, remark) for name, part in own for remark in part.remarks]
    remarks = _attribute_sentences(said + [(name, "Not measured.") for name in missing], names)
    return replace(own[0][1], charts=[_chart(group, names) for group in charts.values()], remarks=remarks)


def _chart(own: Named[Chart], names: list[str]) -> Chart:
    variants: dict[tuple[tuple[str, str], ...], list[tuple[str, Figure]]] = {}
    for name, chart in own:
        for variant in chart.variants:
            variants.setdefault(tuple(variant.choice.items()), []).append((name, variant.figure))
    merged = [Variant(dict(choice), _figure(group, names)) for choice, group in variants.items()]
    said = [(name, sentence) for name, chart in own for sentence in re.split(r"(?<=\.) +(?=[A-Z])", chart.caption)]
    caption = " ".join(_attribute_sentences(said, [name for name, _ in own]))
    return replace(own[0][1], caption=caption, variants=merged)


def _attribute_sentences(said: Named[str], names: list[str]) -> list[str]:
    """Returns the distinct sentences. A sentence that does not apply to all profiles is prefixed with the names of
    those to which it applies."""
    found: dict[str, list[str]] = {}
    for name, sentence in said:
        found.setdefault(sentence, []).append(name)
    return [s if len(who) == len(names) else f"{', '.join(who)}: {s}" for s, who in found.items()]


def _figure(own: Named[Figure], names: list[str]) -> Figure:
    layout = _layout([(name, figure["layout"]) for name, figure in own])
    if layout["yaxis"].get("type") == "category":
        data = _rows([(name, figure["data"]) for name, figure in own], names)
        layout["yaxis"]["range"] = [-0.6, len(data) - 0.4]
        return {"data": data, "layout": {**layout, "height": ROW_PX * (len(data) + 1)}}
    data = [_style_trace(trace, name, names.index(name)) for name, figure in own for trace in figure["data"]]
    legend = {trace["name"] for trace in data}
    return {"data": data, "layout": {**layout, "height": MIN_PX + LINE_PX * len(legend)}}


def _rows(own: Named[list[Trace]], names: list[str]) -> list[Trace]:
    """Returns the rows of a plot of yes/no questions: one for each question and profile, in the profile's colour."""
    found = [(name, trace) for name, traces in own for trace in traces]
    questions = list(dict.fromkeys(trace["y"][0] for _, trace in found))
    rows = []
    for name, trace in sorted(found, key=lambda row: questions.index(row[1]["y"][0])):
        colour = curve_style(names.index(name)).colour
        marker = {**trace["marker"], "color": colour, "line": {**trace["marker"]["line"], "color": colour}}
        row = f"{trace['y'][0]}<br><i>{name}</i>"
        rows.append({**_with_profile_name(trace, name), "y": [row] * len(trace["x"]), "marker": marker})
    return rows


def _with_profile_name(trace: Trace, name: str) -> Trace:
    full = f"{name}: {trace['name']}"
    texts = {"text": [text.replace(trace["name"], full, 1) for text in trace["text"]]} if "text" in trace else {}
    return {**trace, "name": full, **({"legendgroup": full} if "legendgroup" in trace else {}), **texts}


def _style_trace(trace: Trace, name: str, number: int) -> Trace:
    """Returns the trace with the name, dash and markers of profile number `number`. Retains the shaded area below a
    floor only for the first profile."""
    look = STYLES[number % len(STYLES)]
    new = _with_profile_name(trace, name)
    if trace["type"] == "bar":
        return {**new, "opacity": max(0.25, 1 - 0.4 * number)}
    if number and trace.get("fill") == "tozeroy":
        new = {key: value for key, value in new.items() if key not in ("fill", "fillcolor")}
    if trace.get("line", {}).get("width"):
        new["line"] = {**trace["line"], "dash": look.dash}
    if "marker" in trace:
        new["marker"] = {**trace["marker"], "symbol": [_symbol(s, look) for s in trace["marker"]["symbol"]]}
    return new


def _symbol(symbol: str, look: Style) -> str:
    """Returns the profile's marker symbol, with the suffixes -open and -dot of `symbol`."""
    kind = re.search(r"(-open)?(-dot)?$", symbol)
    return look.symbol + (kind.group() if kind else "")


# ---- axes and marks of merged plots


def _layout(own: Named[dict[str, Any]]) -> dict[str, Any]:
    layouts = [layout for _, layout in own]
    axes = {axis: _axis([layout[axis] for layout in layouts]) for axis in ("xaxis", "yaxis")}
    return {**layouts[0], **axes, **{kind: _marks(own, kind) for kind in ("shapes", "annotations")}}


def _axis(axes: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns an axis that covers the ranges of all axes. It has the ticks of the axis with the longest range, and
    ticks of the others outside that range."""
    ranged = sorted((axis for axis in axes if "range" in axis), key=lambda axis: axis["range"][0] - axis["range"][1])
    if not ranged:
        return _with_ticks(axes)
    ends = [min(axis["range"][0] for axis in ranged), max(axis["range"][1] for axis in ranged)]
    return {**_with_ticks(ranged), "range": ends}


def _with_ticks(axes: list[dict[str, Any]]) -> dict[str, Any]:
    if "tickvals" not in axes[0]:
        return axes[0]
    ticks = dict(zip(axes[0]["tickvals"], axes[0]["ticktext"], strict=True))
    low, high = min(ticks), max(ticks)
    for axis in axes[1:]:
        further = zip(axis.get("tickvals", []), axis.get("ticktext", []), strict=True)
        ticks |= {at: text for at, text in further if not low <= at <= high}
    return {**axes[0], "tickvals": sorted(ticks), "ticktext": [ticks[at] for at in sorted(ticks)]}


def _marks(own: Named[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Returns the distinct marks of the plots. If not all profiles have a mark, its text lists the profiles that do."""
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, layout in own:
        for mark in layout[kind]:
            found.setdefault(repr(mark), (mark, []))[1].append(name)
    return [
        {**mark, "text": f"{mark['text']} ({', '.join(who)})"} if "text" in mark and len(who) < len(own) else mark
        for mark, who in found.values()
    ]
