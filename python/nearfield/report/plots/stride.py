"""Plots strided vectors and the faces of a 3-D array: sent as an MPI datatype, packed by hand, or contiguous."""

from __future__ import annotations

from nearfield.base.units import format_bytes
from nearfield.profile import Profile
from nearfield.profile.curves import curve, distinct_values, plotted_places, select_records
from nearfield.report.plots.axes import make_layout, make_linear_axis, make_log_axis, make_number_axis
from nearfield.report.plots.chart import PLACE_OPTION, Chart, ChartVariant
from nearfield.report.plots.series import bar_traces, curve_style, line_traces

TITLE = "Elements that lie apart"
NAVIGATION_TITLE = "Strides"
NAME_STYLE_PATTERN_BY_METHOD = {
    "datatype": ("MPI datatype", curve_style(0), ""),
    "manual-pack": ("packed by hand", curve_style(1), "/"),
    "contiguous": ("contiguous", curve_style(2), "x"),
}


def charts(profile: Profile) -> list[Chart]:
    """Returns the charts of strided vectors and of faces, with a curve or bar for each method."""
    return [c for c in (_vector_chart(profile), _face_chart(profile)) if c.variants]


def _vector_chart(profile: Profile) -> Chart:
    variants = []
    for place in plotted_places(profile.records, "stride"):
        rows = select_records(profile.records, place, scenario="stride", metric="half_round_trip", face=None)
        for size in sorted(distinct_values(rows, "size_bytes"), reverse=True):
            for mode in distinct_values(rows, "mode"):
                traces = []
                for method, (name, look, _) in NAME_STYLE_PATTERN_BY_METHOD.items():
                    points = curve(
                        rows, "stride", "half_round_trip",
                        x="stride", size_bytes=size, mode=mode, method=method, only_reliable=False,
                    )  # fmt: skip
                    traces += line_traces(name, points, look, lambda stride: f"stride {stride}")
                strides = [x for trace in traces for x in trace["x"]]
                x, y = make_number_axis(strides, "stride (doubles)"), make_log_axis(traces, "half round trip")
                figure = {"data": traces, "layout": make_layout(x, y)}
                if traces:
                    choice = {PLACE_OPTION: place.label, "payload": format_bytes(size), "send": mode}
                    variants.append(ChartVariant(choice, figure))
    caption = "Doubles that lie `stride` apart, packing included. Strides that are powers of two and odd ones."
    return Chart("stride", "Strided vectors", caption.replace("`", ""), variants)


def _face_chart(profile: Profile) -> Chart:
    variants = []
    for place in plotted_places(profile.records, "stride"):
        rows = select_records(profile.records, place, scenario="stride", metric="half_round_trip", stride=None)
        for size in sorted(distinct_values(rows, "size_bytes")):
            traces = []
            for method, (name, look, pattern) in NAME_STYLE_PATTERN_BY_METHOD.items():
                points = curve(
                    rows, "stride", "half_round_trip", x="face", size_bytes=size, method=method, only_reliable=False
                )
                points = {f"face {face}": p.scale_by(1e-3, "us") for face, p in points.items()}
                traces += bar_traces(name, points, look, pattern)
            y = make_linear_axis(traces, "half round trip (us)")
            figure = {"data": traces, "layout": make_layout({"type": "category"}, y, barmode="group", bargap=0.35)}
            if traces:
                variants.append(ChartVariant({PLACE_OPTION: place.label, "payload": format_bytes(size)}, figure))
    caption = "Faces of a 3-D array in C order with ghost layers: x is whole rows, y rows far apart, z single elements."
    return Chart("faces", "Faces of a 3-D array", caption, variants)
