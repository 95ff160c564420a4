"""Plots the time to read a message buffer right after the MPI call, and for comparison the read times without a
call."""

from __future__ import annotations

from nearfield.profile import Profile
from nearfield.profile.curves import curve, plotted_places
from nearfield.report.plots.axes import make_time_or_rate_axis, plot_by_size
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant
from nearfield.report.plots.series import CurveStyle, curve_style, line_traces, times_or_bandwidths

TITLE = "The buffer after the call"
NAVIGATION_TITLE = "After the call"
NAME_AND_STYLE_BY_STATE = {
    "preloaded": ("in the cache before the call", curve_style(2)),
    "invalid": ("in memory before the call", curve_style(3)),
    "base-preloaded": ("no call, in the cache", CurveStyle("@ink", "4px 3px", "circle", 1.5)),
    "base-invalid": ("no call, in memory", CurveStyle("@dim", "1px 3px", "circle", 1.5)),
}
SIDE_BY_CALL = {"after MPI_Recv": "receiver", "after MPI_Send": "sender"}


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with the chart of read times of the buffer after each call."""
    variants = []
    for place in plotted_places(profile.records, "pollution"):
        for call, side in SIDE_BY_CALL.items():
            for show in ("read rate", "time"):
                traces = []
                for state, (name, look) in NAME_AND_STYLE_BY_STATE.items():
                    points = curve(
                        profile.records, "pollution", "traverse",
                        place=place, side=side, state=state, only_reliable=False,
                    )  # fmt: skip
                    traces += line_traces(name, times_or_bandwidths(points, show), look)
                if traces:
                    figure = plot_by_size(traces, make_time_or_rate_axis(show, traces), "message size", profile, place)
                    variants.append(ChartVariant({PLACE_OPTION: place.label, "call": call, "show": show}, figure))
    caption = (
        "How fast the whole buffer is read right after the call. Where the line meets 'no call, in the cache', the "
        "message is in the cache; where it meets 'no call, in memory', it is not."
    )
    return [Chart("pollution", "Reading the message", caption, variants)] if variants else []
