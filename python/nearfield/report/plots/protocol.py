"""Plots the protocol that was observed at each message size, as answers to three yes/no questions."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import Place, curve, plotted_places
from nearfield.report.plots.axes import make_bytes_axis, make_layout, switch_marks
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant
from nearfield.report.plots.series import Trace

TITLE = "Protocols"
NAVIGATION_TITLE = "Protocols"
QUESTION_BY_METRIC = {
    "single_copies": "kernel copies",
    "waits_for_receive": "Send waits for<br>the receive",
    "waits_for_progress": "Send waits for<br>the receiver in MPI",
}


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with the chart of the protocol observed at each message size; [] without records."""
    variants = []
    for place in plotted_places(profile.records, "protocol"):
        traces = [
            t for metric, text in QUESTION_BY_METRIC.items() if (t := _answer_trace(profile, place, metric, text))
        ]
        sizes = [x for trace in traces for x in trace["x"]]
        if traces:
            y = {"type": "category", "automargin": True, "range": [-0.6, len(traces) - 0.4]}
            marks = [(at, "") for at, _ in switch_marks(profile, place, sizes)]
            x = make_bytes_axis(sizes, "message size")
            figure = {"data": traces, "layout": make_layout(x, y, marks, showlegend=False, height=240)}
            variants.append(ChartVariant({PLACE_OPTION: place.label}, figure))
    caption = (
        "The observed protocol of each message size, which may differ from the MPI's configuration. Filled: yes. "
        "Hollow: no."
    )
    return [Chart("protocol", "Protocol at each size", caption, variants)] if variants else []


def _answer_trace(profile: Profile, place: Place, metric: str, text: str) -> Trace | None:
    points = curve(profile.records, "protocol", metric, place=place, only_reliable=False)
    if not points:
        return None
    yes = [p.value > 0 for p in points.values()]
    words = ["yes" if y else "no" for y in yes]
    plain = text.replace("<br>", " ")
    return {
        "type": "scatter", "mode": "markers", "name": plain, "x": list(points), "y": [text] * len(points),
        "marker": {
            "size": 11, "color": "@s1", "line": {"color": "@s1", "width": 1.5},
            "symbol": ["square" if y else "square-open" for y in yes],
        },
        "text": [f"{plain}: {w}, {format_bytes(x)}" for x, w in zip(points, words, strict=True)],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"cells": words, "x": [format_bytes(x) for x in points]},
    }  # fmt: skip
