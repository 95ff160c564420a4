"""Plots ping-pong times and bandwidths by message size and buffer state together with the floor, MPI_Send and MPI_Recv
separately, and the gain of each buffer state."""

from __future__ import annotations

from nearfield.base.estimates import Estimate
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Place, Point, curve, drawn_places, one_per_distance, ratios
from nearfield.report.derived_metrics import STATES, floor_failure, half_round_trip, message_floor
from nearfield.report.plots.axes import (
    bytes_axis,
    cache_marks,
    layout,
    plot_by_size,
    share_axis,
    switch_marks,
    time_or_rate,
)
from nearfield.report.plots.chart import PLACE, Chart, Figure, Variant
from nearfield.report.plots.series import Style, convert_curve, curve_style, floor_line, line_traces

TITLE = "Messages between two cores"
SHORT = "Messages"
LOOK = {"reused": curve_style(0), "modified": curve_style(1), "exclusive": curve_style(2), "invalid": curve_style(3)}
CALLS = {
    "MPI_Send": ("send", "sender"),
    "MPI_Recv": ("receive", "receiver"),
    "half round trip": ("half_round_trip", None),
}
_FLOOR = (
    "The dashed line is the floor: a flag and one copy of what the other core just wrote, without MPI. Only messages "
    "from reused buffers, which nobody writes in between, may pass it. "
)


def charts(profile: Profile) -> list[Chart]:
    """Returns the charts of the scenario: by buffer state, MPI_Send and MPI_Recv separately, gain by buffer state, and
    by core distance."""
    return [c for c in (_by_state(profile), _by_side(profile), _gain(profile), _by_distance(profile)) if c.variants]


def _by_state(profile: Profile) -> Chart:
    variants = []
    failures = []
    for place in drawn_places(profile.records, "pingpong"):
        failure = floor_failure(profile.records, place)
        failures += [failure] if failure else []
        floor = {} if failure else message_floor(profile.records, place, deciding=False)
        for show in ("bandwidth", "time"):
            curves = {s: half_round_trip(profile.records, place, s, deciding=False) for s in reversed(STATES)}
            variants.append(Variant({PLACE: place.label, "show": show}, _figure(profile, place, show, curves, floor)))
    return Chart(
        "pingpong",
        "Half round trip",
        "Message size over half the round trip, by the state of the buffers in the caches of their cores: reused (as "
        "the last message left them, what other benchmarks measure), modified, exclusive, or invalid (in memory only). "
        + (_FLOOR if len(failures) < len(variants) / 2 else "")
        + " ".join(dict.fromkeys(failures)),
        variants,
    )


def _by_side(profile: Profile) -> Chart:
    """Returns the chart of MPI_Send and MPI_Recv. Omits the state `reused`, because its round trips are timed back to
    back."""
    variants = []
    for place in drawn_places(profile.records, "pingpong"):
        for call, (metric, side) in list(CALLS.items())[:2]:
            curves = {
                s: curve(profile.records, "pingpong", metric, place=place, side=side, state=s, deciding=False)
                for s in ("modified", "exclusive", "invalid")
            }
            if any(curves.values()):
                figure = _figure(profile, place, "time", curves, {})
                variants.append(Variant({PLACE: place.label, "call": call}, figure))
    return Chart(
        "send-receive",
        "MPI_Send and MPI_Recv timed apart",
        "MPI_Send at the rank that sends first, MPI_Recv at the other; MPI_Recv contains the wait for the message.",
        variants,
    )


def _gain(profile: Profile) -> Chart:
    variants = []
    for place in drawn_places(profile.records, "pingpong"):
        for call, (metric, side) in CALLS.items():
            traces = []
            for state in ("modified", "exclusive"):
                points = gain_points(profile, place, metric, side, state)
                traces += line_traces(state, points, LOOK[state])
            if traces:
                figure = plot_by_size(traces, share_axis(traces, "time saved"), "message size", profile, place)
                variants.append(Variant({PLACE: place.label, "call": call}, figure))
    return Chart(
        "state-gain",
        "What cached buffers gain",
        "How much sooner a call returns when both ranks have their buffers in their caches (modified or exclusive) "
        "than when they are in memory (invalid).",
        variants,
    )


def gain_points(profile: Profile, place: Place, metric: str, side: str | None, state: str) -> Curve:
    """Returns size -> fraction of time saved by cached buffers, for sizes measured in both states. A point is stable
    only if both times are, and findings may use it only if both may be used."""
    cached, memory = (
        curve(profile.records, "pingpong", metric, place=place, side=side, state=s, deciding=False)
        for s in (state, "invalid")
    )
    return {size: _gain_point(r, cached[size], memory[size]) for size, r in ratios(cached, memory).items()}


def _gain_point(ratio: Estimate, cached: Point, memory: Point) -> Point:
    worse = next((p for p in (cached, memory) if not p.is_deciding), cached)
    return Point(
        1 - ratio.value, 1 - ratio.high, 1 - ratio.low, min(cached.n, memory.n),
        cached.stable and memory.stable, worse.verdict, cached.note or memory.note, "share",
    )  # fmt: skip


def _by_distance(profile: Profile) -> Chart:
    """Returns the chart with one curve for each core distance; without variants if there is only one distance."""
    found = one_per_distance(profile.records, "pingpong")
    variants = []
    for show in ("bandwidth", "time") if len(found) > 1 else ():
        curves = {p.label: half_round_trip(profile.records, p, deciding=False) for p in found}
        traces = [
            t
            for i, (name, c) in enumerate(curves.items())
            for t in line_traces(name, convert_curve(c, show), curve_style(i))
        ]
        figure = plot_by_size(traces, time_or_rate(show, traces), "message size", profile)
        variants.append(Variant({"show": show}, figure))
    return Chart("by-distance", "By core distance", "Buffers reused; one pair for each distance.", variants)


def _figure(profile: Profile, place: Place, show: str, curves: dict[str, Curve], floor: Curve) -> Figure:
    traces = floor_line(convert_curve(floor, show)) if show == "bandwidth" else []
    for name, points in curves.items():
        traces += line_traces(name, convert_curve(points, show), LOOK[name])
    if show == "time":
        traces += line_traces("floor: a flag and one copy", floor, Style("@ink", "4px 3px", "circle", 1.5))
    sizes = [size for points in curves.values() for size in points]
    x, y = bytes_axis(sizes, "message size"), time_or_rate(show, traces)
    marks = switch_marks(profile, place, sizes), cache_marks(profile, sizes)
    return {"data": traces, "layout": layout(x, y, *marks)}
