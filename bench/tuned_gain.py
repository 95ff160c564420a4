"""How much faster does `nearfield tune` make messages, and is any size slower?

For every MPI: tunes with the default budget, then measures the rules again, stock and tuned in turn on the same two
cores, ping-pong with the sender's buffer just written, in fresh launches. Where the cores move, as a virtual machine's
do, only times taken while they are as far apart as when the rule was found count.

The bars: geometric mean of bandwidth tuned over stock, 4 KiB to 16 MiB in steps of four, Open MPI at least 3.3; from
16 KiB, MPICH 5 at least 2.4; and no size from 1 B up below 0.97 of stock (by more than the interval).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from support import console, finish, new_table, parser, verdict

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.topology import Topology
from nearfield.tune.arena import Arena, Comparison
from nearfield.tune.gains import NEVER_BELOW, Gain, Pair, alike, gain, geometric_mean
from nearfield.tune.rules import Rules, load_rules, save_rules
from nearfield.tune.tuning import Listener, Request, Tuning
from nearfield.units import format_bytes

STEPS = tuple((4 << 10) << power for power in range(0, 13, 2))  # 4 KiB to 16 MiB
LADDER = tuple(1 << power for power in range(25))
ROUNDS = 4  # a virtual machine's cores move, mostly back
BARS = {"openmpi": (3.3, 4 << 10), "mpich": (2.4, 16 << 10)}


def main(options: argparse.Namespace) -> dict[str, Any]:
    chosen = [mpi.choose(name) for name in options.mpi] if options.mpi else mpi.discover()
    results = []
    with TemporaryDirectory(prefix="nearfield-bench-") as scratch:
        for inst in chosen:
            path = (options.keep or Path(scratch)) / f"{inst.name}.toml"
            if not (options.reuse and path.exists()):
                console.print(f"tuning {inst.name}: {options.budget:.0f} s")
                request = Request(
                    mpi=inst.name,
                    budget_s=options.budget,
                    never_below=options.never_below,
                    command="bench/tuned_gain.py",
                )
                save_rules(Tuning(request, Listener()).run(), path)
            results.append(measure(inst, load_rules(path), options.pairs))
    missed = [r["mpi"] for r in results if r["met"] is False]
    met = not missed if any(r["met"] is not None for r in results) else None
    verdict(met, f"missed by {', '.join(missed)}" if missed else "every bar")
    return {"met": met, "mpis": results}


def measure(inst: Installation, rules: Rules, pairs: int) -> dict[str, Any]:
    """The nearest distance's rule, measured again."""
    rule = rules.rule[0]
    if not rule.parameters:
        console.print(f"[bold]{inst.name}[/]: stock is best ({rule.reason})")
        return {"mpi": inst.name, "parameters": {}, "gain": 1.0, "met": bar_met(inst, 1.0, [])}
    topology = Topology.live()
    cores = topology.representatives()[rule.distance]
    with (
        Arena(inst, mpi.program(inst), topology, cores, rules.knobs()) as arena,
        arena.against(rule.parameters, LADDER) as comparison,
    ):
        taken = where_the_rule_holds(comparison, rule.flag_ns, pairs)
    if missing := [format_bytes(size) for size in LADDER if size not in taken]:
        console.print(f"[bold]{inst.name}[/]: the cores were not {rule.flag_ns:.0f} ns apart long enough for {missing}")
        return {"mpi": inst.name, "parameters": rule.parameters, "gain": None, "met": None}
    gains = {size: gain(found) for size, found in taken.items()}
    rates = {size: (size / median(p.stock for p in f), size / median(p.other for p in f)) for size, f in taken.items()}
    slower = [size for size, g in gains.items() if g.slower]
    console.print(table(inst, gains, rates), f"  {rule.parameters}")
    first = BARS.get(inst.family, (0.0, STEPS[0]))[1]
    mean = geometric_mean(gains[size] for size in STEPS if size >= first)
    all_ = f"{mean.value:.2f}x ({mean.low:.2f} to {mean.high:.2f}) from {format_bytes(first)} to 16 MiB"
    console.print(f"[bold]{inst.name}[/]: {all_}; slower: {', '.join(map(format_bytes, slower)) or 'none'}\n")
    numbers = {format_bytes(s): [g.value, g.low, g.high, g.n] for s, g in gains.items()}
    met = bar_met(inst, mean.value, slower)
    return {"mpi": inst.name, "parameters": rule.parameters, "gain": mean.value, "met": met, "sizes": numbers}


def where_the_rule_holds(comparison: Comparison, flag_ns: float, count: int) -> dict[int, list[Pair]]:
    """Pairs of ping-pongs taken with the cores as far apart as when the rule was found: `run` applies it only there."""
    taken: dict[int, list[Pair]] = {}
    for _ in range(ROUNDS):
        comparison.measure(count, [("pingpong", size) for size in LADDER if size not in taken])
        for (_, size), found in comparison.found.items():
            there = [pair for pair in found if not flag_ns or alike(pair.flag, flag_ns)]
            if len(there) >= count // 2:
                taken[size] = there
    return dict(sorted(taken.items()))


def bar_met(inst: Installation, mean: float, slower: list[int]) -> bool | None:
    """Intel MPI and MPICHs that UCX carries have no bar but not to be slower."""
    if slower:
        return False
    if inst.family not in BARS or (inst.family == "mpich" and not inst.version.startswith("5")):
        return None
    return mean >= BARS[inst.family][0]


def table(inst: Installation, gains: dict[int, Gain], rates: dict[int, tuple[float, ...]]) -> Any:
    made = new_table(f"ping-pong under {inst.name}", "size", "stock GB/s, tuned GB/s, gain, interval, pairs")
    for size, g in gains.items():
        if size < STEPS[0] and g.value >= NEVER_BELOW:
            continue  # below the first step only what is slower is of interest
        stock, tuned = rates[size]
        cells = [f"{stock:.2f}", f"{tuned:.2f}", f"{g.value:.2f}", f"{g.low:.2f} to {g.high:.2f}", str(g.n)]
        made.add_row(format_bytes(size), *cells)
    return made


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--mpi", action="append", metavar="NAME", help="repeat for more (default: every MPI found)")
    made.add_argument("--budget", type=float, default=180.0, help="seconds of tuning for each (default %(default)s)")
    made.add_argument("--never-below", type=float, default=NEVER_BELOW, help="as tune's; the bar is %(default)s")
    made.add_argument("--pairs", type=int, default=31, help="pairs of times per size (default %(default)s)")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the rules here")
    made.add_argument("--reuse", action="store_true", help="with --keep: do not tune where there are rules")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(finish(main, parse()))
