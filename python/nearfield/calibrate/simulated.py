"""The micro-benchmarks on the simulated machine: the same chains, copies and touches as src/calibrate makes, by the
simulated memory."""

from __future__ import annotations

import random
from array import array
from functools import lru_cache
from typing import Any

from nearfield._native import machine as structs
from nearfield._native import memory

LINE = 64
HUGE_BYTES = 2 << 20
MAX_COLD_LINES = 1 << 16  # of a chain through memory that no cache has had
_TARGET_ADDRESS = 1 << 31  # addresses of another block


def in_huge_pages(machine: structs.Machine) -> structs.Machine:
    """Returns the machine with huge pages everywhere, whose first touch costs nothing, since it is not timed."""
    made = structs.Machine(machine)
    made.pages.page_bytes = HUGE_BYTES
    made.pages.fault_ns = 0.0
    return made


@lru_cache(maxsize=8)
def _chain_addresses(elements: int, stride: int, in_order: bool) -> Any:  # the type checker knows no arrays of C++
    addresses = [HUGE_BYTES + i * stride for i in range(elements)]
    if not in_order:
        random.Random(1).shuffle(addresses)
    return array("Q", addresses)


def chase_ns(machine: structs.Machine, size: int, stride: int = LINE, *, in_order: bool = False) -> float:
    """Returns the time per load of a chain of dependent loads over `size` bytes, in ns. The chain is followed once
    before; one that is longer than all caches is shortened, and followed once by caches that never had it."""
    return _per_load_ns(machine, size, stride, memory.Access.chase, in_order=in_order)


def independent_chains_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time per load of as many independent chains as the machine can follow, in ns."""
    return _per_load_ns(machine, size, LINE, memory.Access.load, in_order=False)


def _per_load_ns(machine: structs.Machine, size: int, stride: int, kind: memory.Access, *, in_order: bool) -> float:
    elements = size // stride
    reach = sum(cache.size_bytes for cache in machine.caches)
    cold = elements * LINE > 2 * reach and elements > MAX_COLD_LINES
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
    """Returns the time of reading `size` bytes once more, in order, in words of 8 bytes."""
    simulated = memory.Memory(machine)
    for _ in range(2):
        start = simulated.now_ns(0)[0]
        simulated.sweep(0, memory.Access.load, HUGE_BYTES, size // 8, 8, 8)
        simulated.drain(0)
    return simulated.now_ns(0)[0] - start


def copy_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time of copying `size` bytes once more."""
    simulated = memory.Memory(machine)
    for _ in range(3):
        start = simulated.now_ns(0)[0]
        simulated.copy(0, _TARGET_ADDRESS, HUGE_BYTES, size)
        simulated.drain(0)
    return simulated.now_ns(0)[0] - start


def kernel_copy_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time of a copy by the kernel, as protocol single-copy simulates it."""
    costs, pages = machine.messaging, -(-size // machine.pages.page_bytes)
    return costs.system_call_ns + pages * costs.copy_page_ns + copy_ns(in_huge_pages(machine), size)


def first_touch_ns(machine: structs.Machine, pages: int = 64) -> float:
    """Returns the time per page of the first store to each of some pages."""
    simulated, page = memory.Memory(machine), machine.pages.page_bytes
    simulated.sweep(0, memory.Access.store, page, pages, page, 1)
    simulated.drain(0)
    return simulated.now_ns(0)[0] / pages


def flag_ns(machine: structs.Machine) -> float:
    """Returns the time of a flag's way between cores 0 and 1: the store, and the load that waits for it."""
    simulated, flag = memory.Memory(machine), HUGE_BYTES
    total = 0.0
    for _ in range(3):  # at first, nobody has the line
        before = simulated.now_ns(0)[0]
        simulated.sweep(0, memory.Access.store, flag, 1, 0, 8)
        stored = simulated.now_ns(0)[0] - before
        before = simulated.now_ns(1)[0]
        simulated.sweep(1, memory.Access.chase, flag, 1, 0, 8)
        total = stored + simulated.now_ns(1)[0] - before
    return total


def store_read_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time per line of stores to lines that the other core has read."""
    simulated, lines = memory.Memory(machine), size // LINE
    simulated.sweep(0, memory.Access.store, HUGE_BYTES, lines, LINE, 1)
    simulated.sweep(1, memory.Access.load, HUGE_BYTES, lines, LINE, 8)
    simulated.drain(0)
    start = simulated.now_ns(0)[0]
    simulated.sweep(0, memory.Access.store, HUGE_BYTES, lines, LINE, 1)
    simulated.drain(0)
    return (simulated.now_ns(0)[0] - start) / lines


def read_written_ns(machine: structs.Machine, size: int) -> float:
    """Returns the time per line of reading in order what the other core has written."""
    simulated, lines = memory.Memory(machine), size // LINE
    simulated.sweep(1, memory.Access.load, HUGE_BYTES, size // 8, 8, 8)
    simulated.sweep(0, memory.Access.store, HUGE_BYTES, lines, LINE, 1)
    simulated.drain(1)
    start = simulated.now_ns(1)[0]
    simulated.sweep(1, memory.Access.load, HUGE_BYTES, size // 8, 8, 8)
    simulated.drain(1)
    return (simulated.now_ns(1)[0] - start) / lines
