"""Plots the times of simulated applications by NIC policy and memory speed, and the savings of the policies."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, distinct_combinations, select_records
from nearfield.report.derived_metrics import BASE_POLICY, mean_times_by_policy, policy_savings
from nearfield.report.formatting import format_memory_speed
from nearfield.report.plots.axes import make_layout, make_linear_axis, make_share_axis
from nearfield.report.plots.chart import Chart, ChartVariant
from nearfield.report.plots.series import Trace, bar_traces, curve_style

TITLE = "Applications"
NAVIGATION_TITLE = "Applications"
_BAR_PATTERNS = ("", "/", "x", ".", "-", "+", "\\")


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with one chart: a figure per application, number of ranks and size, with a group of bars per
    memory speed and a bar per policy."""
    rows = select_records(profile.records, scenario="application", metric="mean_time", source="sim")
    variants = []
    cases = distinct_combinations(rows, "operation", "ranks", "size_bytes")
    for operation, ranks, size in sorted(cases, key=lambda case: (case[0], case[2], -case[1])):
        fixed = {"operation": operation, "ranks": ranks, "size_bytes": size}
        times = mean_times_by_policy(rows, "application", "memory_slowdown", **fixed)
        in_ms = {policy: {x: p.scale_by(1e-6, "ms") for x, p in points.items()} for policy, points in times.items()}
        for show, curves in (("time saved", policy_savings(times)), ("time", in_ms)):
            traces = bar_traces_by_speed(curves)
            choice = {
                "application": f"{operation}, {format_bytes(size)} a rank",
                "ranks": f"{ranks} ranks",
                "show": show,
            }
            y = make_linear_axis(traces, "time (ms)") if show == "time" else make_share_axis(traces, show)
            figure = {"data": traces, "layout": make_layout({"type": "category"}, y, barmode="group")}
            variants += [ChartVariant(choice, figure)] if traces else []
    caption = (
        "Until the last rank is done, by where the NIC puts incoming bytes; time saved is against policy "
        f"{BASE_POLICY}, which puts them into memory only."
    )
    return [Chart("application", "Applications by policy", caption, variants)] if variants else []


def bar_traces_by_speed(curves: dict[str, Curve]) -> list[Trace]:
    """Returns traces with a group of bars per memory speed and a bar per policy, from policy -> memory slowdown ->
    point."""
    traces = []
    for i, (policy, points) in enumerate(curves.items()):
        named = {format_memory_speed(speed): points[speed] for speed in sorted(points, key=float)}
        traces += bar_traces(policy, named, curve_style(i), _BAR_PATTERNS[i % len(_BAR_PATTERNS)])
    return traces
