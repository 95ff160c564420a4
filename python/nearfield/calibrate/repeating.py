"""Simulates the micro-benchmarks on the described machine, so that their simulated times can be compared with the
measured ones."""

from __future__ import annotations

from collections.abc import Iterable

from nearfield._native import machine as structs
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.calibrate import simulated as sim
from nearfield.calibrate.measured import CalibratedPlace, Measurements, select_kernel_copies
from nearfield.calibrate.places import missing_lines_bytes
from nearfield.calibrate.probing import PAGE_STRIDE_BYTES
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native

KIB = 1 << 10


def simulate_micro_benchmarks(
    machine: DescribedMachine, measurements: Measurements, place: CalibratedPlace | None
) -> Iterable[tuple[str, Estimate, float]]:
    """Simulates each micro-benchmark on the fitted machine. Yields (name, measured time, simulated time), times in
    ns."""
    native_machine = to_native(machine)
    native_with_huge_pages = sim.with_huge_pages(native_machine)
    for size, time in [
        *measurements.cache_chains,
        *_chains_in_last_cache(machine, measurements),
        measurements.memory_chain,
    ]:
        yield f"chain of {format_bytes(size)}", time, sim.chase_ns(native_with_huge_pages, size)
    best = min(measurements.concurrent_memory_chains.values(), key=lambda one: one.value)
    yield (
        "many chains through memory",
        best,
        sim.independent_chains_ns(native_with_huge_pages, measurements.memory_chain[0]),
    )
    native_without_faults = sim.without_fault_cost(native_machine)
    for size, time in measurements.in_order_chains.items():
        yield f"lines in order of {format_bytes(size)}", time, sim.chase_ns(native_without_faults, size, in_order=True)
    for size, time in measurements.reads.items():
        yield (
            f"reading {format_bytes(size)}",
            time,
            sim.read_ns(native_without_faults, min(size, 16 << 20)) * max(1, size / (16 << 20)),
        )
    for size, time in measurements.copies.items():
        if size >= 4 * KIB:
            yield f"copying {format_bytes(size)}", time, sim.copy_ns(native_with_huge_pages, size)
    for count, (time, _) in measurements.page_chains.items():
        if count in (32, 512, 1024, 4096):
            yield (
                f"chain over {count} pages",
                time,
                sim.chase_ns(native_without_faults, count * PAGE_STRIDE_BYTES, PAGE_STRIDE_BYTES),
            )
    if measurements.page_fault:
        yield "first touch of base pages", measurements.page_fault, sim.first_touch_ns(native_machine)
    if measurements.huge_page_fault and native_machine.pages.huge_fault_ns > 0:
        huge = structs.Machine(native_machine)
        huge.pages.page_bytes, huge.pages.fault_ns = sim.HUGE_PAGE_BYTES, native_machine.pages.huge_fault_ns
        yield "first touch of huge pages", measurements.huge_page_fault, sim.first_touch_ns(huge, 16)
    for size, time in select_kernel_copies(measurements, place).items():
        yield f"copying {format_bytes(size)} by the kernel", time, sim.kernel_copy_ns(native_machine, size)
    if place:
        yield "flag", place.flag_ns, sim.flag_ns(native_with_huge_pages)
    if place and place.store_to_shared_line_ns:
        yield (
            "stores to shared lines",
            place.store_to_shared_line_ns,
            sim.store_to_shared_lines_ns(native_with_huge_pages, 16 * KIB),
        )
    if place and place.store_to_shared_line_miss_ns:
        size = missing_lines_bytes([cache.size_bytes for cache in native_with_huge_pages.caches])
        time = place.store_to_shared_line_miss_ns
        yield (
            "stores to shared lines beyond the nearest cache",
            time,
            sim.store_to_shared_lines_ns(native_with_huge_pages, size),
        )
    if place and place.read_of_written_line_ns:
        yield (
            "reading what the other core wrote",
            place.read_of_written_line_ns,
            sim.read_of_written_lines_ns(native_with_huge_pages, 16 * KIB),
        )


def _chains_in_last_cache(machine: DescribedMachine, measurements: Measurements) -> list[tuple[int, Estimate]]:
    """Returns bytes and time of about three chains that fit into half of the described last cache."""
    if not measurements.last_cache_chains or len(machine.cache) <= len(measurements.cache_chains):
        return []
    size = machine.cache[-1].size_bytes.value
    first = min(measurements.last_cache_chains)
    inside = [one for one in measurements.last_cache_chains if one <= max(first, size // 2)]
    return [(one, measurements.last_cache_chains[one]) for one in inside[:: max(1, len(inside) // 3)]]
