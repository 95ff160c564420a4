"""Plots a two-rank scenario with several placement policies of a simulated NIC, or with several memory speeds: the
fraction of time that each saves or costs, compared with the first one."""

from __future__ import annotations

from typing import Any

from nearfield.base.frames import pl
from nearfield.profile import Profile, parameter_names
from nearfield.profile.curves import CLUSTER_SCENARIOS, SIMULATED_MACHINE_PARAMETERS, Curve, Place
from nearfield.report.derived_metrics import savings_by_case
from nearfield.report.formatting import format_memory_speed
from nearfield.report.plots.axes import make_share_axis, plot_by_size
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant
from nearfield.report.plots.series import curve_style, line_traces

X_PARAMETER = "size_bytes"
_CAPTION_BY_AXIS = {
    "policy": "How much less time the same case takes where the NIC puts incoming bytes elsewhere than by policy {}.",
    "memory_slowdown": "How much less time the same case takes than with {}; below zero it takes longer.",
}


def charts(profile: Profile, scenario: str) -> list[Chart]:
    """Returns a list with one chart if several policies or memory speeds were simulated; [] otherwise."""
    rows = profile.records.filter(pl.col("scenario") == scenario)
    axes = [
        name for name in SIMULATED_MACHINE_PARAMETERS if name in rows.columns and rows[name].drop_nulls().n_unique() > 1
    ]
    if scenario in CLUSTER_SCENARIOS or not axes or X_PARAMETER not in parameter_names(rows):
        return []
    axis = axes[0]
    base = rows[axis].drop_nulls()[0]
    effect_and_variant = [
        _largest_effect_and_variant(case, saved, axis)
        for case, saved in savings_by_case(profile, scenario, axis)
        if saved
    ]
    effect_and_variant.sort(key=lambda pair: -pair[0])  # variants with the largest effect first
    caption = _CAPTION_BY_AXIS[axis].format(format_memory_speed(base) if axis == "memory_slowdown" else base)
    title = "Savings by policy" if axis == "policy" else "Cost of slower memory"
    return (
        [Chart(f"{scenario}-machines", title, caption, [one for _, one in effect_and_variant])]
        if effect_and_variant
        else []
    )


def _largest_effect_and_variant(
    case: dict[str, Any], savings_by_name: dict[str, Curve], axis: str
) -> tuple[float, ChartVariant]:
    """Returns the plot of a case, preceded by the largest effect in it (a fraction of time)."""
    traces = []
    for i, (name, points) in enumerate(savings_by_name.items()):
        traces += line_traces(
            format_memory_speed(float(name)) if axis == "memory_slowdown" else name, points, curve_style(i)
        )
    figure = plot_by_size(traces, make_share_axis(traces, "time saved"), "size")
    largest = max(abs(point.value) for points in savings_by_name.values() for point in points.values())
    return largest, ChartVariant(_options_of_case(case), figure)


def _options_of_case(case: dict[str, Any]) -> dict[str, str]:
    side = f", {case['side']}" if case["side"] else ""
    place = {PLACE_OPTION: Place(case["distance"], case["pair"]).label} if case["pair"] else {}
    choice = place | {"time": f"{case['metric'].replace('_', ' ')}{side}"}
    for name, value in case.items():
        if name not in ("metric", "distance", "pair", "side") and value is not None:
            choice[name.replace("_", " ")] = format_memory_speed(value) if name == "memory_slowdown" else str(value)
    return choice
