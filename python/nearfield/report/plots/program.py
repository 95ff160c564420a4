"""Plots an observed program replayed on a simulated cluster: its time by NIC policy and memory speed, the breakdown of
its time by MPI call, and a timeline of the ranks' MPI calls."""

from __future__ import annotations

from nearfield.base.frames import pl
from nearfield.base.units import format_ns
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Point, distinct_values, point_of, select_records
from nearfield.report.derived_metrics import mean_times_by_policy, policy_savings
from nearfield.report.formatting import format_memory_speed, format_percent
from nearfield.report.plots.application import bar_traces_by_speed
from nearfield.report.plots.axes import make_layout, make_linear_axis, make_share_axis
from nearfield.report.plots.chart import Chart, ChartVariant, Figure
from nearfield.report.plots.series import Trace, bar_traces, curve_style

TITLE = "Program"
NAVIGATION_TITLE = "Program"
TIMELINE_FILE = "timeline.parquet"  # written by nearfield.observe.replay_profile
_MAX_COLORED_CALLS = 6  # maximum number of calls with an individual colour; the other calls are summed up
_NO_CALL = "-"


def charts(profile: Profile) -> list[Chart]:
    """Returns the charts of the program's time, of its breakdown by call, and of the timeline."""
    rows = select_records(profile.records, scenario="program", source="sim")
    return [*_time_charts(rows), *_call_charts(rows), *_timeline_charts(profile)]


def _time_charts(rows: pl.DataFrame) -> list[Chart]:
    times = mean_times_by_policy(rows, "program", "memory_slowdown", "time")
    in_ms = {policy: {x: p.scale_by(1e-6, "ms") for x, p in points.items()} for policy, points in times.items()}
    variants = []
    for show, curves in (("time", in_ms), ("time saved", policy_savings(times))):
        traces = bar_traces_by_speed(curves)
        y = make_linear_axis(traces, "time (ms)") if show == "time" else make_share_axis(traces, show)
        figure = {"data": traces, "layout": make_layout({"type": "category"}, y, barmode="group")}
        variants += [ChartVariant({"show": show}, figure)] if traces else []
    caption = "Until the last rank is done, by where the NIC puts incoming bytes; time saved is against policy memory."
    return [Chart("program", "The program by policy", caption, variants)] if variants else []


def _call_charts(rows: pl.DataFrame) -> list[Chart]:
    call_rows = select_records(rows, metric="time_in")
    if not {"call", "policy"} <= {*call_rows.columns}:
        return []
    variants = []
    for speed in distinct_values(call_rows, "memory_slowdown"):
        traces = _stacked_bar_traces(select_records(call_rows, memory_slowdown=speed))
        figure = {
            "data": traces,
            "layout": make_layout({"type": "category"}, _make_stack_axis(traces), barmode="stack"),
        }
        variants.append(ChartVariant({"memory": format_memory_speed(speed)}, figure))
    caption = "The mean of the ranks: between calls of MPI, and in the calls of each line of source."
    return [Chart("program-calls", "Where the time goes", caption, variants)] if variants else []


def _stacked_bar_traces(call_rows: pl.DataFrame) -> list[Trace]:
    """Returns traces of stacked bars: a segment for each of the most expensive calls, and one for all others."""
    points_by_call: dict[str, Curve] = {}
    for row in call_rows.iter_rows(named=True):
        name = f"{row['call']}, {row['line']}" if row.get("line") else row["call"]
        points_by_call.setdefault(name, {})[row["policy"]] = point_of(row).scale_by(1e-6, "ms")
    order = sorted(points_by_call, key=lambda name: -max(point.value for point in points_by_call[name].values()))
    other_calls: Curve = {}
    for name in order[_MAX_COLORED_CALLS:]:
        for policy, point in points_by_call[name].items():
            total = point.value + (other_calls[policy].value if policy in other_calls else 0.0)
            other_calls[policy] = Point(total, total, total, 1, True, unit="ms")
    traces = [
        t
        for i, name in enumerate(order[:_MAX_COLORED_CALLS])
        for t in bar_traces(name, points_by_call[name], curve_style(i))
    ]
    return traces + bar_traces("other calls", other_calls, curve_style(_MAX_COLORED_CALLS))


def _make_stack_axis(traces: list[Trace]) -> dict[str, object]:
    sums: dict[str, float] = {}
    for trace in traces:
        for policy, value in zip(trace["x"], trace["y"], strict=True):
            sums[policy] = sums.get(policy, 0.0) + value
    return make_linear_axis([{"meta": True, "y": list(sums.values())}], "time (ms)")


def _timeline_charts(profile: Profile) -> list[Chart]:
    file = profile.path / TIMELINE_FILE
    if not file.exists():
        return []
    bins = pl.read_parquet(file)
    if bins.height < 2:
        return []
    caption = (
        "A row for each rank: the share of its time that it spends in MPI, by the first policy at the fastest memory. "
        "Point at a place to see in which call most of it is."
    )
    return [Chart("program-timeline", "When the ranks are in MPI", caption, [ChartVariant({}, _heat_map_figure(bins))])]


def _heat_map_figure(bins: pl.DataFrame) -> Figure:
    begins = bins["begin_ns"].unique().sort()
    bin_width_ns = (begins - begins.shift(1)).drop_nulls().min() or 1.0
    assert isinstance(bin_width_ns, float)
    first, last = (round(begins[times_ms] / bin_width_ns) for times_ms in (0, -1))
    columns, ranks = last - first + 1, int(bins["rank"].max()) + 1  # type: ignore[arg-type]
    mpi_share_by_rank = [[0.0] * columns for _ in range(ranks)]
    longest_call_by_rank: list[list[tuple[float, str]]] = [[(0.0, _NO_CALL)] * columns for _ in range(ranks)]
    for rank, begin, call, line, time in bins.select("rank", "begin_ns", "call", "line", "time_ns").iter_rows():
        column = round(begin / bin_width_ns) - first
        mpi_share_by_rank[rank][column] += time / bin_width_ns
        longest_call_by_rank[rank][column] = max(longest_call_by_rank[rank][column], (time, f"{call}, {line}"))
    times_ms = [(first + column) * bin_width_ns / 1e6 for column in range(columns)]
    data = {
        "type": "heatmap", "x": times_ms, "y": list(range(ranks)), "z": mpi_share_by_rank, "zmin": 0, "zmax": 1,
        "colorscale": "Cividis",
        "customdata": [
            [f"rank {rank}, {format_ns(x * 1e6)}<br>in MPI {format_percent(min(1.0, s))}<br>{name}"
             for x, s, (_, name) in zip(times_ms, mpi_share_by_rank[rank], longest_call_by_rank[rank], strict=True)]
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
