"""Does what a simulation costs grow as what it simulates, and not faster?

- processor seconds of one core over sizes from 256 KiB to 64 MiB, the making of the caches taken off: in a power law of
  the accesses (words that cores load and store, and that NICs read and write) the exponent is from 0.97 to 1.03
- the same over 8 to 256 nodes, each of which gets 1 MiB: at most 1.1, although the host's caches hold few nodes' state
  and not that of many
- the memory that 256 POWER5 nodes take, by all policies at four memory speeds: at most 4 GiB
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import sys
import time
from typing import Any

from support import console, finish, new_table, parser, verdict
from support.simulated import collective

from nearfield._native import simulation
from nearfield.base.units import format_bytes
from nearfield.machine import load_machine
from nearfield.machine.native import to_native

LINEAR, MAX_OVER_NODES, MAX_BYTES = (0.97, 1.03), 1.1, 4 << 30
WORD = 8
SLOWDOWNS = [1.0, 2.5, 5.0, 7.5]


def cost(operation: str, size: int, nodes: int, repetitions: int) -> tuple[float, int]:
    """Processor seconds of the calls, and how many words cores and NICs access in them."""
    machine = to_native(load_machine("power5-redstorm"))

    def seconds(calls: int) -> tuple[float, dict[str, float]]:
        started = time.process_time()
        found = collective(machine, operation, size, nodes, ["memory", "payload-l3"], SLOWDOWNS, calls)
        return time.process_time() - started, found

    making_s, _ = seconds(0)
    whole_s, found = seconds(repetitions)
    accesses = found["l1_hits"] + found["l1_misses"] + 2 * found["network_bytes"] // WORD
    return whole_s - making_s, round(repetitions * accesses)


def exponent(points: list[tuple[float, int]]) -> float:
    """Returns the exponent of time as a power of the accesses: the slope through all points in logarithms."""
    x = [math.log(accesses) for _, accesses in points]
    y = [math.log(seconds) for seconds, _ in points]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return rise / sum((a - mean_x) ** 2 for a in x)


def _peak_bytes(pipe: Any) -> None:
    every = [policy.name for policy in simulation.policies()]
    machine = to_native(load_machine("power5-redstorm"))
    collective(machine, "bcast", 32768, 256, every, SLOWDOWNS, 1)
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def peak_bytes() -> int:
    """In a process of its own, so that nothing else counts."""
    context = multiprocessing.get_context("spawn")
    mine, sender = context.Pipe(duplex=False)
    process = context.Process(target=_peak_bytes, args=(sender,))
    process.start()
    peak = mine.recv()
    process.join()
    return peak


def main(_: argparse.Namespace) -> dict[str, Any]:
    sizes = [
        (f"allreduce of {format_bytes(size)}", ("allreduce", size, 2, 4)) for size in (1 << p for p in range(18, 27, 2))
    ]
    nodes = [
        (f"allgather on {count} nodes", ("allgather", (1 << 20) // count, count, 4))
        for count in (8, 16, 32, 64, 128, 256)
    ]
    result: dict[str, Any] = {}
    for what, cases in (("sizes", sizes), ("nodes", nodes)):
        table = new_table(f"over {what}", "what", "accesses,seconds,ns an access")
        points = []
        for name, case in cases:
            seconds, accesses = cost(*case)
            points.append((seconds, accesses))
            table.add_row(name, f"{accesses:,}", f"{seconds:.3f}", f"{seconds / accesses * 1e9:.1f}")
        console.print(table)
        result[f"exponent_over_{what}"] = exponent(points)
        result[what] = [
            {"what": name, "seconds": s, "accesses": a} for (name, _), (s, a) in zip(cases, points, strict=True)
        ]
    result["peak_bytes"] = peak_bytes()
    power, over_nodes = result["exponent_over_sizes"], result["exponent_over_nodes"]
    linear = LINEAR[0] <= power <= LINEAR[1]
    verdict(
        linear, f"cost grows as the accesses to the power {power:.3f} over sizes (limit: {LINEAR[0]} to {LINEAR[1]})"
    )
    scales = over_nodes <= MAX_OVER_NODES
    verdict(scales, f"and to the power {over_nodes:.3f} over nodes (limit: {MAX_OVER_NODES})")
    fits = result["peak_bytes"] <= MAX_BYTES
    verdict(
        fits, f"256 nodes by all policies take {result['peak_bytes'] / (1 << 30):.2f} GiB (limit: {MAX_BYTES >> 30})"
    )
    return {"met": linear and scales and fits, **result}


if __name__ == "__main__":
    sys.exit(finish(main, parser(__doc__).parse_args()))
