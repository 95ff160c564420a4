"""What does the shared heap cost programs that know nothing of MPI?

Runs mimalloc-bench's programs (github.com/daanx/mimalloc-bench; --programs is the folder that they were built into)
with and without the shared heap preloaded, in turn, and compares time (of a program that runs for a fixed time: the
inverse of its own rate) and peak resident memory. Programs that are not in the folder are left out.

Criteria: time and memory each at most 1.05 of stock in the geometric mean, over programs of one thread and over
programs of several; the worst of each is named.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table, parser, two_cpus, verdict
from support.compare import Case, Criterion, Times, gains_json, in_turn, report_criteria
from support.launches import add_comparison_options
from support.resources import run_measured

from nearfield.base import shared_heap
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.paired import Gain
from nearfield.rules.gains import geometric_mean
from nearfield.rules.knobs import Settings, read_all_knob_files
from nearfield.rules.schema import load_rules

MAX_RATIO = 1.05


@dataclass(frozen=True)
class Program:
    """`rate`: where it prints how much it did in a fixed time. `{inputs}` is mimalloc-bench's own folder bench."""

    command: str
    threads: int
    rate: str = ""
    stdin: str = ""

    @property
    def name(self) -> str:
        return f"{self.command.split()[0]}{f' ({self.threads} threads)' if self.threads > 1 else ''}"


_LARSON = r"Throughput =\s*(\d+)"
PROGRAMS = (
    Program("alloc-test 1", 1),
    Program("barnes", 1, stdin="{inputs}/barnes/input"),
    Program("cfrac 17545186520507317056371138836327483793", 1),
    Program("espresso {inputs}/espresso/largest.espresso", 1),
    Program("glibc-simple", 1),
    Program("larson 2 8 1000 5000 100 4141 1", 1, _LARSON),
    Program("malloc-large", 1),
    Program("alloc-test 2", 2),
    Program("cache-scratch 2 1000 1 1000000 2", 2),
    Program("cache-thrash 2 1000 1 1000000 2", 2),
    Program("glibc-thread 2", 2, r"(\d+) iterations"),
    Program("larson 2 8 1000 5000 100 4141 2", 2, _LARSON),
    Program("larson-sized 2 8 1000 5000 100 4141 2", 2, _LARSON),
    Program("mleak 50", 10),
    Program("mstress 2 50 200", 2),
    Program("rptest 2 0 1 2 500 1000 100 8 16000", 2, r"(\d+) memory ops/CPU second"),
    Program("xmalloc-test -w 2 -t 2 -s 64", 4, r"free/sec: ([\d.]+)"),
)


def main(options: argparse.Namespace) -> dict[str, Any]:
    if not options.programs:
        verdict(None, "mimalloc-bench's programs are not named (--programs FOLDER)")
        return {"met": None}
    environment = {**shared_heap.heap_preload_variables(os.environ), **settings_of(options)}
    cpus = two_cpus(options.cpus)
    costs: dict[Program, dict[Case, Gain]] = {}
    results, criteria = {}, []
    with TemporaryDirectory(prefix="nearfield-bench-") as name:
        bench = Bench(options.programs.absolute(), find_inputs(options), Path(name))
        for program in bench.find_programs(options.only):
            contestants = {
                "stock": lambda program=program: bench.run(program, {}),
                "preloaded": lambda program=program: bench.run(program, environment),
            }
            try:
                turns = in_turn(contestants, options.rounds, cpus, program.name, takes=1)
            except MeasurementError as error:
                console.print(f"{program.name}: {error.message}\n{error.remedy}", style="red", markup=False)
                criteria.append(Criterion(f"{program.name} ends as it should", False))
                continue
            costs[program] = turns.gains("stock", "preloaded")  # preloaded over stock
            results[program.name] = {"flag": turns.flag_text(), "costs": gains_json(costs[program]), **turns.as_json()}
    if not results and not criteria:
        raise UsageError(f"{options.programs} holds none of the programs", "name the folder that they were built into")
    print_table(costs)
    console.print(f"  {shared_heap.HEAP_VARIABLE}={environment[shared_heap.HEAP_VARIABLE]}")
    criteria += [cost_criterion(costs, several, what) for several in (False, True) for what in ("time", "memory")]
    return {"met": report_criteria(criteria), "programs": results, "bars": [one._asdict() for one in criteria]}


