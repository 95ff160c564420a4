"""Repeats the micro-benchmarks by simulation on the described machine, so that their times can be compared with the
measured ones."""

from __future__ import annotations

from collections.abc import Iterable

from nearfield._native import machine as structs
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.calibrate import simulated as sim
from nearfield.calibrate.measured import Measurements, Place, select_kernel_copies
from nearfield.calibrate.places import missing_lines_bytes
from nearfield.calibrate.probing import PAGE_STRIDE
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native

KIB = 1 << 10


def simulate_micro_benchmarks(
    machine: DescribedMachine, found: Measurements, place: Place | None
) -> Iterable[tuple[str, Estimate, float]]:
    """Simulates each micro-benchmark on the fitted machine. Yields (name, measured time, simulated time), times in
    ns."""
    pages = to_native(machine)
    made = sim.in_huge_pages(pages)
    for size, time in [*found.levels, *_chains_in_last_cache(machine, found), found.memory]:
        yield f"chain of {format_bytes(size)}", time, sim.chase_ns(made, size)
    best = min(found.chains.values(), key=lambda one: one.value)
    yield "many chains through memory", best, sim.independent_chains_ns(made, found.memory[0])
    base = sim.without_fault_cost(pages)
    for size, time in found.in_order.items():
        yield f"lines in order of {format_bytes(size)}", time, sim.chase_ns(base, size, in_order=True)
    for size, time in found.reads.items():
        yield f"reading {format_bytes(size)}", time, sim.read_ns(base, min(size, 16 << 20)) * max(1, size / (16 << 20))
    for size, time in found.copies.items():
        if size >= 4 * KIB:
            yield f"copying {format_bytes(size)}", time, sim.copy_ns(made, size)
    for count, (time, _) in found.pages.items():
        if count in (32, 512, 1024, 4096):
            yield f"chain over {count} pages", time, sim.chase_ns(base, count * PAGE_STRIDE, PAGE_STRIDE)
    if found.fault:
        yield "first touch of base pages", found.fault, sim.first_touch_ns(pages)
    if found.huge_fault and pages.pages.huge_fault_ns > 0:
        huge = structs.Machine(pages)
        huge.pages.page_bytes, huge.pages.fault_ns = sim.HUGE_BYTES, pages.pages.huge_fault_ns
        yield "first touch of huge pages", found.huge_fault, sim.first_touch_ns(huge, 16)
    for size, time in select_kernel_copies(found, place).items():
        yield f"copying {format_bytes(size)} by the kernel", time, sim.kernel_copy_ns(pages, size)
    if place:
        yield "flag", place.flag_ns, sim.flag_ns(made)
    if place and place.store_read_ns:
        yield "stores to shared lines", place.store_read_ns, sim.store_read_ns(made, 16 * KIB)
    if place and place.store_read_missing_ns:
        size = missing_lines_bytes([cache.size_bytes for cache in made.caches])
        time = place.store_read_missing_ns
        yield "stores to shared lines beyond the nearest cache", time, sim.store_read_ns(made, size)
    if place and place.read_written_ns:
        yield "reading what the other core wrote", place.read_written_ns, sim.read_written_ns(made, 16 * KIB)


def _chains_in_last_cache(machine: DescribedMachine, found: Measurements) -> list[tuple[int, Estimate]]:
    """Returns bytes and time of about three chains that fit into half of the described last cache."""
    if not found.by_bytes or len(machine.cache) <= len(found.levels):
        return []
    size = machine.cache[-1].size_bytes.value
    first = min(found.by_bytes)
    inside = [one for one in found.by_bytes if one <= max(first, size // 2)]
    return [(one, found.by_bytes[one]) for one in inside[:: max(1, len(inside) // 3)]]
