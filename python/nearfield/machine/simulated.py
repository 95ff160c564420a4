"""What a chain of dependent loads takes on the simulated machine, beside what its file says: the two must agree, or
the simulator does not simulate that machine. `nearfield machine check` prints it."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield._native import machine as structs
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
    """Of every cache, nearest first, then memory; [] if the extension module has no simulator.

    `simulated_latencies(machine)` gives them in ns, in that order."""
    measure = getattr(structs, "simulated_latencies", None)
    if measure is None or not machine.simulable:
        return []
    found_ns = measure(native(machine))
    assert machine.core and machine.memory
    clock_ghz = machine.core.clock_ghz.value
    described = [(f"cache[{n}]", cache.latency_cycles.value) for n, cache in enumerate(machine.cache)]
    described.append(("memory", machine.memory.latency_ns.value * clock_ghz))
    return [
        Comparison(what, cycles, ns * clock_ghz, "cycles")
        for (what, cycles), ns in zip(described, found_ns, strict=True)
    ]
