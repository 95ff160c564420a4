"""`nearfield plan`: says how to split a grid over ranks and nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nearfield._native import Costs, Face, Plan
from nearfield.cli import complete
from nearfield.errors import UsageError
from nearfield.machine import load_machine
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.costs import message_records
from nearfield.measure.sim.pool import cores
from nearfield.measure.sim.store import Listener
from nearfield.plan import Known, default, described, measured, simulated, splits
from nearfield.plan.words import (
    against_best,
    costs_text,
    faces_text,
    one_per_split,
    runs_text,
    share_text,
    split_text,
    uneven,
    verdict,
)
from nearfield.profile import load
from nearfield.terminal import Column, Table, Terminal, print_csv
from nearfield.units import counted, format_ns, parse_bytes

LEGEND = (
    "time: of an exchange, on the slowest rank. node: ranks of one node. box: cells of that rank. faces: what it waits "
    "for, per dimension.\npieces: the shortest contiguous ones of a face. The last dimension is contiguous (C order)."
)


def command(
    grid: Annotated[str, typer.Argument(metavar="GRID", help="Cells: 256x256x256, slowest dimension first (C order).")],
    ranks: Annotated[int, typer.Option("--ranks", "-n", min=1, help="How many ranks share the grid.")],
    ranks_per_node: Annotated[
        int | None, typer.Option(min=1, help="How many of them are on one node; all, if absent.", show_default=False)
    ] = None,
    halo: Annotated[int, typer.Option(min=0, help="Cells that a rank reads beyond its own, on every side.")] = 1,
    periodic: Annotated[bool, typer.Option("--periodic", help="Opposite edges of the grid are neighbours.")] = False,
    corners: Annotated[bool, typer.Option("--corners", help="Diagonal neighbours are read, too.")] = False,
    element: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of a cell.")] = "8",
    dims: Annotated[
        str | None,
        typer.Option(metavar="AxBxC", help="Your own split, or a part of it: 4x0x1, 0 is free.", show_default=False),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Costs from this profile's records.", show_default=False)
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.toml",
            help="Costs of a described machine: t3e-900.",
            show_default=False,
            autocompletion=complete.machines,
        ),
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="How that machine sends; its usual way if absent.", show_default=False)
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Ranks of a node send messages, too, instead of reading in place.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="How many splits to show.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, all plans, and nothing else.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all plans as CSV and nothing else.")] = False,
) -> None:
    """Say how to split a grid over ranks: every split with the time of its exchange, best first.

    A cube of boxes has the least surface, but cuts across rows, so that faces consist of single cells far apart; slabs
    have contiguous faces, but large ones. Which is better depends on the costs of messages, bytes and strides. These
    come from a profile, from a described machine (its [communication], else simulated once and kept), or from
    defaults; the first line says which. A plan predicts exchanges but not the sweep between them, and assumes that the
    messages of a rank follow one another.

    Examples:

      nearfield plan 512x512x512 --ranks 64 --ranks-per-node 16

      nearfield plan 256x256x256 -n 32 --on t3e-900 --mode synchronous

      nearfield plan 4096x4096 -n 48 --halo 2 --corners --profile nearfield-profile --dims 8x6
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv are two formats", "Give one of them.")
    extents = counts(grid, "grid")
    known = costs_known(profile, on, mode, messages)
    per_node = full_nodes(ranks, ranks_per_node, known)
    ask = partial(
        splits, extents, ranks, known.costs, ranks_per_node=per_node, halo=halo,
        periodic=periodic, corners=corners, element_bytes=parse_bytes(element),
    )  # fmt: skip
    plans = ask(dims=counts(dims, "split", least=0) if dims else None)
    if as_json:
        print(json.dumps(as_dict(known, plans, len(extents)), indent=1))
        return
    if as_csv:
        print_csv([plan_row(plan, len(extents)) for plan in plans])
        return
    notes = [*known.notes, *unequal(plans[0], extents, ranks)]
    if dims:
        notes.append(against_best(plans[0], ask()[0], len(extents)))
    show(known, plans, notes, len(extents), top)


def counts(text: str, what: str, least: int = 1) -> list[int]:
    """Returns '8x4x1' as numbers, one to three of them. Raises UsageError otherwise."""
    words = text.lower().split("x")
    if not (1 <= len(words) <= 3 and all(word.isdecimal() and int(word) >= least for word in words)):
        raise UsageError(f"'{text}' is no {what}", "Write one to three whole numbers: 256x256x256.")
    return [int(word) for word in words]


def full_nodes(ranks: int, wanted: int | None, known: Known) -> int | None:
    """Returns how many ranks a node has, so that all nodes are full, since only these are planned; None if all ranks
    are on one node. Where the machine's number leaves a node partly empty, the next smaller one is taken, and a note
    is added to `known`. Raises UsageError if the wanted number leaves one partly empty."""
    per_node = wanted or known.ranks_per_node
    if per_node is None or per_node >= ranks or ranks % per_node == 0:
        return per_node
    full = max(number for number in range(1, per_node) if ranks % number == 0)
    problem = f"{ranks} ranks do not fill nodes of {per_node}"
    if wanted:
        raise UsageError(f"{problem}, and only full nodes are planned", f"Give a number that divides {ranks}: {full}.")
    known.notes.append(f"{problem}, so that {full} are planned on each.")
    return full


