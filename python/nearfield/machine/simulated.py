"""What lmbench and STREAM find on the simulated machine, beside what its file says: they must agree, or the simulator
does not simulate that machine. `nearfield machine check` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield._native import memory
from nearfield.machine.native import native
from nearfield.machine.schema import DescribedMachine

TOLERANCE = 0.03


@dataclass(frozen=True)
class Comparison:
    what: str
    described: float
    simulated: float
    unit: str
    reachable: bool = True  # False: the cores cannot have enough under way, so that it is only a bound

    @property
    def agrees(self) -> bool:
        below = self.simulated <= (1 + TOLERANCE) * self.described
        return below and (not self.reachable or self.simulated >= (1 - TOLERANCE) * self.described)


def comparisons(machine: DescribedMachine) -> list[Comparison]:
    """Latency of every cache, nearest first, then of memory, and the memory's bandwidth; [] if the file does not
    describe a whole machine."""
    if not machine.simulable:
        return []
    assert machine.core and machine.memory
    clock_ghz = machine.core.clock_ghz.value
    described = [(f"cache[{n}]", cache.latency_cycles.value) for n, cache in enumerate(machine.cache)]
    described.append(("memory", machine.memory.latency_ns.value * clock_ghz))
    found_ns = memory.chase_latencies_ns(native(machine))
    latencies = [
        Comparison(f"latency of {what}", cycles, ns * clock_ghz, "cycles")
        for (what, cycles), ns in zip(described, found_ns, strict=True)
    ]
    gb_per_s = memory.copy_traffic_gb_per_s(native(machine))
    described_gb_per_s = machine.memory.gb_per_s.value
    reachable = _under_way_gb_per_s(machine) >= described_gb_per_s
    return [*latencies, Comparison("traffic of memory", described_gb_per_s, gb_per_s, "GB/s", reachable)]


def _under_way_gb_per_s(machine: DescribedMachine) -> float:
    """What copying cores can at most ask one memory for: two lines read, by so many misses at a time, for one that is
    written."""
    made = native(machine)
    line_bytes = made.caches[-1].line_bytes / made.caches[-1].sub_blocks
    cores = made.dram.shared_by or made.cores
    return 1.5 * cores * made.core.outstanding_misses * line_bytes / made.dram.latency_ns
