"""Creates plotly layouts: axes in readable units, and vertical marks at protocol switches and cache sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import Place
from nearfield.report.plots.chart import Figure
from nearfield.report.plots.series import FORMATTER_BY_UNIT, Trace

AxisSpec = dict[str, Any]
Layout = dict[str, Any]
AxisMark = tuple[float, str]

# Margin beyond the extreme medians, as a fraction of a linear axis or in decades of a logarithmic one.
AXIS_MARGIN = 0.12
MIN_DRAWN_SHARE = -1.0

SWITCH_LABELS = {
    "eager-limit": "eager limit",
    "unattended-limit": "unattended",
    "single-copy": "single copy",
    "step": "step",
}


def make_layout(
    x: AxisSpec,
    y: AxisSpec,
    switches: Sequence[AxisMark] = (),
    caches: Sequence[AxisMark] = (),
    **additional_fields: Any,
) -> Layout:
    """Returns a layout with the colours, margins and legend common to all plots."""
    shapes = [_vertical_line(at, "@mark", "dash") for at, _ in switches] + [
        _vertical_line(at, "@grid", "solid") for at, _ in caches
    ]
    annotations = [_vertical_note(at, text, "top") for at, text in switches if text] + [
        _vertical_note(at, text, "bottom") for at, text in caches
    ]
    return {
        "xaxis": _complete_axis(x),
        "yaxis": _complete_axis(y),
        "shapes": shapes,
        "annotations": annotations,
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "margin": {"l": 64, "r": 16, "t": 8, "b": 52},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        **additional_fields,
    }


def plot_by_size(
    traces: list[Trace], y: AxisSpec, title: str, profile: Profile | None = None, place: Place | None = None
) -> Figure:
    """Returns a plot over message sizes. Marks the profile's cache sizes, and its MPI's protocol switches between the
    cores of `place`."""
    sizes = [x for trace in traces for x in trace["x"]]
    switches = switch_marks(profile, place, sizes) if profile and place else ()
    caches = cache_marks(profile, sizes) if profile else ()
    return {"data": traces, "layout": make_layout(make_bytes_axis(sizes, title), y, switches, caches)}


def make_time_or_rate_axis(quantity: str, traces: Sequence[Trace], time_title: str = "time") -> AxisSpec:
    """Returns the y axis for curves of time if `quantity` is "time", otherwise of bandwidth."""
    return make_log_axis(traces, time_title) if quantity == "time" else make_linear_axis(traces, f"{quantity} (GB/s)")


def make_bytes_axis(sizes: Iterable[float], title: str) -> AxisSpec:
    """Returns a logarithmic axis of sizes with ticks at powers of two."""
    positive_sizes = [size for size in sizes if size > 0] or [1]
    low, high = math.floor(math.log2(min(positive_sizes))), math.ceil(math.log2(max(positive_sizes)))
    step = next(s for s in (1, 2, 4, 8) if (high - low) / s <= 8 or s == 8)
    exponents = range(-(-low // step) * step, high + 1, step)
    return {
        "title": title,
        "type": "log",
        "tickvals": [2**e for e in exponents],
        "ticktext": [format_bytes(2**e) for e in exponents],
        "range": [math.log10(min(positive_sizes)) - 0.08, math.log10(max(positive_sizes)) + 0.08],
    }


def make_number_axis(values: Iterable[float], title: str) -> AxisSpec:
    """Returns a logarithmic axis with ticks at powers of two, for numbers such as strides."""
    ticks = sorted({1 << max(0, math.floor(math.log2(v))) for v in values if v > 0})
    return {"title": title, "type": "log", "tickvals": ticks, "ticktext": [str(t) for t in ticks]}


def make_log_axis(traces: Sequence[Trace], title: str, unit: str = "ns") -> AxisSpec:
    """Returns a logarithmic axis over the medians, with ticks at powers of ten (in narrow ranges also at 2 and 5 times
    these), labelled in readable units."""
    values = [v for v in _medians(traces) if v > 0]
    if not values:
        return {"title": title}
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    within = (1, 2, 5) if high - low <= 2 else (1,)
    ticks = [m * 10.0**e for e in range(low, high + 1) for m in within]
    return {
        "title": title,
        "type": "log",
        "tickvals": ticks,
        "ticktext": [_shorten_number(FORMATTER_BY_UNIT[unit](t)) for t in ticks],
        "range": [math.log10(min(values)) - AXIS_MARGIN, math.log10(max(values)) + AXIS_MARGIN],
    }


def make_linear_axis(
    traces: Sequence[Trace], title: str, minimum: float = -math.inf, **additional_fields: Any
) -> AxisSpec:
    """Returns a linear axis that includes 0 and all medians; medians below `minimum` are clipped. Intervals do not
    extend the axis, since they may be a hundred times as long."""
    values = [0.0, *(max(value, minimum) for value in _medians(traces))]
    low, high = min(values), max(values)
    margin = AXIS_MARGIN * (high - low)
    range_field = {"range": [low and low - margin, high and high + margin]} if high > low else {}
    return {"title": title, "rangemode": "tozero", **range_field, **additional_fields}


def make_share_axis(traces: Sequence[Trace], title: str) -> AxisSpec:
    """Returns a linear axis for fractions of time saved. Losses of more than 100 % are clipped, so that gains remain
    visible."""
    # (maximum distance between ticks, number of decimals of the percentages)
    decimals = ((0.0001, 3), (0.001, 2), (0.01, 1), (None, 0))
    minimum: float | None = None
    stops = []
    for maximum, digits in decimals:
        stops.append({"dtickrange": [minimum, maximum and maximum * 0.999], "value": f".{digits}%"})
        minimum = maximum
    return make_linear_axis(traces, title, MIN_DRAWN_SHARE, tickformatstops=stops)


def switch_marks(profile: Profile, place: Place, sizes: Iterable[float]) -> list[AxisMark]:
    """Returns a mark (size, text) for each size with protocol switches between these cores; the text lists the
    switches."""
    known_sizes = list(sizes)
    names: dict[int, list[str]] = {}
    for switch in profile.run.switch:
        matches = switch.pair in (place.pair, None) and switch.distance in (place.distance, None)
        if matches and known_sizes and min(known_sizes) <= switch.bytes <= max(known_sizes):
            names.setdefault(switch.bytes, []).append(SWITCH_LABELS[switch.kind])
    return [(size, f"{', '.join(switch_names)} {format_bytes(size)}") for size, switch_names in sorted(names.items())]


def cache_marks(profile: Profile, sizes: Iterable[float]) -> list[AxisMark]:
    """Returns a mark (size, text) for each cache of the machine whose size is within the range of `sizes`."""
    known_sizes = list(sizes)
    return [
        (cache.size_bytes, f"L{cache.level} {format_bytes(cache.size_bytes, digits=3)}")
        for cache in profile.machine.data_caches
        if known_sizes and min(known_sizes) <= cache.size_bytes <= max(known_sizes)
    ]


def _medians(traces: Sequence[Trace]) -> list[float]:
    """Returns all y values of the curves, without those of interval bands."""
    return [value for trace in traces if "meta" in trace for value in trace["y"]]


def _complete_axis(axis: AxisSpec) -> AxisSpec:
    title = axis.pop("title", "")
    return {
        "title": {"text": title, "standoff": 10},
        "gridcolor": "@grid", "linecolor": "@line", "zerolinecolor": "@line", "tickcolor": "@line",
        "ticks": "outside", "ticklen": 4, "automargin": True, "fixedrange": False, **axis,
    }  # fmt: skip


def _vertical_line(x: float, color: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "layer": "below",
        "line": {"color": color, "width": 1.2, "dash": dash},
    }  # fmt: skip


def _vertical_note(x: float, text: str, end: str) -> dict[str, Any]:
    """Returns an annotation along a vertical mark. On a logarithmic axis, plotly expects the position as the exponent
    to base 10."""
    return {
        "x": math.log10(x), "xref": "x", "y": 1 if end == "top" else 0, "yref": "paper", "text": text,
        "textangle": -90, "showarrow": False, "xanchor": "right", "yanchor": end, "font": {"size": 11, "color": "@dim"},
        "bgcolor": "@paper:0.6", "borderpad": 1,
    }  # fmt: skip


def _shorten_number(text: str) -> str:
    """Shortens for example '1.00 us' to '1 us'."""
    number, _, unit = text.partition(" ")
    return f"{float(number):g} {unit}" if number.replace(".", "", 1).isdigit() else text
