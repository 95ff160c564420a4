"""Simulates the caches, TLBs and DRAM of one node for addresses that Python supplies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearfield._native import simulation, trace
from nearfield._native.memory import Access, Counts
from nearfield.base.errors import UsageError
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.native import MAX_MEMORY_SLOWDOWN, to_native

if TYPE_CHECKING:
    import numpy.typing as npt

    Addresses = npt.ArrayLike
    Array = npt.NDArray[Any]

MAX_MEMORY_SPEEDS: int = simulation.max_slowdowns  # maximum number of memory speeds in one run
MAX_ACCESS_BYTES = 1 << 20  # maximum bytes of one access
ACCESSES_BETWEEN_CHECKS = 1 << 20  # accesses between two checks for Ctrl-C


class Memory:
    """The simulated memory of one node: the caches of its cores, coherence between them, TLBs, prefetchers and DRAM.

    `machine` is the name of a described machine (`nearfield machine list`), the path of a machine file (.toml) or of a
    profile, or the result of `nearfield.machine.load_machine`. `memory_slowdown` has from one to four factors: one
    simulation computes the time for each of these DRAM speeds. Raises UsageError for anything else, and for a machine
    whose file describes no caches and no DRAM.

    Addresses are virtual, of 64 bits. A node has 128 GiB, so the GiB of an address are numbered in the order of first
    use; the lower bits stay as they are. On a machine whose sockets have memories of their own, the first eight of
    these GiB belong to the first socket, the next eight to the second one, and so on.

    Any thread may call it, but only one at a time. Different memories may run in different threads at once, since `run`
    releases Python's global interpreter lock."""

    def __init__(self, machine: str | Path | DescribedMachine, memory_slowdown: Sequence[float] = (1,)) -> None:
        described = machine if isinstance(machine, DescribedMachine) else load_machine(str(machine))
        self.machine = described
        self.memory_slowdown = _check_factors(memory_slowdown)
        self._native_machine = to_native(described)
        self.reset()

    def __repr__(self) -> str:
        return f"Memory('{self.machine.name}', memory_slowdown={self.memory_slowdown})"

    def reset(self) -> None:
        """Empties caches and TLBs, resets counts and clocks to zero, and drops the mapping of addresses."""
        filled = [*self.memory_slowdown, *[1.0] * (MAX_MEMORY_SPEEDS - len(self.memory_slowdown))]
        try:
            self.native = trace.Memory(self._native_machine, filled)
        except ValueError as error:
            raise UsageError(f"{self.machine.name} cannot be simulated: {error}") from error

    def reset_counts(self) -> None:
        """Resets the counts to zero. Caches keep their contents and clocks continue, so that the next run starts
        warm."""
        self.native.reset_counts()

    def run(self, addresses: Addresses, kinds: Access | Addresses | None = None, bytes: int = 8, core: int = 0) -> None:
        """Executes the accesses of one core, in order.

        `addresses` has shape (n,) and holds integers from 0 to 2^64 - 1: a NumPy array, preferably of uint64, or a
        list. `kinds` is None for loads, one `Access` for all, or an array of shape (n,) with values of `Access`: load
        (0) and store (1), `chase` for a load whose address depends on the previous load, `index` and `gather` for loads
        whose addresses come from an index, `load_bypass` and `store_bypass` for accesses that bypass the caches. Each
        access is to `bytes` bytes, 1 to 1 MiB; it may span several lines. `core` is counted from 0.

        A run continues where the previous one ended, without waiting for accesses in flight, so that it does not matter
        how a stream is divided into runs. Each core has a clock of its own, which begins at zero.

        Raises UsageError for anything else, and if the addresses of all runs lie in more than 128 different GiB."""
        self._check_access(bytes, core)
        array = _check_addresses(addresses)
        kind_by_access = None if kinds is None or isinstance(kinds, Access) else _check_kinds(kinds, len(array))
        common_kind = kinds if isinstance(kinds, Access) else Access.load
        try:
            for begin in range(0, len(array), ACCESSES_BETWEEN_CHECKS):
                chunk = _as_contiguous(array[begin : begin + ACCESSES_BETWEEN_CHECKS], "uint64")
                if kind_by_access is None:
                    self.native.run(chunk, common_kind, bytes, core)
                else:
                    self.native.run(
                        chunk,
                        _as_contiguous(kind_by_access[begin : begin + ACCESSES_BETWEEN_CHECKS], "uint8"),
                        bytes,
                        core,
                    )
        except OverflowError as error:
            raise UsageError(
                str(error), "Simulate a part of the trace, or subtract the base address of the program's layout."
            ) from error

    def _check_access(self, bytes: int, core: int) -> None:
        if not 1 <= bytes <= MAX_ACCESS_BYTES:
            raise UsageError(f"an access cannot have {bytes} bytes", f"It has from 1 to {MAX_ACCESS_BYTES}.")
        if not 0 <= core < self.cores:
            raise UsageError(f"{self.machine.name} has no core {core}", f"Its cores are 0 to {self.cores - 1}.")

    @property
    def cores(self) -> int:
        """Returns the number of cores of the machine."""
        return self._native_machine.cores

    @property
    def counts(self) -> Counts:
        """The counts since the beginning or `reset_counts`. Later runs do not change the returned object.

        `levels` has an entry per cache level, L1 first, summed over all cores: hits, misses, evictions, write_backs (of
        modified lines), prefetches, snoops and invalidations (for other cores), back_invalidations (by an inclusive
        outer cache). `dram` has reads, writes and prefetches in lines, bypass_reads and bypass_writes in accesses, and
        bytes of all. `tlbs` has hits and misses of each TLB level. `page_faults` counts pages touched for the first
        time, if the machine charges for that, and `transfers` lines that came from another core's cache."""
        return self.native.counts()

    @property
    def now_ns(self) -> list[float]:
        """Returns, for each memory speed, the time in ns of the core whose clock is furthest ahead. Waits for all
        outstanding accesses, like a fence."""
        return list(self.native.finished_ns()[: len(self.memory_slowdown)])

    @property
    def cycles(self) -> list[float]:
        """Returns the same times as `now_ns`, in core cycles."""
        return [time_ns * self._native_machine.core.clock_ghz for time_ns in self.now_ns]


