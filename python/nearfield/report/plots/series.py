"""Converts curves to plotly traces: a line with markers, and bands for the intervals of stable points. A hollow marker
means that no finding uses the value of the point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from nearfield.base.units import format_bytes, format_count, format_ns, format_rate
from nearfield.profile.curves import Curve, Point
from nearfield.report.formatting import format_percent

Trace = dict[str, Any]

FORMATTER_BY_UNIT: dict[str, Callable[[float], str]] = {
    "ns": format_ns,
    "GB/s": format_rate,
    "share": format_percent,
    "count": format_count,
    "bytes": lambda value: format_bytes(value, digits=3),
    "ns/MiB": lambda value: f"{format_ns(value)} per MiB",
    "us": lambda value: format_ns(value * 1e3),
    "ms": lambda value: format_ns(value * 1e6),
    "factor": lambda value: f"{value:.2f}x",
    "count/MiB": lambda value: f"{float(f'{value:.3g}'):g} per MiB",
}


@dataclass(frozen=True)
class CurveStyle:
    """The look of a curve. Colour, dash and marker symbol each suffice to distinguish curves."""

    color: str
    dash: str = "solid"
    symbol: str = "circle"
    width: float = 2.0


CURVE_STYLES = (
    CurveStyle("@s1"),
    CurveStyle("@s2", "dash", "square"),
    CurveStyle("@s3", "dot", "diamond"),
    CurveStyle("@s4", "dashdot", "triangle-up"),
    CurveStyle("@s5", "longdash", "triangle-down"),
    CurveStyle("@s6", "longdashdot", "cross"),
    CurveStyle("@s7", "5px 2px 1px 2px", "star"),
)
FLOOR_STYLE = CurveStyle("@ink", "4px 3px", "line-ew", 1.5)


def curve_style(index: int) -> CurveStyle:
    """Returns the style of curve number `index`; styles repeat after the last one."""
    return CURVE_STYLES[index % len(CURVE_STYLES)]


def bandwidth_curve(points: Curve) -> Curve:
    """Converts size -> time in ns to size -> bandwidth in GB/s."""
    return {
        size: replace(p, value=size / p.value, low=size / p.high, high=size / p.low, unit="GB/s")
        for size, p in points.items()
        if p.low > 0
    }


def times_or_bandwidths(points: Curve, quantity: str) -> Curve:
    """Returns the curve of times unchanged if `quantity` is "time", otherwise its bandwidths."""
    return points if quantity == "time" else bandwidth_curve(points)


def values_per_mib(points: Curve) -> Curve:
    """Returns the curve with its values divided by the size in MiB."""
    return {size: p.scale_by((1 << 20) / size, f"{p.unit}/MiB") for size, p in points.items()}


def line_traces(
    name: str, points: Curve, style: CurveStyle, format_x: Callable[[Any], str] = format_bytes
) -> list[Trace]:
    """Returns the traces of a curve, interval bands first; [] if there are no points."""
    if not points:
        return []
    return [*_interval_band_traces(name, points, style), _line_trace(name, points, style, format_x)]


def bar_traces(name: str, points: Curve, style: CurveStyle, pattern: str = "") -> list[Trace]:
    """Returns the trace of a bar chart over categories, with error bars unless every value is exact; [] if there are no
    points."""
    if not points:
        return []
    values = list(points.values())
    error = {
        "type": "data", "symmetric": False, "color": "@ink", "thickness": 1.2, "width": 3,
        "array": [p.high - p.value for p in values], "arrayminus": [p.value - p.low for p in values],
    }  # fmt: skip
    return [
        {
            "type": "bar", "name": name, "x": list(points), "y": [p.value for p in values],
            "marker": {
                "color": [style.color if p.is_reliable else "@paper" for p in values],
                "line": {"color": style.color, "width": 1.5}, "pattern": {"shape": pattern, "fgcolor": "@paper"},
            },
            **({"error_y": error} if any(p.high > p.low for p in values) else {}),
            **_hover_fields(name, points, str), "textposition": "none",
        }
    ]  # fmt: skip


def floor_traces(points: Curve) -> list[Trace]:
    """Returns the trace of the floor (lower bound of a message's time), with the area below it shaded, for plots of
    bandwidth."""
    if not points:
        return []
    trace = _line_trace("floor: a flag and one copy", points, FLOOR_STYLE, format_bytes)
    trace |= {"mode": "lines", "fill": "tozeroy", "fillcolor": "@ink:0.06"}
    return [trace]


def _line_trace(name: str, points: Curve, style: CurveStyle, format_x: Callable[[Any], str]) -> Trace:
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "legendgroup": name,
        "x": list(points), "y": [p.value for p in points.values()],
        "line": {"color": style.color, "dash": style.dash, "width": style.width},
        "marker": {
            "size": 7, "color": style.color, "line": {"color": style.color, "width": 1.5},
            "symbol": [_marker_symbol(style.symbol, p) for p in points.values()],
        },
        **_hover_fields(name, points, format_x),
    }  # fmt: skip


def _interval_band_traces(name: str, points: Curve, style: CurveStyle) -> Iterator[Trace]:
    """Yields a band for the intervals of each sequence of stable points. Unstable points have no band, since it would
    cover other curves."""
    for is_stable, run in groupby(points.items(), key=lambda item: item[1].is_stable):
        run_points = dict(run)
        x = list(run_points)
        high, low = [p.high for p in run_points.values()], [p.low for p in run_points.values()]
        if is_stable:
            yield {
                "type": "scatter", "mode": "lines", "name": name, "legendgroup": name, "showlegend": False,
                "x": x + x[::-1], "y": high + low[::-1], "fill": "toself", "fillcolor": f"{style.color}:0.16",
                "line": {"width": 0}, "hoverinfo": "skip",
            }  # fmt: skip


def _marker_symbol(symbol: str, point: Point) -> str:
    """Returns the marker symbol of a point: hollow with a dot if its buffer state was refuted, otherwise filled if it
    is stable and hollow if it is not."""
    if point.verdict == "refuted":
        return f"{symbol}-open-dot"
    return symbol if point.is_stable else f"{symbol}-open"


def _hover_fields(name: str, points: Curve, format_x: Callable[[Any], str]) -> Trace:
    """Returns the part of a trace with the hover texts, the texts for the table below the plot (`meta.cells`), and the
    points for CSV tables."""
    cells = [point_text(p) for p in points.values()]
    return {
        "text": [
            f"<b>{name}</b>, {format_x(x)}<br>{text}<br>{_format_point_details(p)}"
            for (x, p), text in zip(points.items(), cells, strict=True)
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"cells": cells, "x": [format_x(x) for x in points]},
        "points": list(points.values()),
    }


def point_text(point: Point) -> str:
    """Formats a point, for example '3.62 us [3.59 us to 3.66 us]'. Appends ~ if the point is unstable, and ? if its
    buffer state was refuted."""
    format_value = FORMATTER_BY_UNIT[point.unit]
    marks = ("" if point.is_stable else " ~") + (" ?" if point.verdict == "refuted" else "")
    interval = f" [{format_value(point.low)} to {format_value(point.high)}]" if point.high > point.low else ""
    return f"{format_value(point.value)}{interval}{marks}"


def _format_point_details(point: Point) -> str:
    stability = "stable" if point.is_stable else f"unstable: {point.note}" if point.note else "unstable"
    state = f"<br>buffer state {point.verdict}" if point.verdict else ""
    return f"n = {point.n}, {stability}{state}"
