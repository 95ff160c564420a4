"""Runs the micro-benchmarks of src/calibrate in the simulated memory of a described machine: the same chains, copies
and first touches."""

from __future__ import annotations

import random
from array import array
from functools import lru_cache
from typing import Any

from nearfield._native import machine as structs
from nearfield._native import memory

CACHE_LINE_BYTES = 64
HUGE_PAGE_BYTES = 2 << 20
MAX_COLD_LINES = 1 << 16  # maximum length of a simulated chain that starts with cold caches
_TARGET_ADDRESS = 1 << 31  # address of the block that is copied to


def with_huge_pages(machine: structs.Machine) -> structs.Machine:
    """Returns a copy of the machine with huge pages for all memory and without page fault cost, because the
    micro-benchmarks touch their memory before timing starts."""
    result = structs.Machine(machine)
    result.pages.page_bytes = HUGE_PAGE_BYTES
    result.pages.fault_ns = 0.0
    return result


def without_fault_cost(machine: structs.Machine) -> structs.Machine:
    """Returns a copy of the machine whose page faults cost nothing, because the micro-benchmarks touch their memory
    before timing starts."""
    result = structs.Machine(machine)
    result.pages.fault_ns = 0.0
    return result


@lru_cache(maxsize=8)
def _chain_addresses(elements: int, stride: int, in_order: bool) -> Any:  # mypy rejects array.array for the bindings
    """Returns the addresses of a chain's elements in the order of the loads: ascending, or in a fixed random order."""
    addresses = [HUGE_PAGE_BYTES + i * stride for i in range(elements)]
    if not in_order:
        random.Random(1).shuffle(addresses)
    return array("Q", addresses)


def chase_ns(machine: structs.Machine, size: int, stride: int = CACHE_LINE_BYTES, *, in_order: bool = False) -> float:
    """Returns the time per load, in ns, of a chain of dependent loads over `size` bytes. A chain that may fit into
    caches is followed once before timing. A chain much longer than all caches is shortened and starts with cold
    caches."""
    return _time_per_load_ns(machine, size, stride, memory.Access.chase, in_order=in_order)


def independent_chains_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time per load, in ns, of independent loads from memory, as many in flight as the machine allows."""
    return _time_per_load_ns(machine, size, CACHE_LINE_BYTES, memory.Access.load, in_order=False)


def _time_per_load_ns(
    machine: structs.Machine, size: int, stride: int, kind: memory.Access, *, in_order: bool
) -> float:
    elements = size // stride
    reach = sum(cache.size_bytes for cache in machine.caches)
    cold = elements * CACHE_LINE_BYTES > 2 * reach and elements > MAX_COLD_LINES
    max_lines = MAX_COLD_LINES // 4 if in_order else MAX_COLD_LINES
    addresses = _chain_addresses(min(elements, max_lines) if cold else elements, stride, in_order)
    simulated = memory.Memory(machine)
    if not cold:
        simulated.replay(addresses, kind=kind)
        simulated.drain(0)
    start = simulated.now_ns(0)[0]
    simulated.replay(addresses, kind=kind)
    simulated.drain(0)
    return (simulated.now_ns(0)[0] - start) / len(addresses)


def read_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time in ns of a second sequential read of `size` bytes in words of 8 bytes."""
    simulated = memory.Memory(machine)
    for _ in range(2):
        start = simulated.now_ns(0)[0]
        simulated.sweep(0, memory.Access.load, HUGE_PAGE_BYTES, size // 8, 8, 8)
        simulated.drain(0)
    return simulated.now_ns(0)[0] - start


def copy_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time in ns of a third copy of `size` bytes between the same buffers."""
    simulated = memory.Memory(machine)
    for _ in range(3):
        start = simulated.now_ns(0)[0]
        simulated.copy(0, _TARGET_ADDRESS, HUGE_PAGE_BYTES, size)
        simulated.drain(0)
    return simulated.now_ns(0)[0] - start


def kernel_copy_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time in ns of a copy by the kernel, computed as in protocol single-copy: a system call, a cost per
    page, and the copy itself."""
    costs, pages = machine.messaging, -(-size // machine.pages.page_bytes)
    return costs.system_call_ns + pages * costs.copy_page_ns + copy_ns(with_huge_pages(machine), size)


def first_touch_ns(machine: structs.Machine, pages: int = 64) -> float:
    """Returns the time per page, in ns, of the first store to each of `pages` pages."""
    simulated, page = memory.Memory(machine), machine.pages.page_bytes
    simulated.sweep(0, memory.Access.store, page, pages, page, 1)
    simulated.drain(0)
    return simulated.now_ns(0)[0] / pages


def flag_ns(machine: structs.Machine) -> float:
    """Returns the core-to-core latency in ns: the time of a store to a flag by core 0, plus the time of the load by
    core 1 that gets the line."""
    simulated, flag = memory.Memory(machine), HUGE_PAGE_BYTES
    total = 0.0
    for _ in range(3):  # the first round starts with the line in no cache
        before = simulated.now_ns(0)[0]
        simulated.sweep(0, memory.Access.store, flag, 1, 0, 8)
        stored = simulated.now_ns(0)[0] - before
        before = simulated.now_ns(1)[0]
        simulated.sweep(1, memory.Access.chase, flag, 1, 0, 8)
        total = stored + simulated.now_ns(1)[0] - before
    return total


def store_to_shared_lines_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time per line, in ns, of stores by core 0 to lines that core 1 has just read."""
    simulated, lines = memory.Memory(machine), size // CACHE_LINE_BYTES
    simulated.sweep(0, memory.Access.store, HUGE_PAGE_BYTES, lines, CACHE_LINE_BYTES, 1)
    simulated.sweep(1, memory.Access.load, HUGE_PAGE_BYTES, lines, CACHE_LINE_BYTES, 8)
    simulated.drain(0)
    start = simulated.now_ns(0)[0]
    simulated.sweep(0, memory.Access.store, HUGE_PAGE_BYTES, lines, CACHE_LINE_BYTES, 1)
    simulated.drain(0)
    return (simulated.now_ns(0)[0] - start) / lines


def read_of_written_lines_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time per line, in ns, in which core 1 reads lines in order that core 0 has just written."""
    simulated, lines = memory.Memory(machine), size // CACHE_LINE_BYTES
    simulated.sweep(1, memory.Access.load, HUGE_PAGE_BYTES, size // 8, 8, 8)
    simulated.sweep(0, memory.Access.store, HUGE_PAGE_BYTES, lines, CACHE_LINE_BYTES, 1)
    simulated.drain(1)
    start = simulated.now_ns(1)[0]
    simulated.sweep(1, memory.Access.load, HUGE_PAGE_BYTES, size // 8, 8, 8)
    simulated.drain(1)
    return (simulated.now_ns(1)[0] - start) / lines
