"""Formats the results of --sweep for traces and programs, as human-readable tables and data for --json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from nearfield.base.estimates import ratio_of_estimates
from nearfield.base.units import counted, format_bytes, format_ns
from nearfield.cli.range_text import format_ratio_range
from nearfield.cli.replay_tables import as_dict, program_cells, scatter_sentence
from nearfield.cli.trace_tables import bound_sentence
from nearfield.machine.sweep import SweepSetting
from nearfield.observe.repeats import RepeatedReplay
from nearfield.simulate.memory import Memory
from nearfield.simulate.settings import TraceResult
from nearfield.ui.terminal import Column, Table, Terminal


def print_trace_sweep(
    memory: Memory, files: Sequence[str], settings: Sequence[SweepSetting], results: Sequence[TraceResult], chase: bool
) -> None:
    """Prints the time of a trace on each variant of the machine, at each memory speed, and its misses."""
    accesses = f"{results[0].num_accesses:,} accesses"
    speeds = [f"{slowdown:g}" for slowdown in memory.memory_slowdown]
    times = ["time", "of the first"] if len(speeds) == 1 else [f"time at slowdown {speed}" for speed in speeds]
    levels = [f"L{level} misses" for level in range(1, len(results[0].misses) + 1)]
    table = Table(*_key_columns(settings), *(Column(name, right=True) for name in (*times, *levels, "DRAM")))
    for setting, one in zip(settings, results, strict=True):
        cells = [format_ns(time_ns) for time_ns in one.times_ns]
        if len(speeds) == 1:
            cells.append(_format_ratio(one.times_ns[0], results[0].times_ns[0]))
        cells += [f"{misses:,}" for misses in one.misses]
        table.add_row(*_format_values(setting), *cells, format_bytes(one.dram_bytes, digits=3))
    out = Terminal()
    out.print(f"\n[bold]{escape(', '.join(files))}[/bold] on {escape(memory.machine.name)}: {accesses}")
    out.print(f"[dim]{bound_sentence(chase)}[/dim]")
    out.print(table)


def trace_sweep_as_dict(
    memory: Memory, files: Sequence[str], settings: Sequence[SweepSetting], results: Sequence[TraceResult]
) -> dict[str, Any]:
    """Returns the results of a trace for --json. Times are indexed by memory speed, misses by cache level."""
    return {
        "machine": memory.machine.name,
        "files": list(files),
        "memory_slowdown": list(memory.memory_slowdown),
        "accesses": results[0].num_accesses,
        "sweep": [
            {"values": dict(setting), "times_ns": one.times_ns, "misses": one.misses, "dram_bytes": one.dram_bytes}
            for setting, one in zip(settings, results, strict=True)
        ],
    }


def trace_sweep_rows(
    memory: Memory, settings: Sequence[SweepSetting], results: Sequence[TraceResult]
) -> list[dict[str, Any]]:
    """Returns the results of a trace as rows for --csv, one for each setting and memory speed."""
    return [
        dict(setting)
        | {"memory_slowdown": slowdown, "time_ns": time_ns}
        | {f"l{level}_misses": misses for level, misses in enumerate(one.misses, 1)}
        | {"dram_bytes": one.dram_bytes}
        for setting, one in zip(settings, results, strict=True)
        for slowdown, time_ns in zip(memory.memory_slowdown, one.times_ns, strict=True)
    ]


def program_sweep_rows(settings: Sequence[SweepSetting], results: Sequence[RepeatedReplay]) -> list[dict[str, Any]]:
    """Returns the results of a program as rows for --csv, one for each setting, memory speed and policy: the time of
    the slowest rank, and the fraction of the base policy's time that is saved. Their limits are None if there is only
    one replay."""
    rows: list[dict[str, Any]] = []
    for setting, one in zip(settings, results, strict=True):
        for speed, slowdown in enumerate(one.cluster.slowdowns):
            for policy, name in enumerate(one.cluster.policies):
                time, saved = one.estimate_time(policy, speed), one.estimate_saving(policy, speed)
                limits = {
                    "time_low_ns": time.low, "time_high_ns": time.high, "saved_low": saved.low,
                    "saved_high": saved.high,
                }  # fmt: skip
                rows.append(
                    dict(setting)
                    | {"memory_slowdown": slowdown, "policy": name, "repeats": len(one.replays)}
                    | {"time_ns": time.value, "saved": saved.value}
                    | {key: limit if one.has_intervals else None for key, limit in limits.items()}
                )
    return rows


def print_program_sweep(command: str, settings: Sequence[SweepSetting], results: Sequence[RepeatedReplay]) -> None:
    """Prints the time of a program's slowest rank on each variant of the machine, and what other policies save."""
    cluster = results[0].cluster
    policies = [Column(name, right=True) for name in cluster.policies]
    slowdown = [Column("slowdown", key=True, right=True)]
    table = Table(*_key_columns(settings), *slowdown, policies[0], Column("of the first", right=True), *policies[1:])
    for setting, one in zip(settings, results, strict=True):
        for speed, factor in enumerate(cluster.slowdowns):
            base, *others = program_cells(one, speed)
            table.add_row(
                *_format_values(setting), f"{factor:g}", base, _format_program_ratio(one, results[0], speed), *others
            )
    out = Terminal()
    where = f"{escape(cluster.machine.name)}, {counted(cluster.nodes, 'node')}"
    out.print(f"\n[bold]{escape(command)}[/bold] on {where}")
    out.print(table)
    if sentence := scatter_sentence(results[0]):
        out.print(f"[dim]{sentence}[/dim]")


def program_sweep_as_dict(settings: Sequence[SweepSetting], results: Sequence[RepeatedReplay]) -> dict[str, Any]:
    """Returns the results of a program for --json."""
    return {"sweep": [{"values": dict(setting)} | as_dict(one) for setting, one in zip(settings, results, strict=True)]}


def _format_program_ratio(replay: RepeatedReplay, base_replay: RepeatedReplay, speed: int) -> str:
    """Returns the ratio of the base policy's times as text, with its interval if there are several replays."""
    if not replay.has_intervals or replay is base_replay:
        return _format_ratio(replay.time_ns()[0][speed], base_replay.time_ns()[0][speed])
    ratio = ratio_of_estimates(base_replay.estimate_time(0, speed), replay.estimate_time(0, speed))
    return format_ratio_range(ratio) if ratio else "-"


def _key_columns(settings: Sequence[SweepSetting]) -> list[Column]:
    return [Column(key, key=True, right=True) for key, _ in settings[0]]


def _format_values(setting: SweepSetting) -> list[str]:
    return [_format_value(key, value) for key, value in setting]


def _format_value(key: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    return format_bytes(value) if key.endswith("_bytes") else f"{value:g}"


def _format_ratio(time_ns: float, first_ns: float) -> str:
    return f"{time_ns / first_ns:.3g}" if first_ns else "-"
