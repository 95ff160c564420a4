"""Plots the time to read the message buffer right after the call, and both baselines without a call."""

from __future__ import annotations

from nearfield.profile import Profile
from nearfield.report.evidence import curve, drawn_places
from nearfield.report.plots.axes import bytes_axis, cache_marks, layout, linear_axis, log_axis, switch_marks
from nearfield.report.plots.chart import PLACE, Chart, Variant
from nearfield.report.plots.series import Style, line, rate, style

TITLE = "The buffer after the call"
SHORT = "After the call"
LOOK = {
    "preloaded": ("in the cache before the call", style(2)),
    "invalid": ("in memory before the call", style(3)),
    "base-preloaded": ("no call, in the cache", Style("@ink", "4px 3px", "circle", 1.5)),
    "base-invalid": ("no call, in memory", Style("@dim", "1px 3px", "circle", 1.5)),
}
CALLS = {"after MPI_Recv": "receiver", "after MPI_Send": "sender"}


def charts(profile: Profile) -> list[Chart]:
    """Returns what reading a buffer costs after each call."""
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
                    traces += line(name, rate(points) if show == "read rate" else points, look)
                sizes = [x for trace in traces for x in trace["x"]]
                y = linear_axis(traces, "read rate (GB/s)") if show == "read rate" else log_axis(traces, "time")
                marks = switch_marks(profile, place, sizes), cache_marks(profile, sizes)
                figure = {"data": traces, "layout": layout(bytes_axis(sizes, "message size"), y, *marks)}
                if traces:
                    variants.append(Variant({PLACE: place.label, "call": call, "show": show}, figure))
    caption = (
        "How fast the whole buffer is read right after the call. Where the line meets 'no call, in the cache', the "
        "message is in the cache; where it meets 'no call, in memory', it is not."
    )
    return [Chart("pollution", "Reading the message", caption, variants)] if variants else []
