"""Plots the time to read a message buffer right after the MPI call, next to read times without a call."""

from __future__ import annotations

from nearfield.profile import Profile
from nearfield.profile.curves import curve, drawn_places
from nearfield.report.plots.axes import plot_by_size, time_or_rate
from nearfield.report.plots.chart import PLACE, Chart, Variant
from nearfield.report.plots.series import Style, convert_curve, curve_style, line_traces

TITLE = "The buffer after the call"
SHORT = "After the call"
LOOK = {
    "preloaded": ("in the cache before the call", curve_style(2)),
    "invalid": ("in memory before the call", curve_style(3)),
    "base-preloaded": ("no call, in the cache", Style("@ink", "4px 3px", "circle", 1.5)),
    "base-invalid": ("no call, in memory", Style("@dim", "1px 3px", "circle", 1.5)),
}
CALLS = {"after MPI_Recv": "receiver", "after MPI_Send": "sender"}


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with the chart of read times of the buffer after each call."""
    variants = []
    for place in drawn_places(profile.records, "pollution"):
        for call, side in CALLS.items():
            for show in ("read rate", "time"):
                traces = []
                for state, (name, look) in LOOK.items():
                    points = curve(
                        profile.records, "pollution", "traverse",
                        place=place, side=side, state=state, deciding=False,
                    )  # fmt: skip
                    traces += line_traces(name, convert_curve(points, show), look)
                if traces:
                    figure = plot_by_size(traces, time_or_rate(show, traces), "message size", profile, place)
                    variants.append(Variant({PLACE: place.label, "call": call, "show": show}, figure))
    caption = (
        "How fast the whole buffer is read right after the call. Where the line meets 'no call, in the cache', the "
        "message is in the cache; where it meets 'no call, in memory', it is not."
    )
    return [Chart("pollution", "Reading the message", caption, variants)] if variants else []
