"""Plots any scenario that has no module: the metric over the parameter with the most values."""

from __future__ import annotations

from collections.abc import Iterable

from nearfield.base.frames import pl
from nearfield.base.units import format_bytes
from nearfield.profile import Profile, parameter_names
from nearfield.profile.compare import declared_metrics
from nearfield.profile.curves import Curve, Point, plotted_places, point_of, select_records
from nearfield.report.plots.axes import make_bytes_axis, make_layout, make_linear_axis, make_log_axis, make_number_axis
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant, Figure
from nearfield.report.plots.series import FORMATTER_BY_UNIT, bar_traces, curve_style, line_traces

MAX_CURVES = 14


def charts(profile: Profile, scenario: str) -> list[Chart]:
    """Returns one chart. Metric and pair of cores are its options; every combination of the other parameters is a
    line."""
    rows = select_records(profile.records, scenario=scenario).filter(pl.col("value").is_not_null())
    declared = [metric for name, metric in declared_metrics(profile.run) if name == scenario]
    rows = rows.filter(pl.col("metric").is_in(declared)) if declared else rows
    drawn = {p.pair for p in plotted_places(profile.records, scenario)}
    rows = rows.filter(pl.col("pair").is_null() | pl.col("pair").is_in(drawn))
    variants = []
    for (metric, distance, pair), rows_of_choice in rows.group_by("metric", "distance", "pair", maintain_order=True):
        choice = {"metric": str(metric)}
        if pair is not None:
            choice = {PLACE_OPTION: f"{distance}, {pair}"} | choice
        variants.append(ChartVariant(choice, make_figure(rows_of_choice, str(metric))))
    caption = "A plot made for any scenario: there is none for this one."
    return [Chart(f"scenario-{scenario}", "All values", caption, variants)] if variants else []


def make_figure(rows: pl.DataFrame, metric: str, x_candidates: Iterable[str] | None = None) -> Figure:
    """Returns a plot of the metric over the numeric parameter with the most values, chosen from `x_candidates` (by
    default from all parameters). Every combination of the other parameters is a line. If no parameter is numeric,
    returns a bar chart."""
    names = parameter_names(rows)
    candidates = names if x_candidates is None else x_candidates
    numbers = [name for name in candidates if rows[name].dtype.is_numeric() and not rows[name].null_count()]
    x = max(numbers, key=lambda name: rows[name].n_unique(), default=None)
    line_parameters = [n for n in [*(n for n in names if n != x), "side"] if rows[n].n_unique() > 1]
    unit = str(rows["unit"][0])
    lines: dict[str, dict[object, Point]] = {}
    for row in rows.sort(x).iter_rows(named=True) if x else rows.iter_rows(named=True):
        label = (
            ", ".join(_format_parameter(name, row[name]) for name in line_parameters if row[name] is not None) or metric
        )
        lines.setdefault(label if x else metric, {})[row[x] if x else label] = point_of(row)
    curves = list(lines.items())[:MAX_CURVES]
    title = metric.replace("_", " ") + ("" if unit == "ns" else f" ({unit})")
    if x is None:
        traces = [t for i, (name, points) in enumerate(curves) for t in bar_traces(name, points, curve_style(i))]
        return {"data": traces, "layout": make_layout({"type": "category"}, make_linear_axis(traces, title))}
    return _line_figure(curves, x, unit, title)


def _line_figure(named_curves: list[tuple[str, Curve]], x: str, unit: str, y_title: str) -> Figure:
    format_x = format_bytes if x.endswith("_bytes") else (lambda value: f"{x} {value:g}")
    traces = [
        t for i, (name, points) in enumerate(named_curves) for t in line_traces(name, points, curve_style(i), format_x)
    ]
    values = [v for trace in traces for v in trace["x"]]
    title_x = x.removesuffix("_bytes").replace("_", " ")
    x_axis = make_bytes_axis(values, title_x) if x.endswith("_bytes") else make_number_axis(values, title_x)
    if any(v <= 0 for v in values):
        x_axis = {"title": title_x}
    positive = all(v > 0 for trace in traces for v in trace["y"]) and unit in FORMATTER_BY_UNIT
    return {
        "data": traces,
        "layout": make_layout(
            x_axis, make_log_axis(traces, y_title, unit) if positive else make_linear_axis(traces, y_title)
        ),
    }


def _format_parameter(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return format_bytes(value)
    if isinstance(value, float):
        return f"{name} {value:g}"
    return str(value) if isinstance(value, str) else f"{name} {value}"
