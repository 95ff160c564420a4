"""Creates plotly layouts: axes in readable units, and vertical marks at protocol switches and cache sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import Place
from nearfield.report.plots.chart import Figure
from nearfield.report.plots.series import FORMATS, Trace

Axis = dict[str, Any]
Layout = dict[str, Any]
Mark = tuple[float, str]

AXIS_MARGIN = 0.12  # margin beyond the extreme medians: fraction of a linear axis, or decades of a log axis
MAX_LOSS = -1.0

SWITCH_NAMES = {
    "eager-limit": "eager limit",
    "unattended-limit": "unattended",
    "single-copy": "single copy",
    "step": "step",
}


def layout(x: Axis, y: Axis, switches: Sequence[Mark] = (), caches: Sequence[Mark] = (), **more: Any) -> Layout:
    """Returns a layout with the colours, margins and legend common to all plots."""
    shapes = [_vertical_line(at, "@mark", "dash") for at, _ in switches] + [
        _vertical_line(at, "@grid", "solid") for at, _ in caches
    ]
    notes = [_vertical_note(at, text, "top") for at, text in switches if text] + [
        _vertical_note(at, text, "bottom") for at, text in caches
    ]
    return {
        "xaxis": _axis(x),
        "yaxis": _axis(y),
        "shapes": shapes,
        "annotations": notes,
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "margin": {"l": 64, "r": 16, "t": 8, "b": 52},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        **more,
    }


def plot_by_size(
    traces: list[Trace], y: Axis, title: str, profile: Profile | None = None, place: Place | None = None
) -> Figure:
    """Returns a plot over message sizes. Marks the profile's cache sizes, and its MPI's protocol switches between the
    cores of `place`."""
    sizes = [x for trace in traces for x in trace["x"]]
    switches = switch_marks(profile, place, sizes) if profile and place else ()
    caches = cache_marks(profile, sizes) if profile else ()
    return {"data": traces, "layout": layout(bytes_axis(sizes, title), y, switches, caches)}


def time_or_rate(show: str, traces: Sequence[Trace], time: str = "time") -> Axis:
    """Returns the y axis for curves of time or, if `show` is not "time", of bandwidth."""
    return log_axis(traces, time) if show == "time" else linear_axis(traces, f"{show} (GB/s)")


def bytes_axis(sizes: Iterable[float], title: str) -> Axis:
    """Returns a logarithmic axis of sizes with ticks at powers of two."""
    known = [size for size in sizes if size > 0] or [1]
    low, high = math.floor(math.log2(min(known))), math.ceil(math.log2(max(known)))
    step = next(s for s in (1, 2, 4, 8) if (high - low) / s <= 8 or s == 8)
    exponents = range(-(-low // step) * step, high + 1, step)
    return {
        "title": title,
        "type": "log",
        "tickvals": [2**e for e in exponents],
        "ticktext": [format_bytes(2**e) for e in exponents],
        "range": [math.log10(min(known)) - 0.08, math.log10(max(known)) + 0.08],
    }


def number_axis(values: Iterable[float], title: str) -> Axis:
    """Returns a logarithmic axis with ticks at powers of two, for numbers such as strides."""
    ticks = sorted({1 << max(0, math.floor(math.log2(v))) for v in values if v > 0})
    return {"title": title, "type": "log", "tickvals": ticks, "ticktext": [str(t) for t in ticks]}


def log_axis(traces: Sequence[Trace], title: str, unit: str = "ns") -> Axis:
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
        "ticktext": [_shorten_number(FORMATS[unit](t)) for t in ticks],
        "range": [math.log10(min(values)) - AXIS_MARGIN, math.log10(max(values)) + AXIS_MARGIN],
    }


def linear_axis(traces: Sequence[Trace], title: str, minimum: float = -math.inf, **more: Any) -> Axis:
    """Returns a linear axis that includes 0 and all medians; medians below `minimum` are clipped. Intervals, which may
    be a hundred times as long, do not extend the axis."""
    values = [0.0, *(max(value, minimum) for value in _medians(traces))]
    low, high = min(values), max(values)
    room = AXIS_MARGIN * (high - low)
    ends = {"range": [low and low - room, high and high + room]} if high > low else {}
    return {"title": title, "rangemode": "tozero", **ends, **more}


def share_axis(traces: Sequence[Trace], title: str) -> Axis:
    """Returns a linear axis for fractions of time saved. Clips losses of more than 100 %, so that gains remain
    visible."""
    decimals = ((0.0001, 3), (0.001, 2), (0.01, 1), (None, 0))  # (max distance between ticks, decimals in per cent)
    minimum: float | None = None
    stops = []
    for maximum, digits in decimals:
        stops.append({"dtickrange": [minimum, maximum and maximum * 0.999], "value": f".{digits}%"})
        minimum = maximum
    return linear_axis(traces, title, MAX_LOSS, tickformatstops=stops)


def switch_marks(profile: Profile, place: Place, sizes: Iterable[float]) -> list[Mark]:
    """Returns a mark (size, text) for each size with protocol switches between these cores; the text lists the
    switches."""
    known = list(sizes)
    names: dict[int, list[str]] = {}
    for switch in profile.run.switch:
        matches = switch.pair in (place.pair, None) and switch.distance in (place.distance, None)
        if matches and known and min(known) <= switch.bytes <= max(known):
            names.setdefault(switch.bytes, []).append(SWITCH_NAMES[switch.kind])
    return [(size, f"{', '.join(own)} {format_bytes(size)}") for size, own in sorted(names.items())]


def cache_marks(profile: Profile, sizes: Iterable[float]) -> list[Mark]:
    """Returns a mark (size, text) for each cache of the machine whose size is within the range of `sizes`."""
    known = list(sizes)
    return [
        (cache.size_bytes, f"L{cache.level} {format_bytes(cache.size_bytes, digits=3)}")
        for cache in profile.machine.data_caches
        if known and min(known) <= cache.size_bytes <= max(known)
    ]


def _medians(traces: Sequence[Trace]) -> list[float]:
    """Returns all y values of the curves, without those of interval bands."""
    return [value for trace in traces if "meta" in trace for value in trace["y"]]


def _axis(axis: Axis) -> Axis:
    title = axis.pop("title", "")
    return {
        "title": {"text": title, "standoff": 10},
        "gridcolor": "@grid", "linecolor": "@line", "zerolinecolor": "@line", "tickcolor": "@line",
        "ticks": "outside", "ticklen": 4, "automargin": True, "fixedrange": False, **axis,
    }  # fmt: skip


def _vertical_line(at: float, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1, "layer": "below",
        "line": {"color": colour, "width": 1.2, "dash": dash},
    }  # fmt: skip


def _vertical_note(at: float, text: str, end: str) -> dict[str, Any]:
    """Returns a text along a vertical mark. Plotly positions annotations on logarithmic axes by exponent."""
    return {
        "x": math.log10(at), "xref": "x", "y": 1 if end == "top" else 0, "yref": "paper", "text": text,
        "textangle": -90, "showarrow": False, "xanchor": "right", "yanchor": end, "font": {"size": 11, "color": "@dim"},
        "bgcolor": "@paper:0.6", "borderpad": 1,
    }  # fmt: skip


def _shorten_number(text: str) -> str:
    """Shortens for example '1.00 us' to '1 us'."""
    number, _, unit = text.partition(" ")
    return f"{float(number):g} {unit}" if number.replace(".", "", 1).isdigit() else text
