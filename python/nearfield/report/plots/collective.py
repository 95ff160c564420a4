"""Plots the times of collectives by size, together with that of one message of the same size. For simulated profiles,
also plots the savings by each placement policy of the NIC."""

from __future__ import annotations

from typing import Any

from nearfield.base.frames import pl
from nearfield.profile import Profile
from nearfield.profile.curves import distinct_combinations, distinct_values, one_place_per_distance, select_records
from nearfield.report.derived_metrics import BASE_POLICY, half_round_trip, mean_times_by_policy, policy_savings
from nearfield.report.findings.collectives import MPI_FUNCTION_NAMES, collective_times, measured_rank_counts
from nearfield.report.formatting import format_memory_speed
from nearfield.report.plots.axes import make_log_axis, make_share_axis, plot_by_size
from nearfield.report.plots.chart import Chart, ChartVariant
from nearfield.report.plots.series import CurveStyle, curve_style, line_traces

TITLE = "Collectives"
NAVIGATION_TITLE = "Collectives"


def charts(profile: Profile) -> list[Chart]:
    """Returns the chart of times by size, and the chart of policies' savings."""
    variants = []
    for ranks in reversed(measured_rank_counts(profile.records)):
        traces = []
        for i, (operation, name) in enumerate(operation_names(profile.records).items()):
            points = collective_times(profile.records, operation, ranks, only_reliable=False)
            traces += line_traces(name, points, curve_style(i))
        sizes = [x for trace in traces for x in trace["x"]]
        for place in one_place_per_distance(profile.records, "pingpong")[-1:]:
            message_times = {
                size: point
                for size, point in half_round_trip(profile.records, place, only_reliable=False).items()
                if sizes and min(sizes) <= size <= max(sizes)
            }
            traces += line_traces(
                f"one message, {place.distance}", message_times, CurveStyle("@ink", "4px 3px", "circle", 1.5)
            )
        if sizes:
            figure = plot_by_size(traces, make_log_axis(traces, "time"), "size")
            variants.append(ChartVariant({"ranks": str(ranks)}, figure))
    caption = (
        "Until the slowest rank returned. The size is that of the message in MPI_Bcast and MPI_Allreduce, and of one "
        "rank's block in MPI_Allgather and MPI_Alltoall."
    )
    if profile.run.backend == "sim" and "policy" in profile.records.columns:
        caption += f" Incoming bytes go into memory only (policy {BASE_POLICY}), which is as fast as described."
    times = [Chart("collective", "Time by size", caption, variants)] if variants else []
    return [*times, *_policy_charts(profile)]


def operation_names(records: pl.DataFrame) -> dict[str, str]:
    """Returns operation -> MPI function name. Operations that only simulated profiles have come last."""
    operations = sorted(distinct_values(select_records(records, scenario="collective"), "operation"))
    return MPI_FUNCTION_NAMES | {
        name: f"MPI_{name.capitalize()}" for name in operations if name not in MPI_FUNCTION_NAMES
    }


def _policy_charts(profile: Profile) -> list[Chart]:
    """Returns a chart with one figure per operation, number of ranks and memory speed, and one line per policy."""
    rows = select_records(profile.records, scenario="collective", metric="mean_time", source="sim")
    variants = []
    names = operation_names(profile.records)
    for operation, ranks, slowdown in sorted(
        distinct_combinations(rows, "operation", "ranks", "memory_slowdown"), key=_sort_key
    ):
        fixed = {"operation": operation, "ranks": ranks, "memory_slowdown": slowdown}
        traces = []
        savings = policy_savings(mean_times_by_policy(rows, "collective", "size_bytes", **fixed))
        for i, (policy, points) in enumerate(savings.items()):
            traces += line_traces(policy, points, curve_style(i))
        if traces:
            figure = plot_by_size(traces, make_share_axis(traces, "time saved"), "size")
            choice = {"collective": names[operation], "ranks": str(ranks), "memory": format_memory_speed(slowdown)}
            variants.append(ChartVariant(choice, figure))
    caption = (
        "How much less time a collective takes where the NIC puts incoming bytes elsewhere than into memory only: the "
        f"mean of the simulated repetitions against that of policy {BASE_POLICY}."
    )
    return [Chart("policies", "Savings by policy", caption, variants)] if variants else []


def _sort_key(key: tuple[Any, ...]) -> tuple[str, int, float]:
    operation, ranks, slowdown = key
    return operation, -ranks, float(slowdown)
