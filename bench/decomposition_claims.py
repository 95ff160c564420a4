"""How near do plans come to what the study of the T3E and the Origin 2000 measured of splits of 256^3 (S3.5)?

A plan foresees the exchange, the study timed the application, and does not say how long its sweep takes. So three
numbers stand beside the study's: the ratio of the exchanges; the sweep per cell that would turn it into the study's
ratio (if the model were right, it would be the same in every row of a machine); and the application's ratio with the
sweep that the first row of its machine needs. That sweep is fitted, here only; no plan uses it.

Who wins between 2-D and 3-D hangs on two readings of the study, which the options undo: that a cell's two doubles are
two arrays (--element 16 --arrays 1: side by side, they share a line and 3-D wins), and that a load slows only messages
as long as those it was measured on (--load 1.5: all messages; then 3-D wins, too).

Criterion: the winners are the study's.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

from support import console, finish, new_table, parser, verdict

from nearfield._native import Plan
from nearfield.machine import load_machine
from nearfield.plan import costs_of_machine, find_plans

GRID = (256, 256, 256)


@dataclass(frozen=True)
class Claim:
    """How many times as long as `winner` the application took with `loser`."""

    machine: str
    mode: str
    loser: str
    winner: str
    paper: float


CLAIMS = [
    Claim("t3e-900", "buffered", "z", "x", 2.0),
    Claim("t3e-900", "synchronous", "z", "x", 1.6),
    Claim("t3e-900", "buffered", "1-D", "2-D", 1.15),
    Claim("t3e-900", "buffered", "3-D", "2-D", 1.05),
    Claim("origin-2000", "two-threads", "z", "x", 1.3),
    Claim("origin-2000", "two-threads", "1-D", "2-D", 1.22),
    Claim("origin-2000", "two-threads", "3-D", "2-D", 1.08),
]


def main(options: argparse.Namespace) -> dict[str, Any]:
    cells = GRID[0] * GRID[1] * GRID[2] / options.ranks
    table = new_table(
        f"{options.ranks} ranks, {options.element} bytes an element",
        "machine, mode, split", "loser ms, winner ms, exchange, paper, sweep needed ns/cell, application",
    )  # fmt: skip
    rows, fitted = [], {}
    for claim in CLAIMS:
        loser, winner = (split_ns(claim, name, options) for name in (claim.loser, claim.winner))
        needed = (loser - claim.paper * winner) / (claim.paper - 1)
        sweep = fitted.setdefault(claim.machine, needed)
        application = (sweep + loser) / (sweep + winner)
        rows.append({**vars(claim), "loser_ns": loser, "winner_ns": winner, "sweep_ns_per_cell": needed / cells})
        numbers = (loser / 1e6, winner / 1e6, loser / winner, claim.paper, needed / cells, application)
        table.add_row(
            claim.machine, claim.mode, f"{claim.winner} over {claim.loser}", *(f"{number:.2f}" for number in numbers)
        )
    console.print(table)
    met = all(row["loser_ns"] > row["winner_ns"] for row in rows)
    verdict(met, "the study's winners win" if met else "a loser of the study wins")
    return {"claims": rows, "met": met}


def split_ns(claim: Claim, name: str, options: argparse.Namespace) -> float:
    """Returns an exchange of the best split of this name: along x or z alone, or of that many dimensions."""
    machine = load_machine(claim.machine)
    per_node = int(machine.communication.ranks_per_node.value)
    costs = costs_of_machine(machine, claim.mode)
    if options.load is not None:
        costs.network.load_factor = costs.same_node.load_factor = options.load
        costs.network.load_from_bytes = costs.same_node.load_from_bytes = 0
    listed = find_plans(GRID, options.ranks, costs, ranks_per_node=per_node, element_bytes=options.element)
    return options.arrays * min(plan.time_ns for plan in listed if name in names(plan))


def names(plan: Plan) -> set[str]:
    cut = [axis for axis, ranks in zip("xyz", plan.dims, strict=True) if ranks > 1]
    return {f"{len(cut)}-D", "".join(cut)}


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--ranks", type=int, default=32)
    made.add_argument("--element", type=int, default=8, help="bytes that lie side by side (default %(default)s)")
    made.add_argument("--arrays", type=int, default=2, help="arrays exchanged, a message each (default %(default)s)")
    made.add_argument("--load", type=float, help="factor by which the bytes of all messages take longer")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
