"""Plots the hardware limits of communication between two cores, without MPI."""

from __future__ import annotations

from nearfield.base.units import format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import curve, drawn_places
from nearfield.report.derived_metrics import core_to_core_latency
from nearfield.report.plots.axes import plot_by_size, time_or_rate
from nearfield.report.plots.chart import PLACE, Chart, Variant
from nearfield.report.plots.series import convert_curve, curve_style, line_traces

TITLE = "What the hardware allows"
SHORT = "Hardware"
KINDS = (
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
    signals = []
    for place in drawn_places(profile.records, "floor"):
        signal = core_to_core_latency(profile.records, place, deciding=False)
        signals += [f"{place.label} {format_ns(signal.value)}"] if signal else []
        for show in ("bandwidth", "time"):
            traces = []
            for i, kind in enumerate(KINDS):
                points = curve(profile.records, "floor", "time", place=place, kind=kind, deciding=False)
                traces += line_traces(kind, convert_curve(points, show), curve_style(i))
            if traces:
                figure = plot_by_size(traces, time_or_rate(show, traces), "size", profile)
                variants.append(Variant({PLACE: place.label, "show": show}, figure))
    caption = (
        "Reading and copying what the other core just wrote (remote) and what this core wrote itself (local), with "
        "ordinary stores, with stores that go past the caches (-nt), and by both cores, half each (-both)."
    )
    if signals:
        caption += f" A flag crosses one way in: {'; '.join(signals[:6])}."
    return [Chart("floor", "Reading and copying", caption, variants)] if variants else []
