"""Collective operations by size, with one message of the same size for comparison."""

from __future__ import annotations

from nearfield.profile import Profile
from nearfield.report.evidence import curve, one_per_distance
from nearfield.report.findings.collectives import NAMES, rank_counts
from nearfield.report.measures import half_round_trip
from nearfield.report.plots.axes import bytes_axis, layout, log_axis
from nearfield.report.plots.chart import Chart, Variant
from nearfield.report.plots.series import Style, line, style

TITLE = "Collectives"
SHORT = "Collectives"


def charts(profile: Profile) -> list[Chart]:
    variants = []
    for ranks in reversed(rank_counts(profile.records)):
        traces = []
        for i, (operation, name) in enumerate(NAMES.items()):
            points = curve(profile.records, "collective", "time", operation=operation, ranks=ranks, deciding=False)
            traces += line(name, points, style(i))
        sizes = [x for trace in traces for x in trace["x"]]
        for place in one_per_distance(profile.records, "pingpong")[-1:]:
            near = {
                size: point
                for size, point in half_round_trip(profile.records, place, deciding=False).items()
                if sizes and min(sizes) <= size <= max(sizes)
            }
            traces += line(f"one message, {place.distance}", near, Style("@ink", "4px 3px", "circle", 1.5))
        if sizes:
            figure = {"data": traces, "layout": layout(bytes_axis(sizes, "size"), log_axis(traces, "time"))}
            variants.append(Variant({"ranks": str(ranks)}, figure))
    caption = "Until the slowest rank returned; size is what one rank contributes (to each other rank)."
    return [Chart("collective", "Time by size", caption, variants)] if variants else []
