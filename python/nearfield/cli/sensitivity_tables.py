"""Formats the results of `nearfield simulate --sensitivity`: tables, rows for --csv, and data for --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from nearfield.base.units import counted, format_bytes, format_ns
from nearfield.base.words import join_and
from nearfield.machine import DescribedMachine
from nearfield.machine.uncertainty import USUAL_FACTOR, Uncertainty
from nearfield.measure.sim.sensitivity import Range, Sensitive, Sensitivity
from nearfield.ui.terminal import Column, Table, Terminal

MAX_ROWS = 10
MIN_FACTOR, MIN_POINTS = 1.01, 0.5  # a variation that changes less is in no table


def show(machine: DescribedMachine, found: Sensitivity, uncertainty: Uncertainty) -> None:
    """Prints the results with error bars, the values that matter most, and what was assumed."""
    out = Terminal()
    if not found.cases:
        return
    out.print(f"{escape(machine.name)}: {counted(len(uncertainty.variations), 'variation')}, each of one value")
    out.print(_results(found.cases))
    matter = [one for one in found.influences if one.time_factor > MIN_FACTOR or one.time_factor < 1 / MIN_FACTOR
              or one.saved_points > MIN_POINTS]  # fmt: skip
    table = Table(Column("value", key=True), *(Column(name, right=True) for name in ("is", "may be", "time", "saved")))
    for one in matter[:MAX_ROWS]:
        changed = one.variation
        moved = f"{one.saved_points:.1f} points"
        table.add_row(changed.key, f"{changed.value:g}", f"{changed.other:g}", f"{one.time_factor:.2f}x", moved)
    if matter:
        out.print(table)
    out.print(
        "[dim]in brackets: the deviations of the single values, added in quadrature; time and saved: the largest "
        f"change of any case. A chosen value without an interval may be {1 / USUAL_FACTOR:g} to {USUAL_FACTOR:g} times "
        "as large: an assumption[/dim]"
    )
    if uncertainty.fixed:
        out.print(f"[dim]not varied, since other values would contradict: {join_and(list(uncertainty.fixed))}[/dim]")


def _results(cases: Sequence[Sensitive]) -> Table:
    policies = list(dict.fromkeys(name for one in cases for name in one.saved))
    keys = [Column(name, key=True, right=name != "operation") for name in ("operation", "nodes", "bytes", "slowdown")]
    table = Table(*keys, *(Column(name, right=True) for name in ("memory", *policies)))
    for one in cases:
        case = one.savings
        times = [format_ns(value) for value in (one.base_ns.value, one.base_ns.low, one.base_ns.high)]
        cells = [_saved(one.saved[name]) if name in one.saved else "-" for name in policies]
        table.add_row(
            case.operation, str(case.nodes), format_bytes(case.size_bytes), f"{case.slowdown:g}",
            "{} ({} to {})".format(*times), *cells,
        )  # fmt: skip
    return table


def _saved(share: Range) -> str:
    text = f"{100 * share.value:+.1f} % ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
    colour = "green" if share.low > 0 else "red" if share.high < 0 else "dim"
    return f"[{colour}]{text}[/{colour}]"


def rows(cases: Sequence[Sensitive]) -> list[dict[str, Any]]:
    """Returns a row for each case and policy: the base's time in ns and the saved share of it, with their limits."""
    return [
        {
            "operation": one.savings.operation, "nodes": one.savings.nodes, "ranks": one.savings.ranks,
            "size_bytes": one.savings.size_bytes, "memory_slowdown": one.savings.slowdown,
            "base_ns": one.base_ns.value, "base_low_ns": one.base_ns.low, "base_high_ns": one.base_ns.high,
            "policy": name, "saved": share.value, "saved_low": share.low, "saved_high": share.high,
        }
        for one in cases
        for name, share in (one.saved or {"memory": Range(0.0, 0.0, 0.0)}).items()
    ]  # fmt: skip


def as_dict(
    machine: DescribedMachine, found: Sensitivity, uncertainty: Uncertainty, is_complete: bool
) -> dict[str, Any]:
    """Returns what --json prints."""
    return {
        "machine": machine.name,
        "complete": is_complete,
        "cases": rows(found.cases),
        "influences": [
            {**asdict(one.variation), "time_factor": one.time_factor, "saved_points": one.saved_points}
            for one in found.influences
        ],
        "not_varied": list(uncertainty.fixed),
    }