def costs_known(profile: Path | None, on: str | None, mode: str | None, messages: bool) -> Known:
    """Returns the costs from the one source that the options name; the defaults if they name none."""
    if profile is not None and on is not None:
        raise UsageError("--profile and --on name two machines", "Give one of them.")
    if mode is not None and on is None:
        raise UsageError("--mode is of a described machine", "Name it: --on t3e-900.")
    known = costs_on(on, mode) if on is not None else measured(load(profile)) if profile is not None else default()
    if messages:
        known.costs.in_place = None
    return known


def costs_on(name: str, mode: str | None) -> Known:
    """Returns the costs that a described machine's file states, else simulated ones."""
    machine = load_machine(name)
    if machine.communication or mode is not None or not machine.simulable:
        return described(machine, mode)
    listener = Telling(f"simulating what messages cost on {machine.name}, once")
    return simulated(machine, message_records(machine, cores(), listener))


class Telling(Listener):
    """Tells the user once that simulating takes a while, and shows how far it is."""

    def __init__(self, what: str) -> None:
        self._what = what

    def plan(self, cases: list[Case], kept: int) -> None:
        print(f"{self._what}: {counted(len(cases), 'case')}, {cores()} at a time", file=sys.stderr)


def unequal(best: Plan, extents: list[int], ranks: int) -> list[str]:
    """Returns a sentence about boxes of different sizes; nothing if all are equal."""
    factor = uneven(best, extents, ranks)
    return [f"Its boxes are not equal: the slowest rank has {factor:.2f}x of the mean cells."] if factor else []


def show(known: Known, plans: list[Plan], notes: list[str], dimensions: int, top: int) -> None:
    """Prints the costs, the best `top` splits, the notes and the verdict."""
    console = Terminal()
    console.print(f"costs of {escape(known.origin)}\n{escape(costs_text(known.costs))}\n")
    listed = one_per_split(plans)
    console.print(draw(listed[:top], dimensions))
    console.print(f"[dim]{LEGEND}[/dim]")
    if len(listed) > top:
        console.print(f"[dim]{len(listed) - top} more splits: --top {len(listed)}[/dim]")
    for note in notes:
        console.print(f"[yellow]![/yellow] {escape(note)}")
    console.print(f"[bold]{escape(verdict(plans, dimensions))}[/bold]")


def draw(plans: list[Plan], dimensions: int) -> Table:
    """Returns a table with a row for each plan, the best one first."""
    times = (Column(name, right=True) for name in ("time", "latency", "bytes", "strides"))
    table = Table(Column("split", key=True), *map(Column, ("node", "box")), *times, *map(Column, ("faces", "pieces")))
    for number, plan in enumerate(plans):
        shares = (share_text(p, plan) for p in (plan.parts.latency_ns, plan.parts.bytes_ns, plan.parts.strided_ns))
        places = (split_text(counts, dimensions) for counts in (plan.dims, plan.node_dims, plan.box))
        style = "bold green" if number == 0 else ""
        texts = (*places, format_ns(plan.time_ns), *shares, faces_text(plan, dimensions), runs_text(plan))
        table.add_row(*texts, style=style)
    return table


def as_dict(known: Known, plans: list[Plan], dimensions: int) -> dict[str, Any]:
    """Returns what --json prints."""
    return {
        "origin": known.origin,
        "notes": known.notes,
        "costs": costs_dict(known.costs),
        "verdict": verdict(plans, dimensions),
        "plans": [plan_dict(plan, dimensions) for plan in plans],
    }


def costs_dict(costs: Costs) -> dict[str, Any]:
    """Returns costs as plain data; None for what the machine does not have."""
    links = {"in_place": costs.in_place, "same_node": costs.same_node, "network": costs.network}
    return {name: _plain(link, _LINK) if link else None for name, link in links.items()}


_LINK = ("latency_ns", "ns_per_byte", "strided", "banked", "load_factor", "load_from_bytes")
_PARTS = ("latency_ns", "bytes_ns", "strided_ns")


def _plain(struct: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in names}


def plan_dict(plan: Plan, dimensions: int) -> dict[str, Any]:
    """Returns a plan as plain data."""
    return {
        "dims": plan.dims[-dimensions:],
        "node_dims": plan.node_dims[-dimensions:],
        "box": plan.box[-dimensions:],
        "time_ns": plan.time_ns,
        **_plain(plan.parts, _PARTS),
        "messages": plan.messages,
        "network_messages": plan.network_messages,
        "faces": [face_dict(face) for face in plan.faces[-dimensions:]],
    }


def plan_row(plan: Plan, dimensions: int) -> dict[str, Any]:
    """Returns a plan as a row of --csv: the numbers of `plan_dict` without those of single faces."""
    names = {"split": "dims", "node": "node_dims", "box": "box"}
    found = plan_dict(plan, dimensions)
    splits = {name: "x".join(map(str, found.pop(key))) for name, key in names.items()}
    found.pop("faces")
    return splits | found


def face_dict(face: Face) -> dict[str, int]:
    """Returns the messages of one dimension as plain data."""
    return {"messages": face.messages, **_plain(face.message, ("bytes", "run_bytes", "stride_bytes"))}
