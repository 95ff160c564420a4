"""Plots collectives by size next to one message of the same size, and for simulated profiles the savings of each NIC
policy."""

from __future__ import annotations

from typing import Any

from nearfield.base.frames import pl
from nearfield.profile import Profile
from nearfield.profile.curves import distinct_combinations, distinct_values, one_per_distance, pick
from nearfield.report.derived_metrics import BASE_POLICY, half_round_trip, mean_times, policy_savings
from nearfield.report.findings.collectives import NAMES, rank_counts, times_of
from nearfield.report.formatting import memory_speed
from nearfield.report.plots.axes import log_axis, plot_by_size, share_axis
from nearfield.report.plots.chart import Chart, Variant
from nearfield.report.plots.series import Style, curve_style, line_traces

TITLE = "Collectives"
SHORT = "Collectives"


def charts(profile: Profile) -> list[Chart]:
    """Returns the chart of times by size, and the chart of policies' savings."""
    variants = []
    for ranks in reversed(rank_counts(profile.records)):
        traces = []
        for i, (operation, name) in enumerate(operation_names(profile.records).items()):
            points = times_of(profile.records, operation, ranks, deciding=False)
            traces += line_traces(name, points, curve_style(i))
        sizes = [x for trace in traces for x in trace["x"]]
        for place in one_per_distance(profile.records, "pingpong")[-1:]:
            near = {
                size: point
                for size, point in half_round_trip(profile.records, place, deciding=False).items()
                if sizes and min(sizes) <= size <= max(sizes)
            }
            traces += line_traces(f"one message, {place.distance}", near, Style("@ink", "4px 3px", "circle", 1.5))
        if sizes:
            figure = plot_by_size(traces, log_axis(traces, "time"), "size")
            variants.append(Variant({"ranks": str(ranks)}, figure))
    caption = (
        "Until the slowest rank returned. The size is that of the message in MPI_Bcast and MPI_Allreduce, and of one "
        "rank's block in MPI_Allgather and MPI_Alltoall."
    )
    if profile.run.backend == "sim" and "policy" in profile.records.columns:
        caption += f" Incoming bytes go into memory only (policy {BASE_POLICY}), which is as fast as described."
    times = [Chart("collective", "Time by size", caption, variants)] if variants else []
    return [*times, *_policies(profile)]


def operation_names(records: pl.DataFrame) -> dict[str, str]:
    """Returns operation -> MPI function name. Operations that only a simulation has come last."""
    present = sorted(distinct_values(pick(records, scenario="collective"), "operation"))
    return NAMES | {name: f"MPI_{name.capitalize()}" for name in present if name not in NAMES}


def _policies(profile: Profile) -> list[Chart]:
    """Returns a chart with one figure per operation, number of ranks and memory speed, and one line per policy."""
    rows = pick(profile.records, scenario="collective", metric="mean_time", source="sim")
    variants = []
    names = operation_names(profile.records)
    for operation, ranks, slowdown in sorted(
        distinct_combinations(rows, "operation", "ranks", "memory_slowdown"), key=_order
    ):
        fixed = {"operation": operation, "ranks": ranks, "memory_slowdown": slowdown}
        traces = []
        savings = policy_savings(mean_times(rows, "collective", "size_bytes", **fixed))
        for i, (policy, points) in enumerate(savings.items()):
            traces += line_traces(policy, points, curve_style(i))
        if traces:
            figure = plot_by_size(traces, share_axis(traces, "time saved"), "size")
            choice = {"collective": names[operation], "ranks": str(ranks), "memory": memory_speed(slowdown)}
            variants.append(Variant(choice, figure))
    caption = (
        "How much less time a collective takes where the NIC puts incoming bytes elsewhere than into memory only: the "
        f"mean of the simulated repetitions against that of policy {BASE_POLICY}."
    )
    return [Chart("policies", "What policies save", caption, variants)] if variants else []


def _order(key: tuple[Any, ...]) -> tuple[str, int, float]:
    operation, ranks, slowdown = key
    return operation, -ranks, float(slowdown)
