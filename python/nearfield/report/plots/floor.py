"""Plots what limits communication between two cores without MPI: the times of reads and copies of the other core's
data."""

from __future__ import annotations

from nearfield.base.units import format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import curve, plotted_places
from nearfield.report.derived_metrics import core_to_core_latency
from nearfield.report.plots.axes import make_time_or_rate_axis, plot_by_size
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant
from nearfield.report.plots.series import curve_style, line_traces, times_or_bandwidths

TITLE = "Hardware limits"
NAVIGATION_TITLE = "Hardware"
COPY_AND_READ_KINDS = (
    "copy-remote",
    "copy-remote-nt",
    "copy-remote-both",
    "read-remote",
    "copy-local",
    "copy-local-nt",
    "read-local",
)


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with the chart of reads and copies between two cores."""
    variants = []
    latency_texts = []
    for place in plotted_places(profile.records, "floor"):
        signal = core_to_core_latency(profile.records, place, only_reliable=False)
        latency_texts += [f"{place.label} {format_ns(signal.value)}"] if signal else []
        for show in ("bandwidth", "time"):
            traces = []
            for i, kind in enumerate(COPY_AND_READ_KINDS):
                points = curve(profile.records, "floor", "time", place=place, kind=kind, only_reliable=False)
                traces += line_traces(kind, times_or_bandwidths(points, show), curve_style(i))
            if traces:
                figure = plot_by_size(traces, make_time_or_rate_axis(show, traces), "size", profile)
                variants.append(ChartVariant({PLACE_OPTION: place.label, "show": show}, figure))
    caption = (
        "Reading and copying data that the other core just wrote (remote) or that this core wrote itself (local), with "
        "ordinary stores, with stores that go past the caches (-nt), and by both cores, half each (-both)."
    )
    if latency_texts:
        caption += f" A flag crosses one way in: {'; '.join(latency_texts[:6])}."
    return [Chart("floor", "Reading and copying", caption, variants)] if variants else []
