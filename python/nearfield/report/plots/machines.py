"""Plots a two-rank scenario under several policies of a simulated NIC, or with slower memory: the fraction of time that
each saves or costs against the first one."""

from __future__ import annotations

from typing import Any

from nearfield.base.frames import pl
from nearfield.profile import Profile, parameters
from nearfield.profile.curves import AXES, CLUSTER_SCENARIOS, Curve, Place
from nearfield.report.derived_metrics import savings_by_case
from nearfield.report.formatting import memory_speed
from nearfield.report.plots.axes import plot_by_size, share_axis
from nearfield.report.plots.chart import PLACE, Chart, Variant
from nearfield.report.plots.series import curve_style, line_traces

X = "size_bytes"
_CAPTIONS = {
    "policy": "How much less time the same case takes where the NIC puts incoming bytes elsewhere than by policy {}.",
    "memory_slowdown": "How much less time the same case takes than with {}; below zero it takes longer.",
}


def charts(profile: Profile, scenario: str) -> list[Chart]:
    """Returns a list with one chart if several policies or memory speeds were simulated; [] otherwise."""
    rows = profile.records.filter(pl.col("scenario") == scenario)
    axes = [name for name in AXES if name in rows.columns and rows[name].drop_nulls().n_unique() > 1]
    if scenario in CLUSTER_SCENARIOS or not axes or X not in parameters(rows):
        return []
    axis = axes[0]
    base = rows[axis].drop_nulls()[0]
    found = [_variant(case, saved, axis) for case, saved in savings_by_case(profile, scenario, axis) if saved]
    found.sort(key=lambda pair: -pair[0])  # variants with the largest effect first
    caption = _CAPTIONS[axis].format(memory_speed(base) if axis == "memory_slowdown" else base)
    title = "What policies save" if axis == "policy" else "What slower memory costs"
    return [Chart(f"{scenario}-machines", title, caption, [one for _, one in found])] if found else []


def _variant(case: dict[str, Any], saved: dict[str, Curve], axis: str) -> tuple[float, Variant]:
    """Returns the largest effect in a plot (a fraction of time), and the plot."""
    traces = []
    for i, (name, points) in enumerate(saved.items()):
        traces += line_traces(memory_speed(float(name)) if axis == "memory_slowdown" else name, points, curve_style(i))
    figure = plot_by_size(traces, share_axis(traces, "time saved"), "size")
    largest = max(abs(point.value) for points in saved.values() for point in points.values())
    return largest, Variant(_choice(case), figure)


def _choice(case: dict[str, Any]) -> dict[str, str]:
    side = f", {case['side']}" if case["side"] else ""
    place = {PLACE: Place(case["distance"], case["pair"]).label} if case["pair"] else {}
    choice = place | {"time": f"{case['metric'].replace('_', ' ')}{side}"}
    for name, value in case.items():
        if name not in ("metric", "distance", "pair", "side") and value is not None:
            choice[name.replace("_", " ")] = memory_speed(value) if name == "memory_slowdown" else str(value)
    return choice
