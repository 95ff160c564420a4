"""How much faster does `nearfield tune` make messages, and is any size slower?

For every MPI: tunes with the default budget (or takes --rules or --settings), then starts an ordinary ping-pong program
(pingpong.c, built with that MPI's own mpicc) as it is and as `nearfield run` does, in turn, on the same two cores.
Ratios are of launches of one round. Under Intel MPI its own shared heap (I_MPI_SHM_HEAP=1) takes its turn, too.

The limits are geometric means over sizes in steps of four, tuned over stock:

  same   one buffer both ways: Open MPI at least 3.3 from 4 KiB to 16 MiB, MPICH 5 at least 3.0 from 16 KiB; Intel MPI
         at least what its own shared heap gives; in rounds in which a flag takes 200 ns or more, at least 4 from 64 KiB
         to 1 MiB
  use    written, sent, received elsewhere and read, all timed: at least 1.5 from 16 KiB to 4 MiB

and under every MPI no size from 1 B up below 0.97 of stock (by more than the interval) in either.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table
from support.compare import (
    FAR_NS,
    NEVER_BELOW,
    Case,
    Criterion,
    Times,
    Turns,
    at_least,
    gains_json,
    in_turn,
    none_below,
    report_criteria,
    slower,
)
from support.launches import (
    STOCK,
    Place,
    Tuned,
    Way,
    choose_mpis,
    load_or_tune,
    options_for,
    pingpong_for,
    place,
)

from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain
from nearfield.base.units import format_bytes
from nearfield.mpi import Installation

SIZES = (1, 16 << 20)
MODES = ("same", "use")
LIMITS = {"openmpi": (3.3, 4 << 10), "mpich": (3.0, 16 << 10)}
USE_LIMIT = (1.5, 16 << 10, 4 << 20)
FAR_LIMIT = (4.0, 64 << 10, 1 << 20)
OWN_HEAP = "its own heap"


def main(options: argparse.Namespace) -> dict[str, Any]:
    results, criteria = [], []
    with TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        for inst in choose_mpis(options):
            folder = options.keep or Path(scratch)
            limits = {"budget_s": options.budget, "never_below": options.never_below, "reuse": options.reuse}
            if not (setting := load_or_tune(inst, options, folder, **limits)):
                continue
            try:
                turns = measure(inst, setting, options, Path(scratch))
            except MeasurementError as error:
                console.print(f"{inst.name}: {error.message}\n{error.remedy}", style="red", markup=False)
                criteria.append(Criterion(f"{inst.name}: a launch fails", False))
                continue
            criteria += (mine := criteria_of(inst, turns))
            numbers = {mode: {"gains": gains_json(one.gains()), **one.as_json()} for mode, one in turns.items()}
            shown = [one._asdict() for one in mine]
            results.append({"mpi": inst.name, "setting": setting.words, "bars": shown, "modes": numbers})
    return {"met": report_criteria(criteria), "mpis": results}


def measure(inst: Installation, setting: Tuned, options: argparse.Namespace, scratch: Path) -> dict[str, Turns]:
    """By mode."""
    program = pingpong_for(inst, scratch)
    here = place(inst, options, setting.knobs)
    ways = {"stock": STOCK, "tuned": setting.way}
    if inst.family == "intel":
        ways[OWN_HEAP] = Way(environment={"I_MPI_SHM_HEAP": "1"})
    found = {}
    for mode in MODES:
        argv = [str(program), *map(str, SIZES), str(options.steps), mode]
        contestants = {name: lambda argv=argv, way=way: parsed(here, argv, way) for name, way in ways.items()}
        found[mode] = in_turn(contestants, options.rounds, here.cpus, f"{inst.name}, {mode}")
        print_table(f"ping-pong under {inst.name}, {mode}", found[mode])
        console.print(f"  {found[mode].flag_text()}; {setting.words}\n", markup=False)
    return found


def parsed(here: Place, argv: list[str], way: Way) -> Times:
    rows = [line.split() for line in here.launch(argv, way).splitlines()]
    return {(row[0], int(row[1])): float(row[2]) for row in rows if len(row) == 3 and row[0] in MODES}


def criteria_of(inst: Installation, turns: dict[str, Turns]) -> list[Criterion]:
    """MPICHs that UCX carries have no limit but not to be slower."""
    same, use = turns["same"], turns["use"]
    criteria = []
    if inst.family in LIMITS and not (inst.family == "mpich" and inst.version < "5"):
        limit, first = LIMITS[inst.family]
        criteria.append(gain_criterion(limit, same.gains(), first, SIZES[1], f"{inst.name}, same"))
        criteria.append(gain_criterion(USE_LIMIT[0], use.gains(), *USE_LIMIT[1:], f"{inst.name}, use"))
        far = f"{inst.name}, same, in rounds with a flag of {FAR_NS:.0f} ns or more"
        criteria.append(gain_criterion(FAR_LIMIT[0], same.gains(flag_from=FAR_NS), *FAR_LIMIT[1:], far))
    if OWN_HEAP in same.times:
        over_own_heap = same.gains(over=OWN_HEAP)
        criteria.append(
            gain_criterion(NEVER_BELOW, over_own_heap, 4 << 10, SIZES[1], f"{inst.name} over its own heap, same")
        )
    return [*criteria, none_below({**same.gains(), **use.gains()}, inst.name)]


def gain_criterion(limit: float, gains: dict[Case, Gain], first: int, last: int, what: str) -> Criterion:
    steps = [first << power for power in range(0, 25, 2) if first << power <= last]
    there = [g for (_, size), g in gains.items() if size in steps]
    return at_least(limit, there, f"{what}, {format_bytes(first)} to {format_bytes(last)}")


def print_table(title: str, turns: Turns) -> None:
    others = {name: turns.gains(name) for name in turns.times if name not in ("stock", "tuned")}
    columns = ["stock GB/s", "tuned GB/s", "gain", "interval", *others]
    made = new_table(title, "size", ", ".join(columns))
    for case, g in turns.gains().items():
        rates = [f"{int(case[1]) / turns.middle(who, case):.3g}" for who in ("stock", "tuned")]
        more = [f"{gains_there[case].value:.2f}" for gains_there in others.values()]
        cells = [*rates, f"{g.value:.2f}", f"{g.low:.2f} to {g.high:.2f}", *more]
        made.add_row(format_bytes(int(case[1])), *cells, style="red" if slower(g) else None)
    console.print(made)


def parse() -> argparse.Namespace:
    made = options_for(__doc__)
    made.add_argument("--budget", type=float, default=180.0, help="seconds of tuning for each (default %(default)s)")
    made.add_argument("--never-below", type=float, default=NEVER_BELOW, help="as tune's; the limit is %(default)s")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the rules here")
    made.add_argument("--reuse", action="store_true", help="with --keep: do not tune where there are rules")
    made.add_argument("--steps", type=int, default=1, help="powers of two from size to size (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
