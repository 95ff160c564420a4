"""The simulated memory of a node."""

from collections.abc import Sequence
import enum
from typing import Annotated

import numpy
from numpy.typing import NDArray

import nearfield._native.machine


class Access(enum.IntEnum):
    load = 0

    store = 1

    chase = 2

    index = 3

    gather = 4

    load_bypass = 5

    store_bypass = 6

class LevelCounts:
    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    @property
    def evictions(self) -> int: ...

    @property
    def write_backs(self) -> int: ...

    @property
    def back_invalidations(self) -> int: ...

    @property
    def snoops(self) -> int: ...

    @property
    def invalidations(self) -> int: ...

    @property
    def prefetches(self) -> int: ...

    @property
    def injections(self) -> int: ...

    @property
    def injected_unused(self) -> int: ...

    @property
    def injected_victims(self) -> int: ...

    @property
    def victims_missed(self) -> int: ...

    def to_dict(self) -> dict:
        """All numbers by name, as plain data."""

    def __repr__(self) -> str: ...

class DramCounts:
    @property
    def reads(self) -> int: ...

    @property
    def writes(self) -> int: ...

    @property
    def prefetches(self) -> int: ...

    @property
    def bypass_reads(self) -> int: ...

    @property
    def bypass_writes(self) -> int: ...

    @property
    def dma_reads(self) -> int: ...

    @property
    def dma_writes(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def to_dict(self) -> dict:
        """All numbers by name, as plain data."""

    def __repr__(self) -> str: ...

class TlbCounts:
    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...

    def to_dict(self) -> dict:
        """All numbers by name, as plain data."""

    def __repr__(self) -> str: ...

class Counts:
    @property
    def levels(self) -> list[LevelCounts]: ...

    @property
    def dram(self) -> DramCounts: ...

    @property
    def tlbs(self) -> list[TlbCounts]: ...

    @property
    def page_faults(self) -> int: ...

    @property
    def transfers(self) -> int: ...

    def to_dict(self) -> dict:
        """All numbers by name, as plain data."""

    def __repr__(self) -> str: ...

max_cache_levels: int = 6

class Memory:
    """One node's memory; ValueError for a geometry that cannot be."""

    def __init__(self, machine: nearfield._native.machine.Machine, memory_slowdown: Sequence[float] = [1.0, 1.0, 1.0, 1.0], variants: int = 1) -> None: ...

    def replay(self, addresses: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], core: int = 0, kind: Access = Access.load, bytes: int = 8) -> None:
        """
        Accesses of so many bytes at these addresses (uint64, contiguous), in order.
        """

    def sweep(self, core: int, kind: Access, address: int, count: int, stride_bytes: int, bytes: int, work_ps: float = 0) -> None: ...

    def write_by_device(self, address: int, bytes: int, levels: Sequence[int]) -> None:
        """
        A device writes, when core 0's clock has come so far: for each variant into core 0's cache of this level, counted from 0, or to memory (-1).
        """

    def drain(self, core: int) -> None: ...

    def counts(self) -> Counts: ...

    def reset_counts(self) -> None: ...

    def now_ns(self, core: int) -> list[float]:
        """Returns the time of the core on the clock of every memory speed."""

def chase_latencies_ns(machine: nearfield._native.machine.Machine) -> list[float]: ...

def chase_latency_from_ns(machine: nearfield._native.machine.Machine, hub: int) -> float: ...

def hops_of_hubs(machine: nearfield._native.machine.Machine) -> list[int]:
    """
    Returns the links between routers from core 0's hub to each hub; [] if there are none.
    """

def copy_traffic_gb_per_s(machine: nearfield._native.machine.Machine) -> float: ...
