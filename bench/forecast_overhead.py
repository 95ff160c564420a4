"""What does the thin layer of `nearfield forecast` add to a program?

Two programs of bench/forecast_overhead.c, on two ranks, alone and under the layer in turn: `compute` works for a while
between two exchanges, as stencils do; `messages` exchanges 8 bytes and does nothing else, two calls a round, which is
the worst there is. Each launch gives the median of 51 means; each pair of launches a ratio, as in `nearfield compare`.

Criterion: the layer takes at most 1 % of `compute`, by the upper end of the interval, and at most 50 ns a call of
`messages`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from support import console, finish, new_table, parser, verdict
from support.launches import program_for

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import measure_alternately, paired_gain
from nearfield.forecast.recording import FOLDER_VARIABLE
from nearfield.mpi import Installation

LIMIT_SHARE, LIMIT_NS = 0.01, 50.0
CALLS = 2  # of a rank in a round of `messages`


def main(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what was found for each MPI."""
    results = []
    for inst in [mpi.choose_mpi(options.mpi)] if options.mpi else mpi.find_usable_mpis():
        with tempfile.TemporaryDirectory(prefix="nearfield-") as folder:
            results.append(measure(inst, Path(folder), options.pairs))
    table = new_table("time under the layer / time alone", "MPI, program", "ratio, interval, added ns a round")
    for result in results:
        for name in ("compute", "messages"):
            one = result[name]
            interval = f"{one['low']:.4f} to {one['high']:.4f}"
            table.add_row(result["mpi"], name, f"{one['value']:.4f}", interval, f"{one['added_ns']:.0f}")
    console.print(table)
    met = all(result["met"] for result in results)
    verdict(met, f"limit: {LIMIT_SHARE:.0%} of compute, {LIMIT_NS:.0f} ns a call of messages")
    return {"met": met, "mpis": results}


def measure(inst: Installation, folder: Path, pairs: int) -> dict[str, Any]:
    """Returns the ratios of both programs under one MPI, and whether they meet the limit."""
    program, layer = program_for(inst, "forecast_overhead", folder), mpi.build_target(inst, mpi.FORECAST_TARGET)
    found: dict[str, Any] = {"mpi": inst.name}
    for name in ("compute", "messages"):
        ways: dict[str, dict[str, str]] = {
            "alone": {},
            "layer": {"LD_PRELOAD": str(layer), FOLDER_VARIABLE: str(folder)},
        }
        rounds = measure_alternately({way: partial(round_ns, inst, program, name, ways[way]) for way in ways})
        found_rounds = list(islice(rounds, pairs + 1))[1:]  # the first one warms up
        alone, under = ([times[way] for times in found_rounds] for way in ways)
        ratio = paired_gain(under, alone)  # time under the layer / time alone
        found[name] = {**vars(ratio), "added_ns": (ratio.value - 1) * _median(alone)}
    cost = (found["messages"]["high"] - 1) * _median(alone) / CALLS
    found["met"] = found["compute"]["high"] <= 1 + LIMIT_SHARE and cost <= LIMIT_NS
    return found


def round_ns(inst: Installation, program: Path, name: str, env: dict[str, str]) -> float:
    """Returns the ns of a round, from one launch on two ranks."""
    done = mpi.run(inst, [str(program), name], 2, timeout_s=120, env=env)
    if not done.has_succeeded:
        raise MeasurementError(f"{program.name} {name} ended with exit code {done.exit_code}", done.stderr[-600:])
    return float(done.stdout.split()[-1])


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    made = parser(__doc__)
    made.add_argument("--mpi", help="one MPI (default: all)")
    made.add_argument("--pairs", type=int, default=20, help="launches of each, in turn (default %(default)s)")
    sys.exit(finish(main, made.parse_args()))
