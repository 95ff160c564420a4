"""Traces of programs' accesses."""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray

import nearfield._native.machine
import nearfield._native.memory


class Memory:
    """One node's memory, for 64-bit virtual addresses."""

    def __init__(self, machine: nearfield._native.machine.Machine, memory_slowdown: Sequence[float]) -> None: ...

    @overload
    def run(self, addresses: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: nearfield._native.memory.Access, bytes: int, core: int) -> None: ...

    @overload
    def run(self, addresses: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], kinds: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: int, core: int) -> None:
        """
        Makes accesses of the kinds, which must be values of Access, as many as addresses.
        """

    def counts(self) -> nearfield._native.memory.Counts: ...

    def reset_counts(self) -> None: ...

    def finished_ns(self) -> list[float]:
        """
        Waits until nothing is under way. Returns the time of the core that is last, at each speed of memory.
        """

class Format:
    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def expected(self) -> str: ...

class Accesses:
    """What was read from traces."""

    def __init__(self, memory: Memory, skip: int, limit: int | None, instructions: bool) -> None: ...

    @property
    def full(self) -> bool: ...

    @property
    def threads(self) -> int: ...

    @property
    def loads(self) -> int: ...

    @property
    def stores(self) -> int: ...

    @property
    def instructions(self) -> int: ...

    @property
    def others(self) -> int: ...

    @property
    def skipped(self) -> int: ...

class Reader:
    """Reads one trace; ValueError for a record that cannot be read."""

    def __init__(self, format: str, accesses: Accesses) -> None: ...

    def feed(self, bytes: bytes) -> None: ...

    def finish(self) -> None: ...

def formats() -> list[Format]:
    """Returns all formats of traces."""

def recognised(beginning: bytes) -> str:
    """
    Returns the name of the format in which these lines can be read; empty if there is none.
    """
