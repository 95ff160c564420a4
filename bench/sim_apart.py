"""How far does one run with all policies and memory speeds depart from each of them run apart?

A run decides by the first policy with the fastest memory in which order things happen: who comes first at a link, a NIC
or a cache. A policy or a speed that is run apart decides it for itself. For AMG and FFT on 64 POWER5 nodes: the largest
difference of the time, of what a policy saves (in points), and of counts, over all policies and speeds.

The limit is 1 % of the time. The same is reported of a run for each policy with all speeds: `nearfield reproduce` has
those. `--whole` adds the large FFT of the study, which takes half an hour.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import product
from typing import Any

from support import console, finish, new_table, parser, verdict

from nearfield._native import simulation
from nearfield.machine import load_machine
from nearfield.machine.native import to_native
from nearfield.measure.sim.places import ALL_CORES

POLICIES = ["memory", "header-l2", "payload-l3", "header-payload"]
SLOWDOWNS = [1.0, 2.5, 5.0, 7.5]
COUNTS = ("l2_misses", "l3_misses", "dram_reads")
MAX_DIFFERENCE = 0.01
NODES = 64
CASES = [("amg", 384), ("fft", 64 << 10)]
LARGE = ("fft", 4 << 20)

Numbers = dict[tuple[str, str, float], float]  # metric, policy, memory speed


def simulated(operation: str, size: int, policies: list[str], slowdowns: list[float]) -> Numbers:
    """Returns times and counts of every policy at every speed."""
    parameters: list[Any] = [("operation", operation), ("size_bytes", size), ("ranks", NODES), ("nodes", NODES)]
    machine = to_native(load_machine("power5-redstorm"))
    found = simulation.run("application", machine, ALL_CORES.to_native_place(), parameters, policies, slowdowns, 1)
    return {
        (one.metric, policies[one.variant], slowdowns[one.speed]): one.value
        for one in found
        if one.metric in ("time", *COUNTS)
    }


@dataclass
class Departure:
    """The largest differences between runs of several policies and speeds and each apart: shares, `gain` in points."""

    time: float = 0.0
    gain: float = 0.0
    counts: float = 0.0
    where: str = ""


def joined(operation: str, size: int, groups: list[list[str]], speeds: list[list[float]]) -> Numbers:
    """Returns the numbers of one run for each group of policies with each group of speeds."""
    found: Numbers = {}
    for policies, slowdowns in product(groups, speeds):
        found |= simulated(operation, size, policies, slowdowns)
    return found


def departure(together: Numbers, separate: Numbers) -> Departure:
    """Returns how far runs of several policies and speeds are from those that are run apart."""
    found = Departure()
    for policy, slowdown in product(POLICIES, SLOWDOWNS):
        key = ("time", policy, slowdown)
        off = abs(together[key] / separate[key] - 1)
        if off >= found.time:
            found.time, found.where = off, f"{policy}, memory {slowdown:g} times as slow"
        found.gain = max(found.gain, abs(_gain(together, policy, slowdown) - _gain(separate, policy, slowdown)))
    for key in product(COUNTS, POLICIES, SLOWDOWNS):
        one, other = together[key], separate[key]
        found.counts = max(found.counts, abs(one - other) / max(other, 1.0))
    return found


def _gain(numbers: Numbers, policy: str, slowdown: float) -> float:
    return 1 - numbers[("time", policy, slowdown)] / numbers[("time", POLICIES[0], slowdown)]


def main(options: argparse.Namespace) -> dict[str, Any]:
    table = new_table(f"against a run for each policy and speed, {NODES} nodes", "what,runs", "time,gain,counts,where")
    result: dict[str, Any] = {}
    each_policy, each_speed = [[policy] for policy in POLICIES], [[slowdown] for slowdown in SLOWDOWNS]
    for operation, size in [*CASES, *([LARGE] if options.whole else [])]:
        separate = joined(operation, size, each_policy, each_speed)
        for runs, groups in (("one", [POLICIES]), ("one for each policy", each_policy)):
            found = departure(joined(operation, size, groups, [SLOWDOWNS]), separate)
            table.add_row(f"{operation} of {size} B a rank", runs, f"{found.time:.2%}",
                          f"{100 * found.gain:.2f} points", f"{found.counts:.2%}", found.where)  # fmt: skip
            result[f"{operation}-{size}, {runs}"] = vars(found)
    console.print(table)
    largest = max(one["time"] for one in result.values())
    verdict(largest <= MAX_DIFFERENCE, f"no time departs by more than {largest:.2%} (limit: {MAX_DIFFERENCE:.0%})")
    return {"met": largest <= MAX_DIFFERENCE, **result}


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--whole", action="store_true", help="the study's large FFT, too")
    sys.exit(finish(main, options.parse_args()))
