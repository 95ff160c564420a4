"""Plots an observed program replayed on a simulated cluster: its time by NIC policy and memory speed, the breakdown of
its time by MPI call, and a timeline of the ranks' MPI calls."""

from __future__ import annotations

from nearfield.base.frames import pl
from nearfield.base.units import format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Point, distinct_values, pick, point_of
from nearfield.report.derived_metrics import mean_times, policy_savings
from nearfield.report.formatting import memory_speed, percent
from nearfield.report.plots.application import bars_by_speed
from nearfield.report.plots.axes import layout, linear_axis, share_axis
from nearfield.report.plots.chart import Chart, Figure, Variant
from nearfield.report.plots.series import Trace, bar_traces, curve_style

TITLE = "Program"
SHORT = "Program"
TIMELINE = "timeline.parquet"  # written by nearfield.observe.replay_profile
_MAX_CALLS = 6  # max number of calls with a colour of their own; the others are summed up
_NONE = "-"


def charts(profile: Profile) -> list[Chart]:
    """Returns the charts of the program's time, of its breakdown by call, and of the timeline."""
    rows = pick(profile.records, scenario="program", source="sim")
    return [*_times(rows), *_calls(rows), *_timeline(profile)]


def _times(rows: pl.DataFrame) -> list[Chart]:
    times = mean_times(rows, "program", "memory_slowdown", "time")
    in_ms = {policy: {x: p.scaled(1e-6, "ms") for x, p in points.items()} for policy, points in times.items()}
    variants = []
    for show, curves in (("time", in_ms), ("time saved", policy_savings(times))):
        traces = bars_by_speed(curves)
        y = linear_axis(traces, "time (ms)") if show == "time" else share_axis(traces, show)
        figure = {"data": traces, "layout": layout({"type": "category"}, y, barmode="group")}
        variants += [Variant({"show": show}, figure)] if traces else []
    caption = "Until the last rank is done, by where the NIC puts incoming bytes; time saved is against policy memory."
    return [Chart("program", "The program by policy", caption, variants)] if variants else []


def _calls(rows: pl.DataFrame) -> list[Chart]:
    found = pick(rows, metric="time_in")
    if not {"call", "policy"} <= {*found.columns}:
        return []
    variants = []
    for speed in distinct_values(found, "memory_slowdown"):
        traces = _stacked(pick(found, memory_slowdown=speed))
        figure = {"data": traces, "layout": layout({"type": "category"}, _sum_axis(traces), barmode="stack")}
        variants.append(Variant({"memory": memory_speed(speed)}, figure))
    caption = "The mean of the ranks: between calls of MPI, and in the calls of each line of source."
    return [Chart("program-calls", "Where the time goes", caption, variants)] if variants else []


def _stacked(found: pl.DataFrame) -> list[Trace]:
    """Returns traces of stacked bars: a segment for each of the most expensive calls, and one for all others."""
    pieces: dict[str, Curve] = {}
    for row in found.iter_rows(named=True):
        name = f"{row['call']}, {row['line']}" if row.get("line") else row["call"]
        pieces.setdefault(name, {})[row["policy"]] = point_of(row).scaled(1e-6, "ms")
    order = sorted(pieces, key=lambda name: -max(point.value for point in pieces[name].values()))
    rest: Curve = {}
    for name in order[_MAX_CALLS:]:
        for policy, point in pieces[name].items():
            both = point.value + (rest[policy].value if policy in rest else 0.0)
            rest[policy] = Point(both, both, both, 1, True, unit="ms")
    traces = [t for i, name in enumerate(order[:_MAX_CALLS]) for t in bar_traces(name, pieces[name], curve_style(i))]
    return traces + bar_traces("other calls", rest, curve_style(_MAX_CALLS))


def _sum_axis(traces: list[Trace]) -> dict[str, object]:
    sums: dict[str, float] = {}
    for trace in traces:
        for policy, value in zip(trace["x"], trace["y"], strict=True):
            sums[policy] = sums.get(policy, 0.0) + value
    return linear_axis([{"meta": True, "y": list(sums.values())}], "time (ms)")


def _timeline(profile: Profile) -> list[Chart]:
    file = profile.path / TIMELINE
    if not file.exists():
        return []
    parts = pl.read_parquet(file)
    if parts.height < 2:
        return []
    caption = (
        "A row for each rank: the share of its time that it spends in MPI, by the first policy at the fastest memory. "
        "Point at a place to see in which call most of it is."
    )
    return [Chart("program-timeline", "When the ranks are in MPI", caption, [Variant({}, _heat_map(parts))])]


def _heat_map(parts: pl.DataFrame) -> Figure:
    begins = parts["begin_ns"].unique().sort()
    width = (begins - begins.shift(1)).drop_nulls().min() or 1.0
    assert isinstance(width, float)
    first, last = (round(begins[at] / width) for at in (0, -1))
    columns, ranks = last - first + 1, int(parts["rank"].max()) + 1  # type: ignore[arg-type]
    share = [[0.0] * columns for _ in range(ranks)]
    longest: list[list[tuple[float, str]]] = [[(0.0, _NONE)] * columns for _ in range(ranks)]
    for rank, begin, call, line, time in parts.select("rank", "begin_ns", "call", "line", "time_ns").iter_rows():
        column = round(begin / width) - first
        share[rank][column] += time / width
        longest[rank][column] = max(longest[rank][column], (time, f"{call}, {line}"))
    at = [(first + column) * width / 1e6 for column in range(columns)]
    data = {
        "type": "heatmap", "x": at, "y": list(range(ranks)), "z": share, "zmin": 0, "zmax": 1, "colorscale": "Cividis",
        "customdata": [
            [f"rank {rank}, {format_ns(x * 1e6)}<br>in MPI {percent(min(1.0, s))}<br>{name}"
             for x, s, (_, name) in zip(at, share[rank], longest[rank], strict=True)]
            for rank in range(ranks)
        ],
        "hovertemplate": "%{customdata}<extra></extra>",
        "colorbar": {"title": {"text": "in MPI"}, "thickness": 12, "outlinewidth": 0, "tickformat": ".0%"},
    }  # fmt: skip
    axis = {"showgrid": False, "automargin": True, "linecolor": "@line"}
    return {
        "data": [data],
        "layout": {
            "xaxis": {**axis, "title": {"text": "time (ms)"}},
            "yaxis": {**axis, "title": {"text": "rank"}, "autorange": "reversed"},
            "margin": {"l": 56, "r": 8, "t": 8, "b": 48},
        },
    }
