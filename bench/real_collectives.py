"""What do real programs gain by the collectives of a node: in all, and inside their collectives?

    python bench/real_collectives.py --mpi openmpi-4.1.4 --programs FOLDERS [--only REGEX] [--rounds 7] [--busy 2]

Takes the programs of bench/real_programs.toml as bench/real_programs.py does. Each runs on two bound ranks, in two ways
in turn: as the MPI ships (stock), and with the collectives of a node preloaded, before the shared heap. In both ways
the thin profiling layer of `nearfield forecast` runs as well, and records the time that the ranks spend in collectives;
this includes the time that a rank waits there for the other one to arrive, which no collective can shorten.

With --busy, processes that never wait run beside the programs: is what is preloaded still no slower than the MPI then?

Criteria: the time in collectives falls by at least 1.5x, no program is below 0.99 of stock, and the results in the
output are the same in each run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from real_programs import CASE, Program, make_parser, programs, text
from support import console, finish, new_table
from support.compare import Criterion, Times, in_turn, report_criteria
from support.launches import Place, Way, choose_mpis, place

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain
from nearfield.forecast.ranks import CallCategory, read_ranks
from nearfield.forecast.recording import FOLDER_VARIABLE
from nearfield.rules import collectives
from nearfield.rules.knobs import find_knobs

COLLECTIVES = ("in collectives", "")
MIN_GAIN, MIN_WHOLE = 1.5, 0.99


def main(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what was found for each program."""
    (inst,) = choose_mpis(options)
    knobs = find_knobs(inst.family, inst.version, mpi.transport_or_reason(inst)[0])
    layer = str(mpi.build_target(inst, mpi.FORECAST_TARGET))
    below = collectives.collectives_variables(inst, os.environ)
    ways = {
        "stock": Way((), {"LD_PRELOAD": layer}),
        "collectives": Way((), {**below, "LD_PRELOAD": f"{layer} {below['LD_PRELOAD']}"}),
    }
    criteria: list[Criterion] = []
    found: dict[str, Any] = {}
    made = new_table(
        f"{inst.name}, on two ranks, beside {options.busy} busy processes",
        "program",
        "time in collectives, most of it, gain there, gain in all, same results",
    )
    with TemporaryDirectory(prefix="nearfield-bench-") as name, busy_processes(options.busy):
        here = place(inst, options, knobs)
        for program in programs(options, options.folder or Path(name)):
            results: set[str] = set()
            shares: list[float] = []
            by_name: dict[str, float] = defaultdict(float)
            runs = {way: partial(run, program, here, how, results, shares, by_name) for way, how in ways.items()}
            turns = in_turn(runs, options.rounds, here.cpus, program.name, takes=1)
            gains = turns.gains("collectives")
            within, whole = gains[COLLECTIVES], gains[CASE]
            longest = ", ".join(sorted(by_name, key=lambda name: -by_name[name])[:2])
            same = len(results) == 1
            found[program.name] = {"gain": whole.value, "within": within.value, "same": same, **turns.as_json()}
            made.add_row(
                program.name, f"{max(shares):.1%}", longest, text(within), text(whole), "yes" if same else "no"
            )
            criteria += [
                Criterion(f"{program.name}, in collectives: {text(within)}", at_least(within, MIN_GAIN)),
                Criterion(f"{program.name}, in all: {text(whole)}", at_least(whole, MIN_WHOLE)),
                Criterion(f"{program.name}: results {'are the same' if same else 'differ'}", same),
            ]
    console.print(made)
    return {"met": report_criteria(criteria), "programs": found, "bars": [one._asdict() for one in criteria]}


def run(
    program: Program, here: Place, way: Way, results: set[str], shares: list[float], by_name: dict[str, float]
) -> Times:
    """Returns the time of one run, and the time of both ranks in collectives, in seconds. Adds the share of the latter
    to `shares`, and each function's to `by_name`."""
    with TemporaryDirectory(prefix="nearfield-bench-") as folder:
        seconds = program.run(here, way.with_environment({FOLDER_VARIABLE: folder}), results)[CASE]
        ranks = read_ranks(Path(folder))
        if len(ranks) != 2:
            raise MeasurementError(f"{program.name}: the records of {len(ranks)} ranks, not of 2")
    calls = [call for rank in ranks for call in rank.call_groups if call.category is CallCategory.COLLECTIVE]
    for call in calls:
        by_name[call.name] += call.duration_s
    within = sum(call.duration_s for call in calls)
    shares.append(within / sum(rank.duration_s for rank in ranks))
    return {CASE: seconds, COLLECTIVES: within}


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """A context in which a number of processes run that never wait."""
    started = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def at_least(one: Gain, limit: float) -> bool | None:
    """Returns whether a ratio is at least the limit; None if the limit lies in its interval."""
    return True if one.low >= limit else False if one.high < limit else None


if __name__ == "__main__":
    command_line = make_parser(__doc__)
    command_line.add_argument("--busy", type=int, default=0, metavar="N", help="processes that never wait, beside it")
    sys.exit(finish(main, command_line.parse_args()))
