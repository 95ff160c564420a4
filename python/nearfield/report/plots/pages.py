"""Plots the costs of first touch and of repeated reads, for private memory, shared windows and fields of the halo
library."""

from __future__ import annotations

from nearfield.profile import Profile
from nearfield.profile.curves import curve
from nearfield.report.findings.pages import MEMORY_NAMES
from nearfield.report.plots.axes import make_log_axis, plot_by_size
from nearfield.report.plots.chart import Chart, ChartVariant
from nearfield.report.plots.series import curve_style, line_traces, values_per_mib

TITLE = "Pages"
NAVIGATION_TITLE = "Pages"
METRIC_AND_TITLE_BY_NAME = {
    "first touch": ("first_touch", "time per MiB"),
    "reading again": ("traverse", "time per MiB"),
    "page faults": ("first_touch_faults", "page faults per MiB, first touch"),
}


def charts(profile: Profile) -> list[Chart]:
    """Returns a list with the chart of first touch and repeated reads, by kind of memory."""
    variants = []
    for show, (metric, title) in METRIC_AND_TITLE_BY_NAME.items():
        traces = []
        for i, (memory, name) in enumerate(MEMORY_NAMES.items()):
            points = values_per_mib(curve(profile.records, "pages", metric, memory=memory, only_reliable=False))
            traces += line_traces(name, points, curve_style(i))
        if traces:
            unit = "count/MiB" if metric.endswith("faults") else "ns/MiB"
            y = make_log_axis(traces, title, unit)
            y["ticktext"] = [text.removesuffix(" per MiB") for text in y["ticktext"]]
            variants.append(ChartVariant({"show": show}, plot_by_size(traces, y, "memory of each rank")))
    caption = (
        "Writing memory for the first time, and reading it again. For a window with huge pages, and for a field of the "
        "halo library, the first touch contains making the pages huge."
    )
    return [Chart("pages", "First touch and reading again", caption, variants)] if variants else []
