"""Plots a scenario that has no plot of its own: the metric against the parameter with the most values."""

from __future__ import annotations

from collections.abc import Iterable

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.profile import Profile, parameters
from nearfield.profile.compare import declared_metrics
from nearfield.profile.curves import Curve, Point, drawn_places, pick, point_of
from nearfield.report.plots.axes import bytes_axis, layout, linear_axis, log_axis, number_axis
from nearfield.report.plots.chart import PLACE, Chart, Figure, Variant
from nearfield.report.plots.series import FORMATS, bar_traces, curve_style, line_traces

MAX_LINES = 14


def charts(profile: Profile, scenario: str) -> list[Chart]:
    """Returns one chart. Metric and pair of cores are its options; every combination of the other parameters is a
    line."""
    rows = pick(profile.records, scenario=scenario).filter(pl.col("value").is_not_null())
    declared = [metric for name, metric in declared_metrics(profile.run) if name == scenario]
    rows = rows.filter(pl.col("metric").is_in(declared)) if declared else rows
    drawn = {p.pair for p in drawn_places(profile.records, scenario)}
    rows = rows.filter(pl.col("pair").is_null() | pl.col("pair").is_in(drawn))
    variants = []
    for (metric, distance, pair), own in rows.group_by("metric", "distance", "pair", maintain_order=True):
        choice = {"metric": str(metric)}
        if pair is not None:
            choice = {PLACE: f"{distance}, {pair}"} | choice
        variants.append(Variant(choice, figure(own, str(metric))))
    caption = "A plot made for any scenario: there is none for this one."
    return [Chart(f"scenario-{scenario}", "All values", caption, variants)] if variants else []


def figure(rows: pl.DataFrame, metric: str, among: Iterable[str] | None = None) -> Figure:
    """Returns a plot of the metric against the numeric parameter (from `among`, by default from all) with the most
    values; a bar chart if no parameter is numeric. Every combination of the other parameters is a line."""
    names = parameters(rows)
    those = names if among is None else among
    numbers = [name for name in those if rows[name].dtype.is_numeric() and not rows[name].null_count()]
    x = max(numbers, key=lambda name: rows[name].n_unique(), default=None)
    rest = [n for n in [*(n for n in names if n != x), "side"] if rows[n].n_unique() > 1]
    unit = str(rows["unit"][0])
    lines: dict[str, dict[object, Point]] = {}
    for row in rows.sort(x).iter_rows(named=True) if x else rows.iter_rows(named=True):
        label = ", ".join(_word(name, row[name]) for name in rest if row[name] is not None) or metric
        lines.setdefault(label if x else metric, {})[row[x] if x else label] = point_of(row)
    shown = list(lines.items())[:MAX_LINES]
    title = metric.replace("_", " ") + ("" if unit == "ns" else f" ({unit})")
    if x is None:
        traces = [t for i, (name, points) in enumerate(shown) for t in bar_traces(name, points, curve_style(i))]
        return {"data": traces, "layout": layout({"type": "category"}, linear_axis(traces, title))}
    return _lines(shown, x, unit, title)


def _lines(shown: list[tuple[str, Curve]], x: str, unit: str, title: str) -> Figure:
    text = format_bytes if x.endswith("_bytes") else (lambda value: f"{x} {value:g}")
    traces = [t for i, (name, points) in enumerate(shown) for t in line_traces(name, points, curve_style(i), text)]
    values = [v for trace in traces for v in trace["x"]]
    title_x = x.removesuffix("_bytes").replace("_", " ")
    x_axis = bytes_axis(values, title_x) if x.endswith("_bytes") else number_axis(values, title_x)
    if any(v <= 0 for v in values):
        x_axis = {"title": title_x}
    positive = all(v > 0 for trace in traces for v in trace["y"]) and unit in FORMATS
    return {
        "data": traces,
        "layout": layout(x_axis, log_axis(traces, title, unit) if positive else linear_axis(traces, title)),
    }


def _word(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return format_bytes(value)
    if isinstance(value, float):
        return f"{name} {value:g}"
    return str(value) if isinstance(value, str) else f"{name} {value}"
