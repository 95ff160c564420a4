"""Plots the times of simulated applications by NIC policy and memory speed, and the savings of the policies."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, distinct_combinations, pick
from nearfield.report.derived_metrics import BASE_POLICY, mean_times, policy_savings
from nearfield.report.formatting import memory_speed
from nearfield.report.plots.axes import layout, linear_axis, share_axis
from nearfield.report.plots.chart import Chart, Variant
from nearfield.report.plots.series import Trace, bar_traces, curve_style

TITLE = "Applications"
SHORT = "Applications"
_PATTERNS = ("", "/", "x", ".", "-", "+", "\\")


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with one chart: a figure per application, number of ranks and size, with a group of bars per
    memory speed and a bar per policy."""
    rows = pick(profile.records, scenario="application", metric="mean_time", source="sim")
    variants = []
    found = distinct_combinations(rows, "operation", "ranks", "size_bytes")
    for operation, ranks, size in sorted(found, key=lambda case: (case[0], case[2], -case[1])):
        fixed = {"operation": operation, "ranks": ranks, "size_bytes": size}
        times = mean_times(rows, "application", "memory_slowdown", **fixed)
        in_ms = {policy: {x: p.scaled(1e-6, "ms") for x, p in points.items()} for policy, points in times.items()}
        for show, curves in (("time saved", policy_savings(times)), ("time", in_ms)):
            traces = bars_by_speed(curves)
            choice = {
                "application": f"{operation}, {format_bytes(size)} a rank",
                "ranks": f"{ranks} ranks",
                "show": show,
            }
            y = linear_axis(traces, "time (ms)") if show == "time" else share_axis(traces, show)
            figure = {"data": traces, "layout": layout({"type": "category"}, y, barmode="group")}
            variants += [Variant(choice, figure)] if traces else []
    caption = (
        "Until the last rank is done, by where the NIC puts incoming bytes; time saved is against policy "
        f"{BASE_POLICY}, which puts them into memory only."
    )
    return [Chart("application", "Applications by policy", caption, variants)] if variants else []


def bars_by_speed(curves: dict[str, Curve]) -> list[Trace]:
    """Returns traces with a group of bars per memory speed and a bar per policy, from policy -> memory slowdown ->
    point."""
    traces = []
    for i, (policy, points) in enumerate(curves.items()):
        named = {memory_speed(speed): points[speed] for speed in sorted(points, key=float)}
        traces += bar_traces(policy, named, curve_style(i), _PATTERNS[i % len(_PATTERNS)])
    return traces
