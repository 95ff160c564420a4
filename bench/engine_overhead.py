"""What does the engine add to a repetition, beyond the clock reads themselves?

An operation of known length, a chain of dependent multiplications, is timed through the engine as every scenario's is:
prepare_repetition(), the synchronised start of two ranks, the engine's virtual call of run_timed(), which reads the
clock before and after it. Just before, in the same repetition, three more things are timed: the same operation in a
bare loop around two clock reads (`bare`), many operations between two clock reads, which is what one takes `alone`, and
the clock reads with nothing between them (`clock`). So every difference is of values taken microseconds apart on the
same core.

    added to a bare loop   engine - bare             code and branch history as cold as the engine leaves them
    added in all           engine - alone - clock    whatever is not the operation and not the clock

What lies outside the two clock reads (synchronised start, storing samples) delays the next repetition and is in no
number. The operation of the engine is a copy of its own, which neither of the others warms.

Criterion: both differences under 30 ns, upper end of the interval, for every length on both ranks.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from support import console, engine_for, finish, header_of, new_table, parser, run_engine, samples_of, two_cpus, verdict

from nearfield import _native, mpi
from nearfield.measure.live.lines import Line
from nearfield.mpi.build import native_source_folder

LIMIT_NS = 30.0
LENGTHS_NS = (0, 100, 200, 400)
BATCH = 16  # operations between the two clock reads of `alone` (overhead.cpp)


def main(options: argparse.Namespace) -> dict[str, Any]:
    inst = mpi.choose_mpi(options.mpi)
    engine = engine_for(inst, source_with_scenario())
    cpus = two_cpus(options.cpus)
    lines = run_engine(inst, engine, cpus, "overhead", budget_s=options.seconds, min_samples=options.repetitions)
    header = header_of(lines)
    rows = [
        compared(lines, header.clock_resolution_ns, length, side)
        for length in LENGTHS_NS
        for side in ("sender", "receiver")
    ]
    console.print(
        f"[bold]{inst.name}[/] on CPUs {cpus[0]} and {cpus[1]}; two clock reads take "
        f"{header.clock_overhead_ns:.1f} ns, the clock's step is {header.clock_resolution_ns:.1f} ns"
    )
    console.print(table(rows))
    met = all(row["met"] for row in rows)
    worst = max(row[name]["high"] for row in rows for name in ("to_bare", "in_all"))
    verdict(met, f"at most {worst:.1f} ns added (limit: {LIMIT_NS:.0f} ns)")
    clock = header.model_dump(include={"clock_overhead_ns", "clock_resolution_ns"})
    return {"met": met, "bar_ns": LIMIT_NS, "mpi": inst.name, "cpus": cpus, **clock, "cases": rows}


def source_with_scenario() -> Path:
    """The engine's sources with one scenario more, which is one file more. The engine that users run has no trace of
    it; everything else in this one is the same."""
    source, copy = native_source_folder(), mpi.cache_root() / "bench-source"
    shutil.rmtree(copy, ignore_errors=True)
    for folder in ("src", "include"):
        shutil.copytree(source / folder, copy / folder)
    shutil.copy2(source / "CMakeLists.txt", copy)
    shutil.copy2(Path(__file__).with_name("overhead.cpp"), copy / "src/probe/scenarios")
    return copy


def compared(lines: list[Line], resolution_ns: float, length: int, side: str) -> dict[str, Any]:
    ways = {name: samples_of(lines, name, side, operation_ns=length) for name in ("engine", "bare", "alone", "clock")}
    ways["alone"] = [alone - clock / BATCH for alone, clock in zip(ways["alone"], ways["clock"], strict=True)]
    pairs = list(zip(*ways.values(), strict=True))
    to_bare = estimate([engine - bare for engine, bare, _, _ in pairs], resolution_ns)
    in_all = estimate([engine - alone - clock for engine, _, alone, clock in pairs], resolution_ns)
    return {
        "operation_ns": length,
        "side": side,
        **{name: _native.quantile(values, 0.5) for name, values in ways.items()},
        "to_bare": to_bare,
        "in_all": in_all,
        "met": max(to_bare["high"], in_all["high"]) < LIMIT_NS,
    }


def estimate(differences_ns: list[float], resolution_ns: float) -> dict[str, Any]:
    found = _native.median_estimate(differences_ns, resolution_ns)
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


def table(rows: list[dict[str, Any]]) -> Table:
    numbers = "engine, bare, alone, clock, added to a bare loop, added in all, n, "
    made = new_table("medians in ns", "operation, rank", numbers)
    for row in rows:
        cells = [f"{row[name]:.1f}" for name in ("engine", "bare", "alone", "clock")]
        for name in ("to_bare", "in_all"):
            cells.append("{value:.1f} ({low:.1f} to {high:.1f})".format(**row[name]))
        cells += [str(row["to_bare"]["n"]), "[green]met[/]" if row["met"] else "[red]missed[/]"]
        made.add_row(f"{row['operation_ns']} ns", row["side"], *cells)
    return made


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", metavar="NAME", help="whose engine (default: the one nearfield chooses)")
    made.add_argument("--seconds", type=float, default=3.0, help="to measure for (default %(default)s)")
    made.add_argument("--repetitions", type=int, default=200, help="of each length at least (default %(default)s)")
    made.add_argument("--cpus", metavar="A,B", help="where the two ranks go (default: the nearest two cores)")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
