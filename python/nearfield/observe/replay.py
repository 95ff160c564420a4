"""Replays an observed program on a simulated cluster, and sums up the times of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearfield._native import replay, stream
from nearfield.base.errors import NearfieldError, UsageError
from nearfield.base.words import join_and
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.measure.sim.mpi_shards import SingleShard

TimesByPolicy = list[list[float]]  # nanoseconds by policy, then by memory slowdown


class ReplayError(NearfieldError):
    """A program cannot be simulated: its streams are unsuitable, or its ranks would deadlock."""


# A function that returns the source line of an MPI call as text, from the name of the MPI function and the call stack:
# (path, offset) of the call, then of its callers.
CallLineLookup = Callable[[str, list[tuple[str, int]]], str]


@dataclass(frozen=True)
class Cluster:
    """The simulated cluster, with the NIC policies and memory slowdowns to compare."""

    machine: DescribedMachine
    nodes: int
    ranks_per_node: int
    policies: tuple[str, ...]  # the base policy first
    slowdowns: tuple[float, ...]  # one to four
    uses_independent_runs: bool = False  # simulates each policy at each slowdown in a separate run

    @property
    def num_runs(self) -> int:
        """Returns the number of simulation runs."""
        return len(self.policies) * len(self.slowdowns) if self.uses_independent_runs else 1


@dataclass
class CallSite:
    """The calls of one MPI function from one source line, summed over all ranks."""

    name: str
    line: str
    calls: int = 0
    time_ns: TimesByPolicy = field(default_factory=list)


@dataclass(frozen=True)
class Replay:
    """The result of replaying a program on a simulated cluster."""

    cluster: Cluster
    replayed: replay.Replayed
    line_of: CallLineLookup
    scheduled_policy: int | None = None  # index of the policy whose schedules were recorded

    def rank_times(self) -> Iterator[TimesByPolicy]:
        """Yields for each rank the time in MPI calls and between them, within the requested regions."""
        for rank in self.replayed.ranks:
            total = self._select_simulated_slowdowns(rank.computing.time_ns)
            for call in rank.calls:
                _add_times(total, call.spent.time_ns)
            yield total

    def time_ns(self) -> TimesByPolicy:
        """Returns the time of the slowest rank in ns, by policy and memory slowdown."""
        ranks = list(self.rank_times())
        return [
            [max(rank[policy][speed] for rank in ranks) for speed in range(len(self.cluster.slowdowns))]
            for policy in range(len(self.cluster.policies))
        ]

    def computing_ns(self) -> TimesByPolicy:
        """Returns the time between MPI calls in ns, summed over ranks, by policy and memory slowdown."""
        total = self._select_simulated_slowdowns(self.replayed.ranks[0].computing.time_ns)
        for rank in self.replayed.ranks[1:]:
            _add_times(total, rank.computing.time_ns)
        return total

    def call_sites(self) -> list[CallSite]:
        """Returns the call sites in descending order of their time under the base policy."""
        sites: dict[tuple[str, str], CallSite] = {}
        for rank in self.replayed.ranks:
            for call in rank.calls:
                key = call.name, self.source_line_of(call)
                site = sites.setdefault(
                    key, CallSite(*key, time_ns=self._select_simulated_slowdowns(call.spent.time_ns, factor=0))
                )
                site.calls += call.spent.times
                _add_times(site.time_ns, call.spent.time_ns)
        return sorted(sites.values(), key=lambda site: -site.time_ns[0][0])

    def count_timing_dependent_outcomes(self) -> int:
        """Returns the number of MPI outcomes that depend on timing: of receives from any source, tests, probes and
        Waitany."""
        return sum(rank.dependence.outcomes for rank in self.replayed.ranks)

    def count_divergent_outcomes(self) -> list[list[int]]:
        """Returns how many of the timing-dependent outcomes would have differed from the simulated ones, by policy and
        memory slowdown."""
        tallies = [rank.dependence.otherwise for rank in self.replayed.ranks]
        return [
            [sum(tally[policy][speed] for tally in tallies) for speed in range(len(self.cluster.slowdowns))]
            for policy in range(len(self.cluster.policies))
        ]

    def schedules(self) -> list[list[replay.Step]]:
        """Returns the steps of each rank; none unless schedules were recorded."""
        return [self.replayed.schedule(rank) for rank in range(self.cluster.nodes * self.cluster.ranks_per_node)]

    def source_line_of(self, call: replay.Call) -> str:
        """Returns the source line of an MPI call as text."""
        return self.line_of(call.name, [(place.object, place.offset) for place in (call.place, *call.place.callers)])

    def _select_simulated_slowdowns(self, times: TimesByPolicy, factor: float = 1) -> TimesByPolicy:
        """Returns the times of the simulated slowdowns only, each multiplied by `factor`."""
        return [[factor * time for time in of_policy[: len(self.cluster.slowdowns)]] for of_policy in times]


def replay_program(
    cluster: Cluster,
    streams: Sequence[Path] | stream.Live,
    flops_of: Callable[[str], Mapping[int, float]] | None,
    line_of: CallLineLookup,
    regions: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
    threads: int = 1,
    shards: SingleShard | None = None,
    scheduled_policy: int | None = None,
    start_seed: int | None = None,
    measures_first_reads: bool = False,
) -> Replay:
    """Simulates a program. `streams` are the stream files by rank, or the live streams of a running program. `flops_of`
    maps the path of an object file to (offset of an access's location -> floating-point operations per access); None:
    no arithmetic. `line_of` returns the source line of an MPI call. `progress` is called periodically with the number
    of accesses read so far. `scheduled_policy`: index of the policy whose times the schedules of the ranks have; None:
    schedules are not recorded. `start_seed`: each rank starts up to 100 ns late, at a random time that this number
    determines; None: all ranks start together. `measures_first_reads`: measures how long received data lies before it
    is read (observe/first_reads.py).

    Results do not depend on the number of threads or shards. With several shards, all must make this call, and shard 0
    gets the result of all ranks. Raises UsageError for an impossible cluster, ReplayError for a program that cannot be
    simulated, and nearfield._native.stream.BrokenStream."""
    stream_sources = streams if isinstance(streams, stream.Live) else [str(file) for file in streams]
    shards = shards or SingleShard()
    try:
        replayed = replay.run(
            to_native(cluster.machine), cluster.nodes, cluster.ranks_per_node, list(cluster.policies),
            list(cluster.slowdowns), stream_sources, flops_of, list(regions), False, threads, progress,
            cluster.uses_independent_runs, shards.to_native_shards(), scheduled_policy, start_seed,
            measures_first_reads,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(f"{cluster.machine.name} cannot run it: {error}") from error
    except stream.BrokenStream:
        raise
    except RuntimeError as error:
        raise ReplayError(str(error)) from error
    region_names = {name for rank in replayed.ranks for name in rank.regions}
    for name in regions if shards.shard_index == 0 else ():
        if name not in region_names:
            remedy = (
                f"it has {join_and(sorted(region_names))}"
                if region_names
                else "observe it with --region, or call MPI_Pcontrol"
            )
            raise UsageError(f"the program has no region '{name}'", remedy)
    return Replay(cluster, replayed, line_of, scheduled_policy)


def _add_times(sums: TimesByPolicy, added: TimesByPolicy) -> None:
    for row, of_policy in zip(sums, added, strict=True):
        for speed in range(len(row)):
            row[speed] += of_policy[speed]
