"""Formats plans of grid splits, as human-readable tables, rows for --csv and data for --json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.markup import escape

from nearfield._native import Costs, Face, Plan
from nearfield.base.units import format_ns
from nearfield.plan import CostModel
from nearfield.plan.words import (
    costs_text,
    faces_text,
    fastest_plan_per_split,
    load_imbalance,
    runs_text,
    share_text,
    split_text,
    verdict_text,
)
from nearfield.ui.terminal import Column, Table, Terminal

LEGEND = (
    "time: of an exchange, on the slowest rank. node: ranks of one node. box: cells of that rank. faces: its waiting "
    "time "
    "for, per dimension.\npieces: the shortest contiguous ones of a face. The last dimension is contiguous (C order)."
)


def unequal_boxes_note(best: Plan, extents: list[int], ranks: int) -> list[str]:
    """Returns a list with a sentence about boxes of unequal size; [] if all boxes are equal."""
    factor = load_imbalance(best, extents, ranks)
    return [f"Its boxes are not equal: the slowest rank has {factor:.2f}x of the mean cells."] if factor else []


def print_plans(costs: CostModel, plans: list[Plan], notes: list[str], dimensions: int, top: int) -> None:
    """Prints the costs, the best `top` splits, the notes and the verdict."""
    console = Terminal()
    console.print(f"costs of {escape(costs.origin)}\n{escape(costs_text(costs.costs))}\n")
    listed = fastest_plan_per_split(plans)
    console.print(plans_table(listed[:top], dimensions))
    console.print(f"[dim]{LEGEND}[/dim]")
    if len(listed) > top:
        console.print(f"[dim]{len(listed) - top} more splits: --top {len(listed)}[/dim]")
    for note in notes:
        console.print(f"[yellow]![/yellow] {escape(note)}")
    console.print(f"[bold]{escape(verdict_text(plans, dimensions))}[/bold]")


def plans_table(plans: list[Plan], dimensions: int) -> Table:
    """Returns a table with a row for each plan, best first."""
    times = (Column(name, right=True) for name in ("time", "latency", "bytes", "strides"))
    table = Table(Column("split", key=True), *map(Column, ("node", "box")), *times, *map(Column, ("faces", "pieces")))
    for number, plan in enumerate(plans):
        shares = (share_text(p, plan) for p in (plan.parts.latency_ns, plan.parts.bytes_ns, plan.parts.strided_ns))
        places = (split_text(counts, dimensions) for counts in (plan.dims, plan.node_dims, plan.box))
        style = "bold green" if number == 0 else ""
        texts = (*places, format_ns(plan.time_ns), *shares, faces_text(plan, dimensions), runs_text(plan))
        table.add_row(*texts, style=style)
    return table


def as_dict(costs: CostModel, plans: list[Plan], dimensions: int) -> dict[str, Any]:
    """Returns the plans for --json."""
    return {
        "origin": costs.origin,
        "notes": costs.notes,
        "costs": costs_dict(costs.costs),
        "verdict": verdict_text(plans, dimensions),
        "plans": [plan_dict(plan, dimensions) for plan in plans],
    }


def costs_dict(costs: Costs) -> dict[str, Any]:
    """Converts message costs to plain data; None for a link that the machine does not have."""
    links = {"in_place": costs.in_place, "same_node": costs.same_node, "network": costs.network}
    return {name: _struct_to_dict(link, _LINK_FIELDS) if link else None for name, link in links.items()}


_LINK_FIELDS = ("latency_ns", "ns_per_byte", "strided", "banked", "load_factor", "load_from_bytes")
_PARTS_FIELDS = ("latency_ns", "bytes_ns", "strided_ns")


def _struct_to_dict(struct: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in names}


def plan_dict(plan: Plan, dimensions: int) -> dict[str, Any]:
    """Converts a plan to plain data."""
    return {
        "dims": plan.dims[-dimensions:],
        "node_dims": plan.node_dims[-dimensions:],
        "box": plan.box[-dimensions:],
        "time_ns": plan.time_ns,
        **_struct_to_dict(plan.parts, _PARTS_FIELDS),
        "messages": plan.messages,
        "network_messages": plan.network_messages,
        "faces": [face_dict(face) for face in plan.faces[-dimensions:]],
    }


def plan_row(plan: Plan, dimensions: int) -> dict[str, Any]:
    """Returns a plan as a row for --csv: the numbers of `plan_dict`, without those of individual faces."""
    names = {"split": "dims", "node": "node_dims", "box": "box"}
    found = plan_dict(plan, dimensions)
    splits = {name: "x".join(map(str, found.pop(key))) for name, key in names.items()}
    found.pop("faces")
    return splits | found


def face_dict(face: Face) -> dict[str, int]:
    """Converts the messages in one dimension to plain data."""
    return {"messages": face.messages, **_struct_to_dict(face.message, ("bytes", "run_bytes", "stride_bytes"))}
