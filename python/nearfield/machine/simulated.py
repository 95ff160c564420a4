"""Runs lmbench's pointer chase and STREAM's copy on the simulated machine, and compares the results with the latencies
and the bandwidth in the machine's file. If they differ, the simulator does not represent that machine. `nearfield
machine check` prints the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nearfield._native import machine as structs
from nearfield._native import memory
from nearfield.machine.described import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.machine.schema import Memory, MemoryTier

MAX_RELATIVE_DIFFERENCE = 0.03
# Requests come in bursts, so a memory bus is only saturated if the cores can request 1.2 times its bandwidth.
MIN_REQUESTED_TO_DESCRIBED_RATIO = 1.2


@dataclass(frozen=True)
class ComparisonWithFile:
    """One latency or bandwidth of a machine's file, compared with its measurement on the simulated machine."""

    what: str
    described: float
    simulated: float
    unit: str
    is_reachable: bool = True  # False: the cores' outstanding misses may limit bandwidth to less
    cause: str = ""  # why described and simulated value differ; empty if they agree
    remedy: str = ""

    @property
    def reached(self) -> bool:
        return self.simulated >= (1 - MAX_RELATIVE_DIFFERENCE) * self.described

    @property
    def agrees(self) -> bool:
        return self.simulated <= (1 + MAX_RELATIVE_DIFFERENCE) * self.described and (
            self.reached or not self.is_reachable
        )


def compare_with_file(machine: DescribedMachine) -> list[ComparisonWithFile]:
    """Returns the comparisons of the latency of every cache (L1 first), of the latency of local memory and of memories
    behind routers, of memory bandwidth, and of the latency and bandwidth of each tier. Returns [] if the file does not
    describe a whole machine."""
    if not machine.is_simulable:
        return []
    assert machine.core and machine.memory
    clock_ghz = machine.core.clock_ghz.value
    without_tiers = _with_pages_in_tier(machine, None)
    described = [(f"cache[{n}]", cache.latency_cycles.value) for n, cache in enumerate(machine.cache)]
    described.append(("memory", machine.memory.latency_ns.value * clock_ghz))
    described += [(f"memory, routers {n}", ns * clock_ghz) for n, ns in _described_latency_by_routers(machine).items()]
    *simulated_latencies, gb_per_s = _measure_simulated(without_tiers)
    compared = [
        ComparisonWithFile(f"latency of {what}", cycles, simulated, "cycles")
        for (what, cycles), simulated in zip(described, simulated_latencies, strict=True)
    ]
    compared.append(_compare_bandwidth(machine, "memory", machine.memory, gb_per_s))
    explained = [_with_cause(without_tiers, one, place) for place, one in enumerate(compared)]
    for number, tier in enumerate(machine.memory.tier):
        variant, what, memory_place = _with_pages_in_tier(machine, number), f"memory.tier[{number}]", len(machine.cache)
        measured = _measure_simulated(variant)
        cycles = tier.latency_ns.value * clock_ghz
        latency = ComparisonWithFile(f"latency of {what}", cycles, measured[memory_place], "cycles")
        traffic = _compare_bandwidth(machine, what, tier, measured[-1])
        explained += [_with_cause(variant, latency, memory_place), _with_cause(variant, traffic, -1)]
    return explained


def _compare_bandwidth(
    machine: DescribedMachine, name: str, memory_or_tier: Memory | MemoryTier, simulated: float
) -> ComparisonWithFile:
    described = memory_or_tier.gb_per_s.value
    requestable = _max_requestable_gb_per_s(machine, memory_or_tier.latency_ns.value)
    return ComparisonWithFile(
        f"traffic of {name}",
        described,
        simulated,
        "GB/s",
        is_reachable=requestable >= MIN_REQUESTED_TO_DESCRIBED_RATIO * described,
    )


def _with_pages_in_tier(machine: DescribedMachine, tier: int | None) -> DescribedMachine:
    """Returns a copy of the machine whose pages all lie in one tier; None: in the DRAM."""
    variant = machine.model_copy(deep=True)
    assert variant.memory
    for number, one in enumerate(variant.memory.tier):
        one.share.assume(float(number == tier), "what is compared")
    return variant


def _measure_simulated(machine: DescribedMachine) -> list[float]:
    """Returns the measurements on the simulated machine, in the order and units of `compare_with_file`."""
    native_machine = to_native(machine)
    hubs = _hubs_by_routers(native_machine).values()
    ns = [
        *memory.chase_latencies_ns(native_machine),
        *(memory.chase_latency_from_ns(native_machine, hub) for hub in hubs),
    ]
    return [*(one * native_machine.core.clock_ghz for one in ns), memory.copy_traffic_gb_per_s(native_machine)]


