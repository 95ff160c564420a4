"""Plots message times while other ranks communicate."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import curve, distinct_values, plotted_places, select_records
from nearfield.report.plots.axes import make_time_or_rate_axis, plot_by_size
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant
from nearfield.report.plots.series import curve_style, line_traces, times_or_bandwidths

TITLE = "Load"
NAVIGATION_TITLE = "Load"


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with the chart of message times under different loads."""
    variants = []
    for place in plotted_places(profile.records, "load"):
        rows = select_records(profile.records, place, scenario="load", metric="half_round_trip")
        for show in ("time", "bandwidth"):
            traces = []
            for i, amount in enumerate(sorted(distinct_values(rows, "load_bytes"))):
                points = curve(rows, "load", "half_round_trip", load_bytes=amount, only_reliable=False)
                name = f"MPI_Alltoall of {format_bytes(amount)}" if amount else "no load"
                traces += line_traces(name, times_or_bandwidths(points, show), curve_style(i))
            if traces:
                figure = plot_by_size(traces, make_time_or_rate_axis(show, traces, "half round trip"), "message size")
                variants.append(ChartVariant({PLACE_OPTION: place.label, "show": show}, figure))
    caption = "A ping-pong of two ranks while all others run MPI_Alltoall among themselves."
    return [Chart("load", "Messages under load", caption, variants)] if variants else []
