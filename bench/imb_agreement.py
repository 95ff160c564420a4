"""Does nearfield measure what Intel MPI Benchmarks measure?

Half round trips of nearfield's pingpong with buffers `reused` beside those of IMB-MPI1's PingPong, under the same MPI,
on the same two CPUs, in many short launches in turn. The number of a launch is its median: of nearfield's repetitions
(each the mean of up to 32 round trips), and of IMB's means over 3 to 400.

Launches differ by a factor of two where neighbours share the physical cores, and disturbance only ever adds. So what is
compared is the lower quartile of either's launches, with a 95 % interval from resampling the rounds. While the interval
is wider than +-10 % the answer is open, unless all of it is beyond the limit. `fastest` is the ratio of the fastest
launches: what an undisturbed machine may give, and a hint only.

Criterion: ratios within 10 % of 1 at every size, for every MPI.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random
from typing import Any

from rich.table import Table
from support import console, engine_for, finish, header_of, new_table, parser, run_engine, samples_of, two_cpus, verdict
from support.imb import Benchmark, find

from nearfield import _native, mpi
from nearfield.base.errors import UsageError
from nearfield.base.units import format_bytes, format_ns, parse_bytes
from nearfield.mpi import Installation

SIZES = (8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20)
LIMIT = 0.10
RESAMPLED = 2000


def main(options: argparse.Namespace) -> dict[str, Any]:
    try:
        program = find(options.imb)
    except UsageError as error:
        if options.imb or options.check:
            raise
        console.print(f"skipped: {error.message}. To run this bench: {error.remedy}", markup=False)
        return {"met": None, "reason": error.message}
    sizes = tuple(parse_bytes(size) for size in options.sizes.split(",")) if options.sizes else SIZES
    cpus = two_cpus(options.cpus)
    results = [measure(inst, program, cpus, sizes, options) for inst in choose_mpis(options.mpi)]
    met = judge(results)
    return {"met": met, "bar": LIMIT, "imb": str(program), "cpus": cpus, "mpis": results}


def judge(results: list[dict[str, Any]]) -> bool | None:
    cases = [(f"{r['mpi']} {format_bytes(s['size_bytes'])}", s["met"]) for r in results for s in r["sizes"]]
    missed, unknown = ([name for name, met in cases if met is word] for word in (False, None))
    if missed:
        verdict(False, f"beyond 10 %: {', '.join(missed)}")
    elif unknown or not cases:
        verdict(
            None, f"the machine was too restless for {', '.join(unknown)}" if unknown else "no MPI to compare under"
        )
    else:
        verdict(True, "every ratio within 10 %")
    return False if missed else None if unknown or not cases else True


def choose_mpis(names: list[str] | None) -> list[Installation]:
    """Returns the MPIs to compare: those named, otherwise the newest Intel MPI and MPICH, whose ABI IMB's program
    uses."""
    if names:
        return [mpi.choose_mpi(name) for name in names]
    newest: dict[str, Installation] = {}
    for inst in sorted(
        mpi.find_usable_mpis(), key=lambda i: [int(part) for part in i.version.split(".") if part.isdigit()]
    ):
        if inst.family in ("intel", "mpich"):
            newest[inst.family] = inst
    return list(newest.values())


def measure(
    inst: Installation, program: Path, cpus: tuple[int, int], sizes: tuple[int, ...], options: argparse.Namespace
) -> dict[str, Any]:
    engine = engine_for(inst)
    imb = Benchmark(program, inst, cpus)
    places = imb.places()
    console.print(f"[bold]{inst.name}[/]: IMB's ranks seen on CPUs {' and '.join(sorted(p.allowed for p in places))}")
    theirs: dict[int, list[float]] = {size: [] for size in sizes}
    ours: dict[int, list[float]] = {size: [] for size in sizes}

    def run_imb() -> None:
        for size, times in imb.half_round_trips_ns(sizes, options.samples).items():
            theirs[size].append(_native.quantile(times, 0.5))

    def run_nearfield() -> None:
        lines = run_engine(inst, engine, cpus, "pingpong", budget_s=options.budget, min_samples=21, sizes=sizes)
        resolution_ns = header_of(lines).clock_resolution_ns
        for size in sizes:
            times = samples_of(lines, "half_round_trip", size_bytes=size, state="reused")
            ours[size].append(_native.median_estimate(times, resolution_ns).value)

    for number in range(options.rounds):
        for run in (run_imb, run_nearfield) if number % 2 else (run_nearfield, run_imb):
            run()
        console.print(f"  round {number + 1} of {options.rounds}", style="dim")
    rows = [compared(size, theirs[size], ours[size]) for size in sizes]
    console.print(table(inst, rows))
    return {"mpi": inst.name, "library": places[0].library, "sizes": rows}


def compared(size: int, theirs: list[float], ours: list[float]) -> dict[str, Any]:
    """One number of each per round."""
    rounds = list(zip(theirs, ours, strict=True))
    random = Random(20121105)
    resampled = [quartile_ratio(random.choices(rounds, k=len(rounds))) for _ in range(RESAMPLED)]
    ratio, low, high = quartile_ratio(rounds), *(_native.quantile(resampled, q) for q in (0.025, 0.975))
    met = (
        True
        if abs(ratio - 1) <= LIMIT and high - low <= 2 * LIMIT
        else False
        if low > 1 + LIMIT or high < 1 - LIMIT
        else None
    )
    row = {"size_bytes": size, "imb_ns": theirs, "nearfield_ns": ours, "fastest": min(ours) / min(theirs)}
    return {**row, "ratio": ratio, "low": low, "high": high, "met": met}


def quartile_ratio(rounds: list[tuple[float, float]]) -> float:
    theirs, ours = (_native.quantile(list(times), 0.25) for times in zip(*rounds, strict=True))
    return ours / theirs


def table(inst: Installation, rows: list[dict[str, Any]]) -> Table:
    numbers = "IMB PingPong, from to, nearfield reused, from to, ratio, interval, fastest, "
    made = new_table(f"half round trip under {inst.name}", "size", numbers)
    words = {True: "[green]agrees[/]", False: "[red]differs[/]", None: "[yellow]open[/]"}
    for row in rows:
        cells = [format_bytes(row["size_bytes"])]
        for name in ("imb_ns", "nearfield_ns"):
            times = row[name]
            cells += [format_ns(_native.quantile(times, 0.25)), f"{format_ns(min(times))} {format_ns(max(times))}"]
        made.add_row(
            *cells,
            f"{row['ratio']:.3f}",
            f"{row['low']:.2f} to {row['high']:.2f}",
            f"{row['fastest']:.3f}",
            words[row["met"]],
        )
    return made


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", action="append", metavar="NAME", help="Intel MPI or MPICH; repeat for more")
    made.add_argument("--imb", type=Path, metavar="FILE", help="the program IMB-MPI1 (default: of an Intel MPI found)")
    made.add_argument("--sizes", help="message sizes, e.g. 8,4KiB (default: eight from 8 B to 4 MiB)")
    made.add_argument("--rounds", type=int, default=40, help="launches of each (default %(default)s)")
    made.add_argument("--samples", type=int, default=11, help="IMB's means per size and launch (default %(default)s)")
    made.add_argument("--budget", type=float, default=0.4, help="nearfield's seconds per launch (default %(default)s)")
    made.add_argument("--cpus", metavar="A,B", help="where the two ranks go (default: the nearest two cores)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
