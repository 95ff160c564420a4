"""`nearfield plan`: ranks the possible splits of a grid over ranks and nodes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearfield.base.errors import UsageError
from nearfield.base.units import parse_bytes
from nearfield.cli.options import AsCsv, machine_option, profile_option, require_single_format
from nearfield.ui.terminal import print_csv

if TYPE_CHECKING:
    from nearfield.plan import CostModel


def command(
    grid: Annotated[str, typer.Argument(metavar="GRID", help="Cells: 256x256x256, slowest dimension first (C order).")],
    ranks: Annotated[int, typer.Option("--ranks", "-n", min=1, help="How many ranks share the grid.")],
    ranks_per_node: Annotated[
        int | None, typer.Option(min=1, help="Number of ranks on one node (default: all).", show_default=False)
    ] = None,
    halo: Annotated[int, typer.Option(min=0, help="Cells that a rank reads beyond its own, on every side.")] = 1,
    periodic: Annotated[bool, typer.Option("--periodic", help="Opposite edges of the grid are neighbours.")] = False,
    corners: Annotated[bool, typer.Option("--corners", help="Diagonal neighbours are read, too.")] = False,
    element: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of a cell.")] = "8",
    dims: Annotated[
        str | None,
        typer.Option(
            metavar="AxBxC", help="Your own split, or a part of it: 4x0x1, where 0 is free.", show_default=False
        ),
    ] = None,
    profile: Annotated[Path | None, profile_option(help="Costs from this profile's records.")] = None,
    on: Annotated[str | None, machine_option(help="Costs of a described machine: t3e-900.")] = None,
    mode: Annotated[
        str | None, typer.Option(help="How that machine sends (default: its usual way).", show_default=False)
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Ranks of a node also send messages, instead of reading in place.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="How many splits to show.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, all plans, and nothing else.")] = False,
    as_csv: AsCsv = False,
) -> None:
    """Rank the ways to split a grid over ranks: every split with the time of its exchange, best first.

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
    from nearfield.cli import plan_tables as tables
    from nearfield.cli.plan_costs import load_message_costs
    from nearfield.plan import find_plans
    from nearfield.plan.words import comparison_with_best

    require_single_format(as_json, as_csv)
    extents = parse_extents(grid, "grid")
    known = load_message_costs(profile, on, mode, messages)
    per_node = full_nodes(ranks, ranks_per_node, known)
    make_plans = partial(
        find_plans, extents, ranks, known.costs, ranks_per_node=per_node, halo=halo,
        periodic=periodic, corners=corners, element_bytes=parse_bytes(element),
    )  # fmt: skip
    plans = make_plans(dims=parse_extents(dims, "split", minimum=0) if dims else None)
    if as_json:
        print(json.dumps(tables.as_dict(known, plans, len(extents)), indent=1))
        return
    if as_csv:
        print_csv([tables.plan_row(plan, len(extents)) for plan in plans])
        return
    notes = [*known.notes, *tables.unequal_boxes_note(plans[0], extents, ranks)]
    if dims:
        notes.append(comparison_with_best(plans[0], make_plans()[0], len(extents)))
    tables.print_plans(known, plans, notes, len(extents), top)


def parse_extents(text: str, value_name: str, minimum: int = 1) -> list[int]:
    """Parses '8x4x1' to a list of one to three numbers. Raises UsageError for anything else."""
    words = text.lower().split("x")
    if not (1 <= len(words) <= 3 and all(word.isdecimal() and int(word) >= minimum for word in words)):
        raise UsageError(f"'{text}' is no {value_name}", "Write one to three whole numbers: 256x256x256.")
    return [int(word) for word in words]


def full_nodes(ranks: int, num_ranks: int | None, costs: CostModel) -> int | None:
    """Returns the number of ranks per node, which must divide `ranks`, because only full nodes are planned. None, or a
    number from `ranks` on, means that all ranks are on one node. If the machine's number does not divide `ranks`, uses
    the next smaller divisor and adds a note to `costs`. Raises UsageError if the wanted number does not divide
    `ranks`."""
    per_node = num_ranks or costs.ranks_per_node
    if per_node is None or per_node >= ranks or ranks % per_node == 0:
        return per_node
    full = max(number for number in range(1, per_node) if ranks % number == 0)
    problem = f"{ranks} ranks do not fill nodes of {per_node}"
    if num_ranks:
        raise UsageError(f"{problem}, and only full nodes are planned", f"Give a number that divides {ranks}: {full}.")
    costs.notes.append(f"{problem}, so that {full} are planned on each.")
    return full
