"""Plots ping-pong times and bandwidths by message size and buffer state, together with the floor (lower bound); the
times of MPI_Send and MPI_Recv separately; and the gain by buffer state."""

from __future__ import annotations

from nearfield.base.estimates import Estimate
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Place, Point, curve, one_place_per_distance, plotted_places, ratios
from nearfield.report.derived_metrics import BUFFER_STATES, explain_invalid_floor, half_round_trip, message_floor
from nearfield.report.plots.axes import (
    cache_marks,
    make_bytes_axis,
    make_layout,
    make_share_axis,
    make_time_or_rate_axis,
    plot_by_size,
    switch_marks,
)
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant, Figure
from nearfield.report.plots.series import CurveStyle, curve_style, floor_traces, line_traces, times_or_bandwidths

TITLE = "Messages between two cores"
NAVIGATION_TITLE = "Messages"
STYLE_BY_STATE = {
    "reused": curve_style(0),
    "modified": curve_style(1),
    "exclusive": curve_style(2),
    "invalid": curve_style(3),
}
METRIC_AND_SIDE_BY_CALL = {
    "MPI_Send": ("send", "sender"),
    "MPI_Recv": ("receive", "receiver"),
    "half round trip": ("half_round_trip", None),
}
_FLOOR_CAPTION = (
    "The dashed line is the floor: a flag and one copy of data that the other core just wrote, without MPI. Only "
    "messages "
    "from reused buffers, which nobody writes in between, may pass it. "
)


def charts(profile: Profile) -> list[Chart]:
    """Returns the charts of the scenario: by buffer state, MPI_Send and MPI_Recv separately, gain by buffer state, and
    by core distance."""
    return [
        c
        for c in (_chart_by_state(profile), _chart_by_side(profile), _gain_chart(profile), _chart_by_distance(profile))
        if c.variants
    ]


def _chart_by_state(profile: Profile) -> Chart:
    variants = []
    failures = []
    for place in plotted_places(profile.records, "pingpong"):
        failure = explain_invalid_floor(profile.records, place)
        failures += [failure] if failure else []
        floor = {} if failure else message_floor(profile.records, place, only_reliable=False)
        for show in ("bandwidth", "time"):
            curves = {
                s: half_round_trip(profile.records, place, s, only_reliable=False) for s in reversed(BUFFER_STATES)
            }
            variants.append(
                ChartVariant(
                    {PLACE_OPTION: place.label, "show": show}, _make_figure(profile, place, show, curves, floor)
                )
            )
    return Chart(
        "pingpong",
        "Half round trip",
        "Message size over half the round trip, by the state of the buffers in the caches of their cores: reused (as "
        "the last message left them, as in other benchmarks), modified, exclusive, or invalid (in memory only). "
        + (_FLOOR_CAPTION if len(failures) < len(variants) / 2 else "")
        + " ".join(dict.fromkeys(failures)),
        variants,
    )


def _chart_by_side(profile: Profile) -> Chart:
    """Returns the chart of MPI_Send and MPI_Recv. Omits the state `reused`, whose round trips are timed back to back,
    so that it has no times of single calls."""
    variants = []
    for place in plotted_places(profile.records, "pingpong"):
        for call, (metric, side) in list(METRIC_AND_SIDE_BY_CALL.items())[:2]:
            curves = {
                s: curve(profile.records, "pingpong", metric, place=place, side=side, state=s, only_reliable=False)
                for s in ("modified", "exclusive", "invalid")
            }
            if any(curves.values()):
                figure = _make_figure(profile, place, "time", curves, {})
                variants.append(ChartVariant({PLACE_OPTION: place.label, "call": call}, figure))
    return Chart(
        "send-receive",
        "MPI_Send and MPI_Recv timed apart",
        "MPI_Send at the rank that sends first, MPI_Recv at the other; MPI_Recv contains the wait for the message.",
        variants,
    )


def _gain_chart(profile: Profile) -> Chart:
    variants = []
    for place in plotted_places(profile.records, "pingpong"):
        for call, (metric, side) in METRIC_AND_SIDE_BY_CALL.items():
            traces = []
            for state in ("modified", "exclusive"):
                points = cached_buffer_gain_curve(profile, place, metric, side, state)
                traces += line_traces(state, points, STYLE_BY_STATE[state])
            if traces:
                figure = plot_by_size(traces, make_share_axis(traces, "time saved"), "message size", profile, place)
                variants.append(ChartVariant({PLACE_OPTION: place.label, "call": call}, figure))
    return Chart(
        "state-gain",
        "Gain of cached buffers",
        "How much sooner a call returns when both ranks have their buffers in their caches (modified or exclusive) "
        "than when they are in memory (invalid).",
        variants,
    )


def cached_buffer_gain_curve(profile: Profile, place: Place, metric: str, side: str | None, state: str) -> Curve:
    """Returns size -> fraction of time saved by cached buffers, for sizes measured in both states. A point is stable
    only if both times are, and findings may use it only if both may be used."""
    cached, memory = (
        curve(profile.records, "pingpong", metric, place=place, side=side, state=s, only_reliable=False)
        for s in (state, "invalid")
    )
    return {
        size: _cached_buffer_gain_point(r, cached[size], memory[size]) for size, r in ratios(cached, memory).items()
    }


def _cached_buffer_gain_point(ratio: Estimate, cached: Point, memory: Point) -> Point:
    source_point = next((p for p in (cached, memory) if not p.is_reliable), cached)
    return Point(
        1 - ratio.value, 1 - ratio.high, 1 - ratio.low, min(cached.n, memory.n),
        cached.is_stable and memory.is_stable, source_point.verdict, cached.note or memory.note, "share",
    )  # fmt: skip


def _chart_by_distance(profile: Profile) -> Chart:
    """Returns the chart with one curve for each core distance; without variants if there is only one distance."""
    places = one_place_per_distance(profile.records, "pingpong")
    variants = []
    for show in ("bandwidth", "time") if len(places) > 1 else ():
        curves = {p.label: half_round_trip(profile.records, p, only_reliable=False) for p in places}
        traces = [
            t
            for i, (name, c) in enumerate(curves.items())
            for t in line_traces(name, times_or_bandwidths(c, show), curve_style(i))
        ]
        figure = plot_by_size(traces, make_time_or_rate_axis(show, traces), "message size", profile)
        variants.append(ChartVariant({"show": show}, figure))
    return Chart("by-distance", "By core distance", "Buffers reused; one pair for each distance.", variants)


def _make_figure(profile: Profile, place: Place, quantity: str, curves: dict[str, Curve], floor: Curve) -> Figure:
    traces = floor_traces(times_or_bandwidths(floor, quantity)) if quantity == "bandwidth" else []
    for name, points in curves.items():
        traces += line_traces(name, times_or_bandwidths(points, quantity), STYLE_BY_STATE[name])
    if quantity == "time":
        traces += line_traces("floor: a flag and one copy", floor, CurveStyle("@ink", "4px 3px", "circle", 1.5))
    sizes = [size for points in curves.values() for size in points]
    x, y = make_bytes_axis(sizes, "message size"), make_time_or_rate_axis(quantity, traces)
    marks = switch_marks(profile, place, sizes), cache_marks(profile, sizes)
    return {"data": traces, "layout": make_layout(x, y, *marks)}