def _hubs_by_routers(native_machine: structs.Machine) -> dict[int, int]:
    """Returns a dict from the number of routers on the path from core 0's hub to the first hub at that distance,
    nearest first; {} without linked hubs."""
    hops = memory.hops_of_hubs(native_machine) if native_machine.links else []
    return {count + 1: hops.index(count, 1) for count in sorted(set(hops[1:]))}


def _described_latency_by_routers(machine: DescribedMachine) -> dict[int, float]:
    """Returns number of routers -> described latency in ns of a memory behind this number of routers; {} without linked
    hubs."""
    if not (machine.links and machine.memory and machine.memory.remote_ns):
        return {}
    nearest, hop_ns = machine.memory.latency_ns.value + machine.memory.remote_ns.value, machine.links.hop_ns.value
    return {routers: nearest + (routers - 1) * hop_ns for routers in _hubs_by_routers(to_native(machine))}


def _with_cause(machine: DescribedMachine, comparison: ComparisonWithFile, index: int) -> ComparisonWithFile:
    """Returns the comparison. If its values differ, adds the cause: the first limit whose removal alone makes described
    and simulated value agree. `index` is the index of its value in the result of _measure_simulated."""
    if comparison.agrees:
        return comparison
    for change in LIMIT_REMOVALS:
        variant = machine.model_copy(deep=True)
        if (keys := change.apply(variant)) and replace(comparison, simulated=_measure_simulated(variant)[index]).agrees:
            return replace(comparison, cause=f"{change.cause} ({keys})", remedy=change.remedy)
    if comparison.what.startswith("latency"):
        remedy = "Latencies are load-to-use, from the core, and those of farther caches contain those of nearer ones."
    else:
        described, simulated = comparison.described, comparison.simulated
        remedy = f"If {described:.4g} is a peak of the data sheet, give memory.gb_per_s = {simulated:.3g}."
    return replace(comparison, cause="no single key accounts for it", remedy=remedy)


@dataclass(frozen=True)
class LimitRemoval:
    """Removes one limit of a machine. `apply` modifies the machine and returns the keys that set the limit; empty if
    the machine has no such limit."""

    cause: str
    remedy: str
    apply: Callable[[DescribedMachine], str]


def _raise_outstanding_misses(machine: DescribedMachine) -> str:
    assert machine.core
    more = min(4 * machine.core.outstanding_misses.value, 1 << 20)
    machine.core.outstanding_misses.assume(more, "to see what limits it")
    return "core.outstanding_misses, memory.latency_ns"


def _remove_bank_conflicts(machine: DescribedMachine) -> str:
    assert machine.memory
    had = machine.memory.banks is not None
    machine.memory.banks = machine.memory.bank_interleave_bytes = machine.memory.bank_busy_ns = None
    return "memory.banks, memory.bank_busy_ns" if had else ""


def _remove_port_limits(machine: DescribedMachine) -> str:
    keys = [f"cache[{n}].bytes_per_cycle" for n, cache in enumerate(machine.cache) if cache.bytes_per_cycle]
    for cache in machine.cache:
        cache.bytes_per_cycle = None
    return ", ".join(keys)


def _remove_prefetcher(machine: DescribedMachine) -> str:
    had, machine.prefetcher = machine.prefetcher, None
    return "prefetcher" if had else ""


def _remove_access_cost(machine: DescribedMachine) -> str:
    assert machine.core
    machine.core.cycles_per_access.assume(1e-3, "to see what limits it")
    return "core.cycles_per_access"


LIMIT_REMOVALS = (
    LimitRemoval(
        "its cores have too few misses in flight for it: a miss takes the memory's latency",
        "More misses in flight, a lower latency, or, if that is a peak of the data sheet, a lower memory.gb_per_s.",
        _raise_outstanding_misses,
    ),
    LimitRemoval(
        "its banks conflict", "More banks, a shorter busy time, or a lower memory.gb_per_s.", _remove_bank_conflicts
    ),
    LimitRemoval(
        "its caches take too long for a line", "Raise these, or leave them out: no limit.", _remove_port_limits
    ),
    LimitRemoval(
        "its prefetcher fetches what is not used", "Fewer streams, or a shorter distance.", _remove_prefetcher
    ),
    LimitRemoval("its cores take too long for an access", "Fewer cycles per access.", _remove_access_cost),
)


def _max_requestable_gb_per_s(machine: DescribedMachine, latency_ns: float) -> float:
    """Returns the maximum rate in GB/s that copying cores can request from one memory. Outstanding misses limit the
    lines read, and a copy reads two lines for each line that it writes."""
    native_machine = to_native(machine)
    line_bytes = native_machine.caches[-1].line_bytes / native_machine.caches[-1].sub_blocks
    cores = native_machine.dram.shared_by or native_machine.cores
    return 1.5 * cores * native_machine.core.outstanding_misses * line_bytes / latency_ns
