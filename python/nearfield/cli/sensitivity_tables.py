"""Formats the results of --sensitivity, as human-readable tables, rows for --csv and data for --json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from nearfield.base.units import counted, format_bytes, format_ns
from nearfield.base.words import join_and
from nearfield.cli.range_text import format_saving, format_time_range
from nearfield.machine import DescribedMachine
from nearfield.machine.uncertainty import ASSUMED_UNCERTAINTY_FACTOR, ErrorBar, Uncertainty, Variation
from nearfield.measure.sim.sensitivity import CaseSensitivity, OperationSensitivity
from nearfield.observe.sensitivity import ProgramSensitivity
from nearfield.simulate.sensitivity import TraceSensitivity
from nearfield.ui.terminal import Column, Table, Terminal

MAX_ROWS = 10
# min change of the time and of saved per cent points for a variation to be listed
MIN_TIME_FACTOR, MIN_SAVED_POINTS = 1.01, 0.5


def show(machine: DescribedMachine, sensitivity: OperationSensitivity, uncertainty: Uncertainty) -> None:
    """Prints the results of simulated collectives with error bars, the most influential values, and the assumptions."""
    if not sensitivity.cases:
        return
    out = Terminal()
    out.print(f"{escape(machine.name)}: {counted(len(uncertainty.variations), 'variation')}, each of one value")
    out.print(_results_table(sensitivity.cases))
    _print_influences((one.variation, one.time_factor, one.saved_points) for one in sensitivity.influences)
    _print_assumptions("time and saved: the largest change of any case", uncertainty.fixed_keys)


def print_trace_sensitivity(sensitivity: TraceSensitivity, slowdowns: Sequence[float]) -> None:
    """Prints the results of a simulated trace with error bars, the most influential values, and the assumptions."""
    out = Terminal()
    table = Table(Column("result", key=True), *(Column(name, right=True) for name in ("simulated", "from", "to")))
    rows: list[tuple[str, ErrorBar, Callable[[float], str]]] = [
        *(
            (f"time, memory slowdown {s:g}", one, format_ns)
            for s, one in zip(slowdowns, sensitivity.times_ns, strict=True)
        ),
        *((f"L{n} misses", one, _format_count) for n, one in enumerate(sensitivity.misses, 1)),
        ("DRAM bytes", sensitivity.dram_bytes, _format_bytes),
    ]
    for name, one, text in rows:
        table.add_row(name, *map(text, (one.value, one.low, one.high)))
    out.print()
    out.print(table)
    _print_influences((one, factor, None) for one, factor in sensitivity.influences)
    _print_assumptions("time: at the first memory speed", sensitivity.fixed_keys)


def print_program_sensitivity(sensitivity: ProgramSensitivity, slowdowns: Sequence[float]) -> None:
    """Prints the times of a simulated program with error bars, the most influential values, and the assumptions."""
    policies = [Column(name, right=True) for name in ("memory", *sensitivity.saved)]
    table = Table(Column("slowdown", key=True, right=True), *policies)
    for speed, slowdown in enumerate(slowdowns):
        table.add_row(
            f"{slowdown:g}",
            format_time_range(sensitivity.times_ns[speed]),
            *(format_saving(one[speed]) for one in sensitivity.saved.values()),
        )
    out = Terminal()
    out.print()
    out.print(table)
    _print_influences((one, factor, None) for one, factor in sensitivity.influences)
    _print_assumptions("time: under the base policy, at the first memory speed", sensitivity.fixed_keys)
    if sensitivity.num_undecided:
        what = counted(sensitivity.num_undecided, "variation")
        out.print(f"[dim]not in the table: {what} with changes of the time that are within its scatter[/dim]")


def _print_influences(influences: Iterable[tuple[Variation, float, float | None]]) -> None:
    """Prints the variations that change the results noticeably. Each influence is (variation, factor of the time,
    change of the saved fraction in per cent points)."""
    names = ["is", "may be", "time"]
    matter = [
        one
        for one in influences
        if not 1 / MIN_TIME_FACTOR <= one[1] <= MIN_TIME_FACTOR or (one[2] or 0.0) > MIN_SAVED_POINTS
    ]
    if not matter:
        return
    has_points = matter[0][2] is not None
    table = Table(Column("value", key=True), *(Column(n, right=True) for n in [*names, *["saved"] * has_points]))
    for one, factor, points in matter[:MAX_ROWS]:
        moved = [f"{points:.1f} points"] if points is not None else []
        table.add_row(one.key, f"{one.value:g}", f"{one.other:g}", f"{factor:.2f}x", *moved)
    Terminal().print(table)


def _print_assumptions(what: str, fixed: Sequence[str]) -> None:
    out = Terminal()
    out.print(
        f"[dim]limits: the deviations of the single values, added in quadrature; {what}. A chosen value without an "
        f"interval may be {1 / ASSUMED_UNCERTAINTY_FACTOR:g} to {ASSUMED_UNCERTAINTY_FACTOR:g} times as large: an "
        "assumption[/dim]"
    )
    if fixed:
        out.print(f"[dim]not varied, since other values would contradict: {join_and(list(fixed))}[/dim]")


def _format_bytes(value: float) -> str:
    return format_bytes(value, digits=3)


def _format_count(value: float) -> str:
    return f"{value:,.0f}"


def _results_table(cases: Sequence[CaseSensitivity]) -> Table:
    policies = list(dict.fromkeys(name for one in cases for name in one.saved))
    keys = [Column(name, key=True, right=name != "operation") for name in ("operation", "nodes", "bytes", "slowdown")]
    table = Table(*keys, *(Column(name, right=True) for name in ("memory", *policies)))
    for one in cases:
        case = one.savings
        cells = [format_saving(one.saved[name]) if name in one.saved else "-" for name in policies]
        table.add_row(
            case.operation, str(case.nodes), format_bytes(case.size_bytes), f"{case.slowdown:g}",
            format_time_range(one.base_ns), *cells,
        )  # fmt: skip
    return table


def rows(cases: Sequence[CaseSensitivity]) -> list[dict[str, Any]]:
    """Returns a row for each case and policy: the base policy's time in ns and the fraction of it saved, with their
    limits."""
    return [
        {
            "operation": one.savings.operation, "nodes": one.savings.nodes, "ranks": one.savings.ranks,
            "size_bytes": one.savings.size_bytes, "memory_slowdown": one.savings.slowdown,
            "base_ns": one.base_ns.value, "base_low_ns": one.base_ns.low, "base_high_ns": one.base_ns.high,
            "policy": name, "saved": share.value, "saved_low": share.low, "saved_high": share.high,
        }
        for one in cases
        for name, share in (one.saved or {"memory": ErrorBar(0.0, 0.0, 0.0)}).items()
    ]  # fmt: skip


def as_dict(
    machine: DescribedMachine, sensitivity: OperationSensitivity, uncertainty: Uncertainty, is_complete: bool
) -> dict[str, Any]:
    """Returns the results of collectives for --json."""
    return {
        "machine": machine.name,
        "complete": is_complete,
        "cases": rows(sensitivity.cases),
        "influences": [
            {**asdict(one.variation), "time_factor": one.time_factor, "saved_points": one.saved_points}
            for one in sensitivity.influences
        ],
        "not_varied": list(uncertainty.fixed_keys),
    }


def trace_as_dict(sensitivity: TraceSensitivity) -> dict[str, Any]:
    """Returns the results of a trace for --json, indexed by memory speed or cache level."""
    return {
        "times_ns": [asdict(one) for one in sensitivity.times_ns],
        "misses": [asdict(one) for one in sensitivity.misses],
        "dram_bytes": asdict(sensitivity.dram_bytes),
        "influences": [{**asdict(one), "time_factor": factor} for one, factor in sensitivity.influences],
        "not_varied": list(sensitivity.fixed_keys),
    }


def program_as_dict(sensitivity: ProgramSensitivity) -> dict[str, Any]:
    """Returns the results of a program for --json, indexed by memory speed."""
    return {
        "times_ns": [asdict(one) for one in sensitivity.times_ns],
        "saved": {name: [asdict(one) for one in ranges] for name, ranges in sensitivity.saved.items()},
        "influences": [{**asdict(one), "time_factor": factor} for one, factor in sensitivity.influences],
        "undecided_variations": sensitivity.num_undecided,
        "not_varied": list(sensitivity.fixed_keys),
    }
