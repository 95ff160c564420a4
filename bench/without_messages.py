"""What does the shared heap cost programs that send no message?

Runs NumPy programs, which initialize MPI by mpi4py, and HPCC on one rank (Debian's hpcc, or --hpcc FILE), with and
without the shared heap preloaded, in turn, and compares wall-clock time, processor time, page faults and peak resident
memory. One more run of each, not timed, finds the most huge pages that it had at any time.

A job of one rank has nobody to share memory with, so its heap stays closed. --open opens it at the program's start,
which shows what ranks pay that send nothing to the others of their job.

Criterion: each is at most 1.01 of stock, and there are at least 0.99 of its huge pages.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table, parser, two_cpus, verdict
from support.compare import Criterion, Times, in_turn, report_criteria
from support.programs import hpcc_input
from support.resources import run_measured

from nearfield.base import shared_heap
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain

MAX_COST, MIN_HUGE_SHARE = 1.01, 0.99
MEASURES = ("time", "processor time", "faults", "memory")
LOOK_EVERY_S = 0.005
NUMPY = {
    "products": "a = numpy.random.rand(900, 900)\nfor _ in range(30): b = a @ a",
    "temporaries": "x = numpy.ones(3_000_000)\nfor _ in range(80): y = x * 2 + 1; z = y - x",
    "replaced": """
        random = numpy.random.default_rng(1)
        sizes = numpy.exp(random.uniform(numpy.log(1e3), numpy.log(1e6), 6000)).astype(int)
        arrays = [None] * 100
        for number, size in enumerate(sizes): arrays[number % 100] = numpy.ones(size)
        """,
    "growing": "x = numpy.empty(0)\nfor _ in range(300): x = numpy.append(x, numpy.ones(10_000))",
    "mixed": """
        random = numpy.random.default_rng(1)
        for _ in range(12):
            x = random.random(1_500_000)
            x.sort()
            y = numpy.fft.rfft(x)
            z = numpy.histogram(x, 1000)[0]
            parts = [part.copy() for part in numpy.array_split(x, 64)]
        """,
    "untouched": "blocks = [numpy.zeros(50_000_000) for _ in range(20)]\nfor block in blocks: block[::4096].sum()",
}


def main(options: argparse.Namespace) -> dict[str, Any]:
    """Returns what was found for each program."""
    heap = {
        **shared_heap.heap_preload_variables(os.environ),
        shared_heap.HEAP_VARIABLE: "on=1,at_start=1" if options.open else "on=1",
    }
    cpus = two_cpus(options.cpus)
    results: dict[str, Any] = {}
    criteria: list[Criterion] = []
    made = new_table("with the shared heap over stock", "program", "time, processor time, faults, memory, huge MiB")
    with TemporaryDirectory(prefix="nearfield-bench-") as name:
        scratch = Path(name)
        for program, command in commands(options, scratch).items():
            ways = {"stock": ONE_THREAD, "preloaded": {**ONE_THREAD, **heap}}
            contestants = {
                way: lambda command=command, env=env: run(command, env, scratch) for way, env in ways.items()
            }
            turns = in_turn(contestants, options.rounds, cpus, program, takes=1)
            costs = {case[0]: cost for case, cost in turns.gains("stock", "preloaded").items()}
            huge = {way: max_huge_mib(command, env, scratch) for way, env in ways.items()}
            made.add_row(program, *(text(costs[what]) for what in MEASURES), f"{huge['preloaded']} of {huge['stock']}")
            results[program] = {"costs": {what: costs[what].value for what in MEASURES}, "huge_mib": huge}
            criteria += [
                Criterion(
                    f"{program}, {what}: {text(costs[what])}",
                    costs[what].value <= MAX_COST if sure(costs[what]) else None,
                )
                for what in MEASURES
            ]
            criteria.append(Criterion(f"{program}, huge pages", huge["preloaded"] >= MIN_HUGE_SHARE * huge["stock"]))
    if not results:
        verdict(None, "no such program is here")
        return {"met": None}
    console.print(made)
    return {"met": report_criteria(criteria), "programs": results, "bars": [one._asdict() for one in criteria]}


# Threads of NumPy's algebra would share two cores with all else that runs; one rank without mpirun needs no daemon.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMPI_MCA_ess_singleton_isolated": "1"}


def commands(options: argparse.Namespace, scratch: Path) -> dict[str, list[str]]:
    """Returns the programs by their names. HPCC is left out, with a word, where there is none."""
    found = {}
    if not importlib.util.find_spec("mpi4py"):
        console.print("without NumPy: there is no mpi4py (pip install mpi4py)")
    for name, lines in NUMPY.items() if importlib.util.find_spec("mpi4py") else ():
        file = scratch / f"{name}.py"
        file.write_text("from mpi4py import MPI\nimport numpy\n" + re.sub(r"^ {8}", "", lines, flags=re.MULTILINE))
        found[f"NumPy, {name}"] = [sys.executable, str(file)]
    if hpcc := options.hpcc or shutil.which("hpcc"):
        (scratch / "hpccinf.txt").write_text(hpcc_input(options.order, columns=1))
        found["HPCC on one rank"] = [str(hpcc)]
    else:
        console.print("without HPCC: there is none (Debian: apt install hpcc; or --hpcc FILE)")
    return {name: command for name, command in found.items() if not options.only or options.only in name}


def run(command: list[str], environment: dict[str, str], scratch: Path) -> Times:
    """Returns what one run took."""
    used = run_measured(command, environment, scratch)
    amounts = (used.seconds, used.cpu_seconds, float(used.faults), float(used.peak_kib))
    return {(what, ""): amount for what, amount in zip(MEASURES, amounts, strict=True)}


def max_huge_mib(command: list[str], environment: dict[str, str], scratch: Path) -> int:
    """Returns the most MiB of huge pages, private and shared, that a program had whenever they were looked at."""
    max_kib = 0
    with subprocess.Popen(
        command, env={**os.environ, **environment}, cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None:
            try:
                lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            except OSError:
                break
            max_kib = max(
                max_kib, sum(map(int, re.findall(r"^(?:Anon|Shmem)HugePages: +(\d+) kB", lines, re.MULTILINE)))
            )
            time.sleep(LOOK_EVERY_S)
        words = process.communicate()[1]
    if process.returncode:
        raise MeasurementError(f"ends with {process.returncode}: {' '.join(command)}", words.decode()[-300:])
    return max_kib // 1024


def text(cost: Gain) -> str:
    return f"{cost.value:.3f} ({cost.low:.3f} to {cost.high:.3f})"


def sure(cost: Gain) -> bool:
    """Returns whether the interval lies on one side of what is allowed."""
    return cost.high <= MAX_COST or cost.low > MAX_COST


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--open", action="store_true", help="open the heap though there is one rank")
    made.add_argument("--rounds", type=int, default=9, help="runs of each (default %(default)s)")
    made.add_argument("--only", metavar="WORD", help="programs whose name holds this (default: every program)")
    made.add_argument("--hpcc", type=Path, metavar="FILE", help="default: hpcc on PATH")
    made.add_argument("--order", type=int, default=1500, help="of HPCC's matrix (default %(default)s)")
    made.add_argument("--cpus", metavar="A,B", help="between which a flag is timed (default: the nearest pair)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
