"""What a simulated NIC's policies and slower memory do to a scenario of two ranks: a curve for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from nearfield.profile import Profile, parameters
from nearfield.profile.compare import declared_metrics
from nearfield.report.evidence import AXES, OF_CLUSTERS, Curve, Place, curve
from nearfield.report.plots.axes import bytes_axis, layout, log_axis
from nearfield.report.plots.chart import PLACE, Chart, Variant
from nearfield.report.plots.series import line, style
from nearfield.report.words import memory_speed

X = "size_bytes"


def charts(profile: Profile, scenario: str) -> list[Chart]:
    """One chart if the scenario was simulated by several policies or at several memory speeds; none otherwise."""
    rows = profile.records.filter((pl.col("scenario") == scenario) & (pl.col("unit") == "ns"))
    axes = [name for name in AXES if name in rows.columns and rows[name].n_unique() > 1]
    if scenario in OF_CLUSTERS or not axes or X not in parameters(rows):
        return []
    declared = [metric for name, metric in declared_metrics(profile.run) if name == scenario]
    rows = rows.filter(pl.col("metric").is_in(declared))
    drawn, choices = axes[0], [name for name in AXES if name in axes[1:]]
    words = [name for name in parameters(rows) if name not in (X, drawn)]
    keys = ["metric", "distance", "pair", "side", *dict.fromkeys([*words, *choices])]
    variants = [variant for variant in _variants(rows, keys, drawn) if variant]
    caption = (
        "The same case by every policy, which says where the NIC puts incoming bytes."
        if drawn == "policy"
        else "The same case at every speed of memory."
    )
    return [Chart(f"{scenario}-machines", "By policy and memory speed", caption, variants)] if variants else []


def _variants(rows: pl.DataFrame, keys: list[str], drawn: str) -> Iterator[Variant | None]:
    """One for every combination of the keys that several values of `drawn` have."""
    for values in rows.select(keys).unique(maintain_order=True).iter_rows():
        case = dict(zip(keys, values, strict=True))
        same = rows.filter(*(pl.col(name).eq_missing(value) for name, value in case.items()))
        curves = {name: _curve(same, drawn, name) for name in same[drawn].drop_nulls().unique(maintain_order=True)}
        if len(curves) < 2:
            continue
        traces = []
        for i, (name, points) in enumerate(curves.items()):
            traces += line(memory_speed(name) if drawn == "memory_slowdown" else name, points, style(i))
        sizes = [x for trace in traces for x in trace["x"]]
        figure = {"data": traces, "layout": layout(bytes_axis(sizes, "size"), log_axis(traces, "time"))}
        yield Variant(_choice(case), figure)


def _curve(rows: pl.DataFrame, drawn: str, name: str) -> Curve:
    of = rows.row(0, named=True)
    return curve(rows, of["scenario"], of["metric"], deciding=False, **{drawn: name})


def _choice(case: dict[str, Any]) -> dict[str, str]:
    """The options of the chart, in the words of the page."""
    side = f", {case['side']}" if case["side"] else ""
    place = {PLACE: Place(case["distance"], case["pair"]).label} if case["pair"] else {}
    choice = place | {"time": f"{case['metric'].replace('_', ' ')}{side}"}
    for name, value in case.items():
        if name not in ("metric", "distance", "pair", "side") and value is not None:
            choice[name.replace("_", " ")] = memory_speed(value) if name == "memory_slowdown" else str(value)
    return choice
