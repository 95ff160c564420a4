"""What does tuning do for benchmarks that everybody knows, unmodified?

Runs the Intel MPI Benchmarks (IMB-MPI1: for MPICH and Intel MPI that of the impi-devel wheel, whose ABI they share; for
others as named by --imb MPI=FILE), NetPIPE (Debian's netpipe-openmpi) and HPCC (Debian's hpcc, or --hpcc FILE) as they
are and as `nearfield run` starts them, in turn, and prints how many times as fast they are. Rules come from --rules, a
file or a folder with a file MPI.toml for each, as `bench/tuned_gain.py --keep FOLDER` leaves them; settings from
--settings; without either, every MPI is tuned first.

Criteria: IMB from 4 KiB to 4 MiB in the geometric mean at least 1.8; HPCC's bandwidth in rings and ping-pong each at
least 3; and of everything, at no size, anything below 0.97 of stock (by more than the interval).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table
from support.compare import Case, Criterion, Times, Turns, gains_json, in_turn, report_criteria, slower
from support.launches import STOCK, Place, Tuned, Way, choose_mpis, load_or_tune, options_for, place
from support.programs import SIZES, Hpcc, Imb, NetPipe, Program

from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain
from nearfield.base.units import format_bytes
from nearfield.mpi import Installation

KINDS = ("imb", "netpipe", "hpcc")


def main(options: argparse.Namespace) -> dict[str, Any]:
    made = {"imb": Imb(options.imb), "netpipe": NetPipe(), "hpcc": Hpcc(options.hpcc, options.order)}
    results, criteria = [], []
    with TemporaryDirectory(prefix="nearfield-bench-") as name:
        scratch = Path(name)
        for inst in choose_mpis(options):
            programs = runnable(inst, [made[kind] for kind in options.only or KINDS])
            if not programs or not (setting := load_or_tune(inst, options, scratch)):
                continue
            for program in programs:
                where = f"{inst.name}, {program.name}"
                try:
                    here = place(inst, options, setting.knobs)
                    turns = measure(program, here, setting, options.rounds, scratch)
                except MeasurementError as error:
                    console.print(f"{where}: {error.message}\n{error.remedy}", style="red", markup=False)
                    criteria.append(Criterion(f"{where}: a launch fails", False))
                    continue
                criteria += (mine := program.criteria(turns, where))
                result = {"mpi": inst.name, "program": program.name, "setting": setting.words}
                result |= {"bars": [one._asdict() for one in mine], "gains": gains_json(turns.gains())}
                results.append(result | turns.as_json())
    return {"met": report_criteria(criteria), "results": results}


def runnable(inst: Installation, programs: list[Program]) -> list[Program]:
    found = []
    for program in programs:
        if reason := program.why_not(inst):
            console.print(f"{inst.name}: without {program.name}: {reason}", markup=False)
        else:
            found.append(program)
    return found


def measure(program: Program, here: Place, setting: Tuned, rounds: int, scratch: Path) -> Turns:
    def launches(way: Way) -> Callable[[], Times]:
        return lambda: program.run(here, way, scratch)

    contestants = {"stock": launches(STOCK), "tuned": launches(setting.way)}
    title = f"{program.name} under {here.inst.name}"
    turns = in_turn(contestants, rounds, here.cpus, title)
    gains = turns.gains()
    if all(isinstance(size, int) for _, size in gains):
        print_by_size(title, gains)
    else:
        print_one_by_one(title, gains)
    console.print(f"  {turns.flag_text()}; {setting.words}\n", markup=False)
    return turns


def print_by_size(title: str, gains: dict[Case, Gain]) -> None:
    sizes = sorted({int(size) for _, size in gains})
    shown = [size for size in sizes if size in SIZES] or sizes[:: max(1, len(sizes) // 12)]
    made = new_table(f"times as fast, {title}, tuned", "benchmark", ", ".join(map(format_bytes, shown)))
    for name in dict.fromkeys(name for name, _ in gains):
        made.add_row(name, *(cell(gains.get((name, size))) for size in shown))
    console.print(made)


def print_one_by_one(title: str, gains: dict[Case, Gain]) -> None:
    made = new_table(f"times as fast, {title}, tuned", "value", "gain, interval")
    for (name, _), g in gains.items():
        made.add_row(name, cell(g), f"{g.low:.2f} to {g.high:.2f}")
    console.print(made)


def cell(g: Gain | None) -> str:
    return "-" if g is None else f"[red]{g.value:.2f}[/]" if slower(g) else f"{g.value:.2f}"


def parse() -> argparse.Namespace:
    made = options_for(__doc__)
    made.add_argument("--imb", action="append", default=[], metavar="MPI=FILE", help="IMB-MPI1 of an MPI; repeatable")
    made.add_argument("--hpcc", type=Path, metavar="FILE", help="default: hpcc on PATH")
    made.add_argument("--order", type=int, default=4000, help="of HPCC's matrix (default %(default)s)")
    made.add_argument("--only", action="append", choices=KINDS, help="repeat for more (default: all)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
