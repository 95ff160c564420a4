"""Draws the curves of several profiles in the same plots. A curve has the same colour as in the report of its own
profile; dashes and markers identify the profile. The reader selects cores by their distance, because PU numbers mean
nothing on another machine. The first pair of each distance represents it."""

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
from nearfield.report.plots.series import STYLES, Style, Trace, style

MIN_PX, LINE_PX = 400, 12  # minimum height of a plot without its legend, and height of a legend entry
ROW_PX = 48  # the height of a row in a plot of questions
Item = TypeVar("Item")
Named = Sequence[tuple[str, Item]]  # a profile's name, and something of that profile


def overlay_profiles(profiles: Mapping[str, Profile]) -> list[Section]:
    """Returns one section for each scenario that a profile has. The keys of `profiles` are the names for the legend."""
    found = {name: _by_distance(profile) for name, profile in profiles.items()}
    scenarios = list(dict.fromkeys(section.scenario for parts in found.values() for section in parts))
    known = [name for name in SCENARIOS if name in scenarios]
    return [
        _section([(name, part) for name, parts in found.items() for part in parts if part.scenario == scenario], found)
        for scenario in [*known, *(name for name in scenarios if name not in SCENARIOS)]
    ]


def distances(parts: Iterable[Section]) -> list[str]:
    """Returns the distances that the page offers for selection."""
    choices = (variant.choice for part in parts for chart in part.charts for variant in chart.variants)
    return list(dict.fromkeys(choice[PLACE] for choice in choices if PLACE in choice))


# ---- one profile


def _by_distance(profile: Profile) -> list[Section]:
    records = profile.records
    first = [p for name in records["scenario"].unique(maintain_order=True) for p in one_per_distance(records, name)]
    drawn = records.filter(pl.col("pair").is_null() | pl.col("pair").is_in([place.pair for place in first]))
    return [_name_by_distance(part, first) for part in sections(replace(profile, records=drawn))]


def _name_by_distance(part: Section, places: Iterable[Place]) -> Section:
    """Returns the section with one variant for each distance, named after the distance."""
    names = {place.label: place.distance or place.label for place in places}
    charts = []
    for chart in part.charts:
        variants: dict[tuple[tuple[str, str], ...], Variant] = {}
        for variant in chart.variants:
            choice = {key: names.get(value, value) if key == PLACE else value for key, value in variant.choice.items()}
            variants.setdefault(tuple(choice.items()), Variant(choice, variant.figure))
        charts.append(replace(chart, variants=list(variants.values())))
    return replace(part, charts=charts)


# ---- all of them


def _section(own: Named[Section], everyone: Iterable[str]) -> Section:
    """Returns the section of one scenario. `own` holds the sections of the profiles that have this scenario, and
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
    """Returns each sentence once. A sentence that not all profiles have begins with the names of those that have it."""
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
    """Returns the rows of a plot of answers: one for each question and profile, in the colour of the profile."""
    found = [(name, trace) for name, traces in own for trace in traces]
    questions = list(dict.fromkeys(trace["y"][0] for _, trace in found))
    rows = []
    for name, trace in sorted(found, key=lambda row: questions.index(row[1]["y"][0])):
        colour = style(names.index(name)).colour
        marker = {**trace["marker"], "color": colour, "line": {**trace["marker"]["line"], "color": colour}}
        row = f"{trace['y'][0]}<br><i>{name}</i>"
        rows.append({**_named(trace, name), "y": [row] * len(trace["x"]), "marker": marker})
    return rows


def _named(trace: Trace, name: str) -> Trace:
    full = f"{name}: {trace['name']}"
    texts = {"text": [text.replace(trace["name"], full, 1) for text in trace["text"]]} if "text" in trace else {}
    return {**trace, "name": full, **({"legendgroup": full} if "legendgroup" in trace else {}), **texts}


def _style_trace(trace: Trace, name: str, number: int) -> Trace:
    """Returns the trace with the name, dash and markers of the profile with this number. Only the first profile keeps
    the area under a floor."""
    look = STYLES[number % len(STYLES)]
    new = _named(trace, name)
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
    """Returns the profile's symbol, hollow or with a dot if `symbol` is or has."""
    kind = re.search(r"(-open)?(-dot)?$", symbol)
    return look.symbol + (kind.group() if kind else "")


# ---- axes and marks


def _layout(own: Named[dict[str, Any]]) -> dict[str, Any]:
    layouts = [layout for _, layout in own]
    axes = {axis: _axis([layout[axis] for layout in layouts]) for axis in ("xaxis", "yaxis")}
    return {**layouts[0], **axes, **{kind: _marks(own, kind) for kind in ("shapes", "annotations")}}


def _axis(axes: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns an axis that covers all of these axes. It has the ticks of the longest axis, and those of the others
    beyond it."""
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
    """Returns each mark once. The text of a mark that not all profiles have names the profiles that have it."""
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, layout in own:
        for mark in layout[kind]:
            found.setdefault(repr(mark), (mark, []))[1].append(name)
    return [
        {**mark, "text": f"{mark['text']} ({', '.join(who)})"} if "text" in mark and len(who) < len(own) else mark
        for mark, who in found.values()
    ]
