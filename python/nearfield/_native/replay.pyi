"""Observed programs on simulated clusters."""

from collections.abc import Callable, Mapping, Sequence

import nearfield._native.machine
import nearfield._native.memory
import nearfield._native.stream


class Spent:
    """Time that a rank spent, and what its core saw by the first policy."""

    @property
    def times(self) -> int: ...

    @property
    def time_ns(self) -> list[list[float]]:
        """
        Times by policy, then by memory slowdown; those beyond the last one that was asked for repeat it.
        """

    @property
    def hits(self) -> list[int]:
        """By level of cache."""

    @property
    def misses(self) -> list[int]:
        """By level of cache."""

    @property
    def tlb_misses(self) -> int: ...

class CallPlace:
    """A place in the program from which MPI is called."""

    @property
    def object(self) -> str: ...

    @property
    def offset(self) -> int: ...

    @property
    def callers(self) -> list[CallPlace]: ...

class Call:
    """A function of MPI, called from one place."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> CallPlace: ...

    @property
    def spent(self) -> Spent: ...

    @property
    def timeline(self) -> list[float]: ...

class TimingSensitivity:
    """How often time could have decided otherwise."""

    @property
    def from_any(self) -> int: ...

    @property
    def contested(self) -> int: ...

    @property
    def looks(self) -> int: ...

    @property
    def failed_looks(self) -> int: ...

    @property
    def waits_for_any(self) -> int: ...

    @property
    def outcomes(self) -> int:
        """That time decides."""

    @property
    def otherwise(self) -> list[list[int]]:
        """
        How many of these would have been others, by policy and memory slowdown; policies there are none of have 0.
        """

class RankOutcome:
    @property
    def calls(self) -> list[Call]: ...

    @property
    def computing(self) -> Spent: ...

    @property
    def accesses(self) -> int: ...

    @property
    def skipped_accesses(self) -> int: ...

    @property
    def flops(self) -> float: ...

    @property
    def dependence(self) -> TimingSensitivity: ...

    @property
    def regions(self) -> list[str]: ...

class Replayed:
    """An observed program on a simulated cluster."""

    @property
    def ranks(self) -> list[RankOutcome]: ...

    @property
    def part_ns(self) -> float:
        """
        How long a part of the calls' timelines is; these are times of the first policy and memory speed, in ps.
        """

    @property
    def finished_ns(self) -> list[list[list[float]]]:
        """By rank, policy and memory slowdown."""

    @property
    def memory(self) -> list[nearfield._native.memory.Counts]:
        """The counts of all nodes together, by policy."""

    @property
    def memory_at(self) -> list[list[nearfield._native.memory.Counts]]:
        """The same, by policy and memory slowdown."""

    @property
    def nic_polls(self) -> list[list[int]]:
        """Looks of cores at their event queues, by policy and memory slowdown."""

    @property
    def messages(self) -> int: ...

    @property
    def network_bytes(self) -> int: ...

class RemoteShardFailed(Exception):
    pass

class Shards:
    """
    The processes that simulate one cluster together, as one of them sees them.
    """

    def __init__(self, number: int, count: int, exchange: Callable) -> None:
        """
        `exchange` gives bytes to all shards and returns the list of what each of them gave, in their order.
        """

def run(machine: nearfield._native.machine.Machine, nodes: int, ranks_per_node: int, policies: Sequence[str], memory_slowdown: Sequence[float], streams: Sequence[str] | nearfield._native.stream.Live, flops_of: Callable[[str], Mapping[int, float]] | None, regions: Sequence[str], count_sides: bool, threads: int, progress: Callable[[int], None] | None, apart: bool, shards: Shards | None = None) -> Replayed:
    """
    Runs a program whose rank r wrote streams[r], or that runs meanwhile. `flops_of` returns the floating-point operations that an access comes with, by the offset of its place in the object of a path; None: there are none. `regions`: names of those that count; none: all of it. `threads`: of the host, at most; results are the same with any number. `progress` is called now and then, in the caller's thread, with the accesses that have been read. `apart`: each policy at each speed in a run of its own. `shards`: those that run the same; the first one's result is that of all ranks, and `progress` is called with the accesses of this shard's ranks, once in each window at least. Raises ValueError for an impossible cluster, RuntimeError for streams that cannot be simulated, RemoteShardFailed if another shard failed.
    """
