"""Converts curves to plotly traces: a line with markers, and bands for the intervals of stable points. Points with
hollow markers are not used by any finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from nearfield.base.units import format_bytes, format_count, format_ns, format_rate
from nearfield.profile.curves import Curve, Point
from nearfield.report.formatting import percent

Trace = dict[str, Any]

FORMATS: dict[str, Callable[[float], str]] = {
    "ns": format_ns,
    "GB/s": format_rate,
    "share": percent,
    "count": format_count,
    "bytes": lambda value: format_bytes(value, digits=3),
    "ns/MiB": lambda value: f"{format_ns(value)} per MiB",
    "us": lambda value: format_ns(value * 1e3),
    "ms": lambda value: format_ns(value * 1e6),
    "factor": lambda value: f"{value:.2f}x",
    "count/MiB": lambda value: f"{float(f'{value:.3g}'):g} per MiB",
}


@dataclass(frozen=True)
class Style:
    """The look of a curve. Colour, dash and marker symbol each suffice to distinguish curves."""

    colour: str
    dash: str = "solid"
    symbol: str = "circle"
    width: float = 2.0


STYLES = (
    Style("@s1"),
    Style("@s2", "dash", "square"),
    Style("@s3", "dot", "diamond"),
    Style("@s4", "dashdot", "triangle-up"),
    Style("@s5", "longdash", "triangle-down"),
    Style("@s6", "longdashdot", "cross"),
    Style("@s7", "5px 2px 1px 2px", "star"),
)
FLOOR = Style("@ink", "4px 3px", "line-ew", 1.5)


def curve_style(index: int) -> Style:
    """Returns the style of the curve with this number."""
    return STYLES[index % len(STYLES)]


def bandwidth_curve(points: Curve) -> Curve:
    """Converts size -> time in ns to size -> bandwidth in GB/s."""
    return {
        size: replace(p, value=size / p.value, low=size / p.high, high=size / p.low, unit="GB/s")
        for size, p in points.items()
        if p.low > 0
    }


def convert_curve(points: Curve, show: str) -> Curve:
    """Returns the curve of times unchanged if `show` is "time", otherwise its bandwidths."""
    return points if show == "time" else bandwidth_curve(points)


def values_per_mib(points: Curve) -> Curve:
    """Returns the curve with its values divided by the size in MiB."""
    return {size: p.scaled((1 << 20) / size, f"{p.unit}/MiB") for size, p in points.items()}


def line_traces(name: str, points: Curve, look: Style, x_text: Callable[[Any], str] = format_bytes) -> list[Trace]:
    """Returns the traces of a curve, interval bands first; [] if there are no points."""
    if not points:
        return []
    return [*_bands(name, points, look), _line(name, points, look, x_text)]


def bar_traces(name: str, points: Curve, look: Style, pattern: str = "") -> list[Trace]:
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
                "color": [look.colour if p.is_deciding else "@paper" for p in values],
                "line": {"color": look.colour, "width": 1.5}, "pattern": {"shape": pattern, "fgcolor": "@paper"},
            },
            **({"error_y": error} if any(p.high > p.low for p in values) else {}),
            **_hover_fields(name, points, str), "textposition": "none",
        }
    ]  # fmt: skip


def floor_line(points: Curve) -> list[Trace]:
    """Returns the trace of the lower bound on messages, with the area below it shaded, for plots of bandwidth."""
    if not points:
        return []
    trace = _line("floor: a flag and one copy", points, FLOOR, format_bytes)
    trace |= {"mode": "lines", "fill": "tozeroy", "fillcolor": "@ink:0.06"}
    return [trace]


def _line(name: str, points: Curve, look: Style, x_text: Callable[[Any], str]) -> Trace:
    return {
        "type": "scatter", "mode": "lines+markers", "name": name, "legendgroup": name,
        "x": list(points), "y": [p.value for p in points.values()],
        "line": {"color": look.colour, "dash": look.dash, "width": look.width},
        "marker": {
            "size": 7, "color": look.colour, "line": {"color": look.colour, "width": 1.5},
            "symbol": [_symbol(look.symbol, p) for p in points.values()],
        },
        **_hover_fields(name, points, x_text),
    }  # fmt: skip


def _bands(name: str, points: Curve, look: Style) -> Iterator[Trace]:
    """Yields bands for the intervals of runs of stable points. Bands of unstable points would cover the other
    curves."""
    for is_stable, run in groupby(points.items(), key=lambda item: item[1].stable):
        own = dict(run)
        x = list(own)
        high, low = [p.high for p in own.values()], [p.low for p in own.values()]
        if is_stable:
            yield {
                "type": "scatter", "mode": "lines", "name": name, "legendgroup": name, "showlegend": False,
                "x": x + x[::-1], "y": high + low[::-1], "fill": "toself", "fillcolor": f"{look.colour}:0.16",
                "line": {"width": 0}, "hoverinfo": "skip",
            }  # fmt: skip


def _symbol(symbol: str, point: Point) -> str:
    """Returns the marker symbol of a point: filled if stable, with a dot if its buffer state was refuted, hollow
    otherwise."""
    if point.verdict == "refuted":
        return f"{symbol}-open-dot"
    return symbol if point.stable else f"{symbol}-open"


def _hover_fields(name: str, points: Curve, x_text: Callable[[Any], str]) -> Trace:
    """Returns the part of a trace with the hover texts, the texts for the table below the plot (`meta.cells`), and the
    points for CSV tables."""
    cells = [point_text(p) for p in points.values()]
    return {
        "text": [
            f"<b>{name}</b>, {x_text(x)}<br>{text}<br>{_detail(p)}"
            for (x, p), text in zip(points.items(), cells, strict=True)
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"cells": cells, "x": [x_text(x) for x in points]},
        "points": list(points.values()),
    }


def point_text(point: Point) -> str:
    """Formats a point, for example '3.62 us [3.59 us to 3.66 us]'; appends ~ if unstable and ? if its buffer state was
    refuted."""
    text = FORMATS[point.unit]
    marks = ("" if point.stable else " ~") + (" ?" if point.verdict == "refuted" else "")
    interval = f" [{text(point.low)} to {text(point.high)}]" if point.high > point.low else ""
    return f"{text(point.value)}{interval}{marks}"


def _detail(point: Point) -> str:
    stability = "stable" if point.stable else f"unstable: {point.note}" if point.note else "unstable"
    state = f"<br>buffer state {point.verdict}" if point.verdict else ""
    return f"n = {point.n}, {stability}{state}"