def _check_factors(slowdown: Sequence[float]) -> tuple[float, ...]:
    remedy = f"Give one to {MAX_MEMORY_SPEEDS} numbers from 1 to {MAX_MEMORY_SLOWDOWN:g}: (1, 7.5)."
    try:
        factors = tuple(float(factor) for factor in slowdown)
    except (TypeError, ValueError) as error:
        raise UsageError(f"memory_slowdown={slowdown!r} is no sequence of numbers", remedy) from error
    if not 1 <= len(factors) <= MAX_MEMORY_SPEEDS:
        raise UsageError(f"{len(factors)} memory speeds cannot be simulated in one run", remedy)
    if invalid_factors := [factor for factor in factors if not 1 <= factor <= MAX_MEMORY_SLOWDOWN]:
        raise UsageError(f"memory cannot be {invalid_factors[0]:g} times as slow", remedy)
    return factors


def _as_contiguous(chunk: Array, dtype: str) -> Array:
    import numpy as np

    return np.ascontiguousarray(chunk, dtype=dtype)


def _check_addresses(values: Addresses) -> Array:
    """Returns the addresses as a one-dimensional array of integers. Raises UsageError if one is negative."""
    array = _as_array(values, "addresses")
    if array.dtype.kind == "i" and len(array) and (min_index := int(array.argmin())) >= 0 > array[min_index]:
        raise UsageError(f"addresses[{min_index}] is {array[min_index]}, and an address cannot be negative",
                         "Addresses above 2^63 are whole numbers of uint64: addresses.view('uint64').")  # fmt: skip
    return array


def _check_kinds(values: Addresses, num_accesses: int) -> Array:
    """Returns the kind of each access, as an array of numbers. Raises UsageError for a number that is not a kind."""
    array = _as_array(values, "kinds")
    if len(array) != num_accesses:
        raise UsageError(
            f"there are {len(array)} kinds of {num_accesses} accesses", "Give one for all, or one for each."
        )
    if num_accesses and not 0 <= array.min() <= array.max() <= max(Access):
        raise UsageError("kinds must be values of nearfield.simulate.Access",
                         ", ".join(f"{kind.value}: {kind.name}" for kind in Access))  # fmt: skip
    return array


def _as_array(values: Any, name: str) -> Array:
    try:
        import numpy as np
    except ImportError as error:
        raise UsageError("nearfield.simulate.Memory needs NumPy", "pip install numpy") from error
    if not isinstance(values, np.ndarray):
        values = _array_from_list(np, values)
    if values.ndim != 1:
        raise UsageError(f"{name} must have the shape (n,), and these have {values.shape}", f"{name}.ravel() has it.")
    if values.dtype.kind not in "iu":
        raise UsageError(f"{name} must be whole numbers, and these are {values.dtype}",
                         f"Convert them first, as you mean it: {name}.astype('uint64').")  # fmt: skip
    return values  # type: ignore[no-any-return]


def _array_from_list(np: Any, values: Any) -> Array:
    """Returns a list as an array. Integers that are too large for int64 become uint64. Raises UsageError if they are
    out of its range."""
    array = np.asarray(values)
    if array.size == 0:
        return array.astype("uint64")  # type: ignore[no-any-return]
    if array.dtype.kind in "fO" and array.ndim == 1 and all(isinstance(one, int) for one in values):
        if not 0 <= min(values) <= max(values) < 1 << 64:
            raise UsageError("an address must be from 0 to 2^64 - 1", f"These are from {min(values)} to {max(values)}.")
        return np.array(values, dtype="uint64")  # type: ignore[no-any-return]
    return array  # type: ignore[no-any-return]
