"""Plots the hardware limits of communication between two cores, without MPI."""

from __future__ import annotations

from nearfield.base.units import format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import curve, drawn_places
from nearfield.report.derived_metrics import flag
from nearfield.report.plots.axes import by_size, time_or_rate
from nearfield.report.plots.chart import PLACE, Chart, Variant
from nearfield.report.plots.series import convert_curve, line, style

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
        signal = flag(profile.records, place, deciding=False)
        signals += [f"{place.label} {format_ns(signal.value)}"] if signal else []
        for show in ("bandwidth", "time"):
            traces = []
            for i, kind in enumerate(KINDS):
                points = curve(profile.records, "floor", "time", place=place, kind=kind, deciding=False)
                traces += line(kind, convert_curve(points, show), style(i))
            if traces:
                figure = by_size(traces, time_or_rate(show, traces), "size", profile)
                variants.append(Variant({PLACE: place.label, "show": show}, figure))
    caption = (
        "Reading and copying what the other core just wrote (remote) and what this core wrote itself (local), with "
        "ordinary stores, with stores that go past the caches (-nt), and by both cores, half each (-both)."
    )
    if signals:
        caption += f" A flag crosses one way in: {'; '.join(signals[:6])}."
    return [Chart("floor", "Reading and copying", caption, variants)] if variants else []
