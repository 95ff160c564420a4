"""How much faster are collectives inside a node with nearfield's preloaded library, and is any of them slower?

    python bench/collectives.py --mpi openmpi-4.1.4 [--rounds 7] [--operations bcast,reduce] [--sizes 8,64KiB] [--more]
                                [--rules rules.toml]

Launches bench/collectives.c, built with the MPI's own mpicc, on two bound ranks, in three ways in turn: as the MPI
ships (baseline), with the shared heap preloaded (heap), and with libnearfield_collectives.so preloaded before the
shared heap (collectives). Times of the launches of one round are divided by each other (paired), and the minimum over
launches of one way by that of another (best): a virtual machine's cores move, and the best launches of each way are
those in which the cores were nearest. Each launch measures the core-to-core latency of a flag at its begin and at its
end. A round during which it changed by a factor of more than 1.8 counts for no paired ratio, unless all did so.

No barrier separates the calls. In operations that send one way (bcast, reduce, gather, scatter, scan), the sending rank
of an MPI that buffers short messages runs ahead: their times are then those of a stream of calls, not of one alone.

Criterion: no operation is at any size below 0.97 of the baseline (paired, by more than the interval).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import geometric_mean as geometric_mean_of
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from support import console, finish, new_table, parser, two_cpus
from support.compare import (
    Case,
    Criterion,
    Times,
    Turns,
    case_text,
    cores_moved,
    flags_of,
    none_below,
    report_criteria,
    slower,
)
from support.launches import STOCK, Place, Way, choose_mpis, program_for

from nearfield import mpi
from nearfield.base import shared_heap
from nearfield.base.errors import MeasurementError, NearfieldError, UsageError
from nearfield.base.paired import measure_alternately
from nearfield.base.units import counted, format_bytes, parse_bytes
from nearfield.mpi import Installation
from nearfield.mpi.build import COLLECTIVES_TARGET
from nearfield.rules import collectives
from nearfield.rules.collective_tables import format_selection
from nearfield.rules.gains import geometric_mean
from nearfield.rules.schema import load_rules

OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "allgather", "alltoall")
MORE = ("reduce_scatter_block", "gather", "scatter", "scan", "alltoallv")
SIZES = (8, *(1 << power for power in range(4, 25, 2)))  # 8 B, then 16 B to 16 MiB in steps of four
STATISTIC = (
    "the time of a call in a launch is the minimum over 7 batches of the maximum over ranks of the batch's mean, "
    "with one reading of the clock in it; best is the minimum over launches"
)
progress = Console(stderr=True, highlight=False)

Launch = tuple[float, Times, float]  # the core-to-core latency at the begin, times in ns, the latency at the end


@dataclass
class Launches:
    """All whole rounds of one MPI."""

    turns: Turns
    latencies: list[float] = field(default_factory=list)  # core-to-core, in ns; two of each launch
    clock_ns: list[float] = field(default_factory=list)  # one reading of the clock
    problem: str = ""  # why there are fewer rounds than requested
    is_interrupted: bool = False

    def best(self, way: str, case: Case) -> float:
        return min(times[case] for times in self.turns.times[way])

    def best_ratio(self, case: Case, other: str = "collectives", over: str = "baseline") -> float:
        return self.best(over, case) / self.best(other, case)

    def cases(self) -> list[Case]:
        return self.turns.cases() if self.turns.flags else []


def main(options: argparse.Namespace) -> dict[str, Any]:
    operations, sizes = choose_operations(options), choose_sizes(options)
    argv = [",".join(operations), ",".join(map(str, sizes)), str(options.seconds)]
    results, criteria = [], []
    with TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        for inst in choose_mpis(options):
            try:
                here, program, ways = prepare(inst, options, Path(scratch))
            except KeyboardInterrupt:
                break
            except NearfieldError as error:
                console.print(f"{inst.name}: {error.message}\n{error.remedy}", style="red", markup=False)
                criteria.append(Criterion(f"{inst.name}: cannot be measured", False))
                continue
            found = measure(here, [str(program), *argv], ways, options.rounds)
            if found.problem:
                console.print(found.problem, style="red", markup=False)
                criteria.append(Criterion(f"{inst.name}: a launch fails", False))
            if found.cases():
                print_points(inst.name, found)
                print_means(inst.name, found)
                criteria.append(none_below(found.turns.gains("collectives", "baseline"), inst.name))
                results.append({"mpi": inst.name, "ways": {name: dict(way.environment) for name, way in ways.items()}})
                results[-1] |= describe(found)
            if found.is_interrupted:
                break
    return {"met": report_criteria(criteria), "statistic": STATISTIC, "mpis": results}


def choose_operations(options: argparse.Namespace) -> list[str]:
    known = (*OPERATIONS, *MORE)
    names = options.operations.split(",") if options.operations else [*OPERATIONS, *(MORE if options.more else ())]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no operation is called '{unknown[0]}'", f"one of {', '.join(known)}")
    return names


def choose_sizes(options: argparse.Namespace) -> list[int]:
    sizes = [parse_bytes(text) for text in options.sizes.split(",")] if options.sizes else list(SIZES)
    if wrong := [size for size in sizes if size <= 0 or size % 8]:
        raise UsageError(f"{wrong[0]} B is no positive multiple of 8 B, the size of a double")
    return sizes


def prepare(inst: Installation, options: argparse.Namespace, scratch: Path) -> tuple[Place, Path, dict[str, Way]]:
    """Returns where ranks run, the program, and the three ways to launch it. Builds what is missing."""
    library = mpi.build_target(
        inst, COLLECTIVES_TARGET, progress=lambda text: progress.print(text, style="dim", markup=False)
    )
    program = program_for(inst, "collectives", scratch)
    here = Place(inst, two_cpus(options.cpus), {})
    here.check()
    heap, both = (
        shared_heap.heap_preload_variables(os.environ),
        collectives.collectives_preload_variables(library, os.environ),
    )
    if options.rules:
        both[collectives.COLLECTIVES_VARIABLE] = format_selection(load_rules(options.rules).collective_tables())
    return here, program, {"baseline": STOCK, "heap": Way(environment=heap), "collectives": Way(environment=both)}


def measure(here: Place, argv: list[str], ways: Mapping[str, Way], rounds: int) -> Launches:
    """Launches all ways in turn. Ctrl-C or a launch that fails ends it after the last whole round."""
    found = Launches(Turns(times={name: [] for name in ways}))
    launches = {name: partial(launch, here, argv, name, way, found.clock_ns) for name, way in ways.items()}
    try:
        for number, results in zip(range(rounds), measure_alternately(launches, max_attempts=1), strict=False):
            latencies = flags_of(results)
            found.latencies += latencies
            found.turns.flags.append(median(latencies))
            found.turns.moved += [number] * cores_moved(results)
            for name, (_, times, _) in results.items():
                found.turns.times[name].append(times)
            progress.print(f"{here.inst.name}: round {number + 1} of {rounds} is complete", style="dim", markup=False)
    except MeasurementError as error:
        found.problem = f"{here.inst.name}: {error.message}\n{error.remedy}".rstrip()
    except KeyboardInterrupt:
        found.is_interrupted = True
        progress.print(f"interrupted after {counted(len(found.turns.flags), 'whole round')}", style="yellow")
    return found


def launch(here: Place, argv: list[str], name: str, way: Way, clock_ns: list[float]) -> Launch:
    rows = [line.split() for line in here.launch(argv, way).splitlines()]
    latency = {when: float(ns) for word, when, ns in (row for row in rows if len(row) == 3) if word == "latency"}
    clock_ns += [float(row[1]) for row in rows if len(row) == 2 and row[0] == "clock"]
    times = {case_of(row): float(row[2]) for row in rows if len(row) == 3 and row[0] in (*OPERATIONS, *MORE)}
    seen = f"core-to-core latency {latency['begin']:.0f} and {latency['end']:.0f} ns"
    progress.print(f"{here.inst.name}: {name}, {seen}", style="dim", markup=False)
    return latency["begin"], times, latency["end"]


def case_of(row: list[str]) -> Case:
    """Returns the operation and the size in bytes; a barrier has no size."""
    return row[0], int(row[1]) or ""


def print_points(mpi_name: str, found: Launches) -> None:
    gains = found.turns.gains("collectives", "baseline")
    columns = "baseline us, heap us, collectives us, best ratio, paired ratio, interval, launches"
    made = new_table(f"collectives on two ranks under {mpi_name}: baseline / collectives", "operation, size", columns)
    for case, gain in gains.items():
        name, size = case
        times = [microseconds(found.best(way, case)) for way in found.turns.times]
        ratios = [f"{found.best_ratio(case):.2f}", f"{gain.value:.2f}", f"{gain.low:.2f} to {gain.high:.2f}"]
        shown = format_bytes(size) if isinstance(size, int) else "-"
        made.add_row(str(name), shown, *times, *ratios, str(gain.n), style="red" if slower(gain) else None)
    console.print(made)
    console.print(f"  {STATISTIC} (a reading took {median(found.clock_ns):.0f} ns)", markup=False)
    console.print(f"  {latency_text(found)}\n", markup=False)


def microseconds(ns: float) -> str:
    return f"{ns / 1e3:.3f}" if ns < 10e3 else f"{ns / 1e3:.1f}"


def latency_text(found: Launches) -> str:
    low, middle, high = min(found.latencies), median(found.latencies), max(found.latencies)
    moved, rounds = len(found.turns.moved), len(found.turns.flags)
    use = "" if not moved else " (no paired ratio)" if moved < rounds else " (used all the same)"
    seen = f"the core-to-core latency was {low:.0f} ns to {high:.0f} ns, {middle:.0f} ns in the median"
    return f"{seen}; the cores moved during {moved} of {counted(rounds, 'round')}{use}"


def print_means(mpi_name: str, found: Launches) -> None:
    numbers = "heap, collectives, collectives over heap, collectives paired, interval, lowest"
    title = f"times as fast as the baseline under {mpi_name}: geometric means (best but for paired)"
    made = new_table(title, "operation", numbers)
    for name, mean in means_of(found).items():
        best = [f"{mean[key]:.2f}" for key in ("heap_best", "collectives_best", "collectives_over_heap_best")]
        paired = mean["collectives_paired"]
        interval = f"{paired['low']:.2f} to {paired['high']:.2f}"
        style = "bold" if name == "all" else None
        made.add_row(name, *best, f"{paired['value']:.2f}", interval, f"{mean['lowest_best']:.2f}", style=style)
    console.print(made)
    gains = found.turns.gains("collectives", "baseline")
    best_case, case = min(gains, key=found.best_ratio), min(gains, key=lambda case: gains[case].value)
    console.print(
        f"  the lowest best ratio is {found.best_ratio(best_case):.3f}x: {case_text(best_case)}", markup=False
    )
    console.print(f"  the lowest paired ratio is {gains[case]}: {case_text(case)}\n", markup=False)


def means_of(found: Launches) -> dict[str, dict[str, Any]]:
    """Returns the geometric means of each operation, and of all points under the name "all"."""
    gains, cases = found.turns.gains("collectives", "baseline"), found.cases()
    groups = {str(name): [case for case in cases if case[0] == name] for name, _ in cases} | {"all": cases}
    means = {}
    for name, group in groups.items():
        lowest = min(group, key=found.best_ratio)
        means[name] = {
            "heap_best": geometric_mean_of(found.best_ratio(case, "heap") for case in group),
            "collectives_best": geometric_mean_of(found.best_ratio(case) for case in group),
            "collectives_over_heap_best": geometric_mean_of(found.best_ratio(case, over="heap") for case in group),
            "collectives_paired": asdict(geometric_mean(gains[case] for case in group)),
            "lowest_best": found.best_ratio(lowest),
            "lowest_best_at": case_text(lowest),
        }
    return means


def describe(found: Launches) -> dict[str, Any]:
    """Returns every number, for --json."""
    turns = found.turns
    gains = {way: turns.gains(way, "baseline") for way in ("heap", "collectives")}
    points = [
        {
            "operation": case[0],
            "bytes": case[1] or 0,
            "best_ns": {way: found.best(way, case) for way in turns.times},
            "best_ratio": {way: found.best_ratio(case, way) for way in gains},
            "paired_ratio": {way: asdict(gains[way][case]) for way in gains},
        }
        for case in found.cases()
    ]
    latencies = {"core_to_core_latencies_ns": found.latencies, "clock_ns": found.clock_ns}
    ending = {"interrupted": found.is_interrupted, "problem": found.problem}
    return {"points": points, "geometric_means": means_of(found), **latencies, **ending, **turns.as_json()}


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", action="append", metavar="NAME", help="repeat for more (default: every MPI found)")
    made.add_argument("--cpus", metavar="A,B", help="where the two ranks run (default: the nearest pair of cores)")
    made.add_argument("--rounds", type=int, default=7, help="launches of each way (default %(default)s)")
    made.add_argument("--sizes", metavar="LIST", help="as 8,4KiB (default: 8 B, then 16 B to 16 MiB in steps of four)")
    made.add_argument("--operations", metavar="LIST", help=f"default: {','.join(OPERATIONS)}")
    made.add_argument("--rules", type=Path, metavar="FILE", help="select algorithms as `tune --collectives` found them")
    made.add_argument("--more", action="store_true", help=f"also {','.join(MORE)}")
    made.add_argument("--seconds", type=float, default=0.1, help="of each point in a launch (default %(default)s)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
