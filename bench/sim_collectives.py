"""How fast are collectives simulated, and what does S4's sweep of them give?

In processor seconds of one core, the making of the caches included, so that a busy machine does not show:

- a bcast of 32 KB on 64 POWER5 nodes with caches, all policies at four memory speeds: at most 1 s
- events of the network alone (an alltoall without caches): at least 1 M/s
- a bcast on 256 nodes with caches, and the memory that takes
- S4.7: 5 collectives, 16 sizes of the whole buffer up to 1 MiB, 64 nodes, memory and payload-l3, 7 calls each: at most
  10 s. Its table says what payload-l3 saves of the time at each memory speed, and, at four of the sizes, header-l2
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import asdict
from typing import Any

from support import console, finish, new_table, parser, verdict
from support.simulated import collective

from nearfield._native import simulation
from nearfield.base.units import format_bytes, format_ns
from nearfield.machine import load_machine
from nearfield.machine.native import to_native
from nearfield.measure.sim import pool
from nearfield.measure.sim.operations import OperationRequest, PolicySavings, savings_of
from nearfield.measure.sim.store import simulate_rows
from nearfield.ui.progress import ProgressDisplay

SWEEP = ("bcast", "allgather", "allreduce", "scatter", "alltoall")
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384, 32768, 65536, 131072, 262144, 393216, 524288, 1048576)
POLICIES = ("payload-l3", "header-l2")
HEADER_SIZES = SIZES[3::4]
SLOWDOWNS = (1.0, 2.5, 5.0, 7.5)
LIMITS = {"bcast_s": 1.0, "sweep_s": 10.0, "events_per_s": 1e6}


def processor_s(work: Any) -> tuple[float, Any]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def call(
    operation: str, size: int, nodes: int, policies: list[str], repetitions: int, **more: Any
) -> tuple[float, dict[str, float]]:
    machine = to_native(load_machine("power5-redstorm"))
    return processor_s(
        lambda: collective(machine, operation, size, nodes, policies, list(SLOWDOWNS), repetitions, **more)
    )


def speed() -> dict[str, float]:
    every = [policy.name for policy in simulation.policies()]
    bcast_s, _ = call("bcast", 32768, 64, every, 1)
    seven_s, _ = call("bcast", 32768, 64, every, 7)
    alone_s, alone = call("alltoall", 1024, 128, ["memory"], 3, memory_effects=False)
    large_s, _ = call("bcast", 32768, 256, ["memory", "payload-l3"], 1)
    return {
        "bcast_s": bcast_s,
        "bcast_seven_calls_s": seven_s,
        "policies": len(every),
        "events_per_s": 3 * alone["engine_events"] / alone_s,
        "messages_per_s": 3 * alone["network_messages"] / alone_s,
        "bcast_256_nodes_s": large_s,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def sweep(policy: str, sizes: tuple[int, ...]) -> tuple[float, list[PolicySavings]]:
    machine = load_machine("power5-redstorm")
    operations = OperationRequest(machine, SWEEP, sizes, (64,), (policy,), SLOWDOWNS, uses_total_sizes=True)
    with ProgressDisplay(console) as display:
        seconds, rows = processor_s(lambda: simulate_rows(operations.cases(), pool.make_runner_on_cores(1), display))
    return seconds, savings_of(rows)


def merged(found: list[PolicySavings], more: list[PolicySavings]) -> list[PolicySavings]:
    """Both policies of a case side by side."""
    places = {(one.operation, one.size_bytes, one.slowdown): one for one in found}
    for one in more:
        places[one.operation, one.size_bytes, one.slowdown].by_policy |= one.by_policy
    return found


def draw(found: list[PolicySavings]) -> None:
    columns = ",".join(f"{policy[:-3]} x{factor:g}" for policy in POLICIES for factor in SLOWDOWNS)
    table = new_table("S4.7 on 64 nodes: less time than with memory", "collective", "one size,base," + columns)
    for first in (one for one in found if one.slowdown == SLOWDOWNS[0]):
        same = [g for g in found if (g.operation, g.size_bytes) == (first.operation, first.size_bytes)]
        cells = (percent(one.by_policy.get(policy)) for policy in POLICIES for one in same)
        table.add_row(first.operation, format_bytes(first.size_bytes), format_ns(first.base_ns), *cells)
    console.print(table)


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:+.1%}"


def main(options: argparse.Namespace) -> dict[str, Any]:
    numbers = speed()
    table = new_table("speed, processor seconds", "what", "value")
    for name, value in numbers.items():
        table.add_row(name, f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")
    console.print(table)
    if not options.quick:
        numbers["sweep_s"], found = sweep("payload-l3", SIZES)
        draw(merged(found, sweep("header-l2", HEADER_SIZES)[1]))
    met = {
        name: numbers[name] >= limit if name.endswith("per_s") else numbers[name] <= limit
        for name, limit in LIMITS.items()
        if name in numbers
    }
    for name, good in met.items():
        verdict(good, f"{name} = {numbers[name]:,.3g} (limit: {LIMITS[name]:,.3g})")
    result = {"met": all(met.values()), **numbers}
    return result if options.quick else result | {"gains": [asdict(one) for one in found]}


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="without the sweep")
    sys.exit(finish(main, arguments.parse_args()))
