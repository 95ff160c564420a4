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

    @property
    def agrees(self) -> bool:
        return abs(self.simulated - self.described) <= TOLERANCE * self.described


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
    return [*latencies, Comparison("traffic of memory", machine.memory.gb_per_s.value, gb_per_s, "GB/s")]