def settings_of(options: argparse.Namespace) -> dict[str, str]:
    """NEARFIELD_HEAP, with what the settings or rules have for the heap itself."""
    if options.rules:
        rules = load_rules(options.rules)
        knobs, settings = rules.find_knob_file(), rules.best_rule_for_all_pairs().parameters
    else:
        knobs, settings = next(file for file in read_all_knob_files() if file.shared_heap), options.settings or {}
    if problems := knobs.find_problems(settings):
        raise UsageError(problems[0])
    own: Settings = {name: value for name, value in settings.items() if knobs[name].carrier == "heap"}
    made = knobs.environment({**own, "shared_heap": "on"})
    # these programs have no MPI
    return {**made, shared_heap.HEAP_VARIABLE: f"{made[shared_heap.HEAP_VARIABLE]},at_start=1"}


def find_inputs(options: argparse.Namespace) -> Path | None:
    """mimalloc-bench's folder bench, of which the folder of programs mostly is a neighbour."""
    above = [options.programs.absolute(), *options.programs.absolute().parents][:4]
    places = [options.inputs] if options.inputs else [up / sub for up in above for sub in ("bench", "src/bench")]
    return next((place for place in places if (place / "espresso").is_dir()), None)


@dataclass(frozen=True)
class Bench:
    folder: Path
    inputs: Path | None
    scratch: Path

    def find_programs(self, only: list[str] | None) -> list[Program]:
        wanted = [program for program in PROGRAMS if not only or program.command.split()[0] in only]
        found = []
        for program in wanted:
            if not (self.folder / program.command.split()[0]).is_file():
                console.print(f"without {program.name}: it is not in {self.folder}", markup=False)
            elif "{inputs}" in program.command + program.stdin and not self.inputs:
                console.print(f"without {program.name}: its input is not found (--inputs)")
            else:
                found.append(program)
        return found

    def run(self, program: Program, environment: Mapping[str, str]) -> Times:
        """Seconds, or the inverse of a rate, and KiB. MeasurementError if it fails or does not end."""
        first, *rest = program.command.format(inputs=self.inputs).split()
        stdin = Path(program.stdin.format(inputs=self.inputs)) if program.stdin else Path(os.devnull)
        used = run_measured([str(self.folder / first), *rest], environment, self.scratch, stdin)
        time = used.seconds
        if program.rate:
            rates = re.findall(program.rate, used.printed)
            if not rates:
                raise MeasurementError("prints no rate", used.printed[-300:])
            time = 1 / float(rates[-1])
        return {(program.name, "time"): time, (program.name, "memory"): float(used.peak_kib)}


def print_table(costs: Mapping[Program, Mapping[Case, Gain]]) -> None:
    made = new_table("with the shared heap over stock", "program", "time, interval, memory, interval")
    for program, there in costs.items():
        cells = [(f"{g.value:.3f}", f"{g.low:.3f} to {g.high:.3f}") for g in there.values()]
        made.add_row(program.name, *(cell for pair in cells for cell in pair))
    console.print(made)


def cost_criterion(costs: Mapping[Program, Mapping[Case, Gain]], several: bool, what: str) -> Criterion:
    threads = "several threads" if several else "one thread"
    mine = {p.name: there[p.name, what] for p, there in costs.items() if (p.threads > 1) == several}
    if not mine:
        return Criterion(f"{what} of programs of {threads}: not measured", None)
    mean, worst = geometric_mean(mine.values()), max(mine, key=lambda name: mine[name].value)
    words = f"{what} of programs of {threads}: {mean.value:.3f} of stock ({mean.low:.3f} to {mean.high:.3f})"
    return Criterion(
        f"{words}, at most {MAX_RATIO} wanted; worst {worst}, {mine[worst].value:.3f}", mean.value <= MAX_RATIO
    )


def parse() -> argparse.Namespace:
    made = add_comparison_options(parser(__doc__))
    made.add_argument(
        "--programs", type=Path, metavar="FOLDER", help="mimalloc-bench's programs (without: nothing is run)"
    )
    made.add_argument("--inputs", type=Path, metavar="FOLDER", help="its folder bench (default: looked for nearby)")
    made.add_argument("--only", action="append", metavar="NAME", help="repeat for more (default: every program)")
    made.add_argument("--cpus", metavar="A,B", help="between which a flag is timed (default: the nearest pair)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
