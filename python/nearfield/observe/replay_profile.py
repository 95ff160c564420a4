"""Saves a replayed program as a profile for `show`, `diff` and `report`. In addition to records the profile has
timeline.parquet: at which times each rank was in which MPI call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nearfield._native.memory import Counts
from nearfield.base.frames import pl
from nearfield.measure.request import Request
from nearfield.measure.row import Row, identity_columns, value_columns
from nearfield.measure.sim.describe import SUMMARY_BY_AXIS
from nearfield.measure.sim.profile import save_profile
from nearfield.observe.replay import Replay
from nearfield.profile import Profile, schema

PROGRAM_SCENARIO = "program"
COMPUTING_CALL = "(computing)"  # stands for the time outside of MPI calls
TIMELINE_FILE = "timeline.parquet"

_SUMMARY_BY_PARAMETER = {
    "ranks": "how many",
    "call": f"the function of MPI, or {COMPUTING_CALL}, the time between calls",
    "line": "the line of source that calls it",
}
_UNIT_AND_SUMMARY_BY_METRIC = {
    "time": ("ns", "of the rank that takes longest"),
    "time_in": ("ns", "in a call from a line, in the mean of the ranks"),
    "calls": ("count", "how often all ranks call it"),
}


def save_replay(out: Path, program_replay: Replay, command: str, seconds: float) -> Profile:
    """Saves the replay as a profile at `out`. Raises ProfileError if `out` cannot be written."""
    rows = list(_replay_rows(program_replay))
    saved = save_profile(
        out, program_replay.cluster.machine, Request(on=program_replay.cluster.machine.name, command=command), rows,
        scenarios=[_program_scenario(rows)], complete=True, seconds=seconds,
    )  # fmt: skip
    _write_timeline(out / TIMELINE_FILE, program_replay)
    return saved


def memory_traffic_counts(memory: list[Counts]) -> dict[str, list[int]]:
    """Returns name of a count -> values by policy, for the counts of all nodes' memory that are not 0: cache misses,
    lines injected by the NIC, and DRAM traffic."""
    levels = range(len(memory[0].levels))
    rows = {f"l{n + 1}_misses": [counts.levels[n].misses for counts in memory] for n in levels}
    rows |= {f"l{n + 1}_injected": [counts.levels[n].injections for counts in memory] for n in levels}
    rows |= {f"l{n + 1}_injected_unused": [counts.levels[n].injected_unused for counts in memory] for n in levels}
    rows["dram_bytes"] = [counts.dram.bytes for counts in memory]
    return {name: numbers for name, numbers in rows.items() if any(numbers)}


def _replay_rows(program_replay: Replay) -> Iterator[Row]:
    cluster, ranks = program_replay.cluster, len(program_replay.replayed.ranks)
    computing, sites = program_replay.computing_ns(), program_replay.call_sites()
    for policy, policy_name in enumerate(cluster.policies):
        by_policy = {"policy": policy_name}
        for speed, slowdown in enumerate(cluster.slowdowns):
            axes = {**by_policy, "memory_slowdown": slowdown}
            yield _replay_row(program_replay, "time", "ns", program_replay.time_ns()[policy][speed], axes)
            mean = computing[policy][speed] / ranks
            yield _replay_row(program_replay, "time_in", "ns", mean, {**axes, "call": COMPUTING_CALL})
            for site in sites:
                mean = site.time_ns[policy][speed] / ranks
                yield _replay_row(program_replay, "time_in", "ns", mean, {**axes, "call": site.name, "line": site.line})
        for name, numbers in memory_traffic_counts(program_replay.replayed.memory).items():
            unit = "bytes" if name.endswith("bytes") else "count"
            yield _replay_row(program_replay, name, unit, numbers[policy], by_policy)
    for site in sites:
        yield _replay_row(program_replay, "calls", "count", site.calls, {"call": site.name, "line": site.line})


def _replay_row(program_replay: Replay, metric: str, unit: str, value: float, parameters: Mapping[str, Any]) -> Row:
    all_parameters = {"nodes": program_replay.cluster.nodes, "ranks": len(program_replay.replayed.ranks), **parameters}
    identity = identity_columns(
        PROGRAM_SCENARIO, metric, unit, "sim", distance=None, pair=None, side=None, parameters=all_parameters
    )
    return identity | value_columns(float(value), float(value), float(value), 1)


def _program_scenario(rows: list[Row]) -> schema.Scenario:
    parameters = {
        **{name: SUMMARY_BY_AXIS[name] for name in ("nodes", "policy", "memory_slowdown")},
        **_SUMMARY_BY_PARAMETER,
    }
    units = {row["metric"]: row["unit"] for row in rows}
    return schema.Scenario(
        name=PROGRAM_SCENARIO,
        summary="an observed program on a described cluster: the parts of its time",
        parameters=[schema.ParameterInfo(name=name, summary=summary) for name, summary in parameters.items()],
        metrics=[
            schema.MetricInfo(
                name=name,
                unit=units[name],
                summary=_UNIT_AND_SUMMARY_BY_METRIC.get(name, ("", "of all nodes' memory"))[1],
            )
            for name in units
        ],
    )


def _write_timeline(file: Path, program_replay: Replay) -> None:
    columns: dict[str, list[Any]] = {name: [] for name in ("rank", "begin_ns", "call", "line", "time_ns")}
    for rank, replayed_rank in enumerate(program_replay.replayed.ranks):
        for call in replayed_rank.calls:
            line = program_replay.source_line_of(call)
            for interval_index, time_ps in enumerate(call.timeline):
                if time_ps:
                    row = rank, interval_index * program_replay.replayed.part_ns, call.name, line, time_ps / 1e3
                    for column, one in zip(columns.values(), row, strict=True):
                        column.append(one)
    pl.DataFrame(columns).write_parquet(file)
