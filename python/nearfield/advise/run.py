"""Reads the trace of an observed run as the input of the checks: its MPI calls by source line, its messages, and its
duration."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nearfield._native import advise as native
from nearfield.base.errors import UsageError
from nearfield.notes import SourcePlace
from nearfield.observe.observing import iterate_events
from nearfield.observe.source_lines import UNKNOWN_NAME, SourceLine, line_of, line_of_call, to_utf8
from nearfield.observe.summary import read_lines
from nearfield.observe.trace import Trace, broken_streams_as_errors
from nearfield.profile import Profile
from nearfield.profile.costs import Costs

MAX_SMALL_MESSAGE_BYTES = 8192  # maximum size of the messages in a burst of small messages
SLOWDOWN_BY_RECORDER = {
    "hooks": 10.0,
    "valgrind": 30.0,
}  # recorder -> slowdown of computation (docs/performance.md)


@dataclass(frozen=True)
class MpiCallSite:
    """A source line of the program that calls an MPI function."""

    name: str  # for example MPI_Send
    place: SourcePlace


@dataclass(frozen=True)
class MessageGroup:
    """The messages that one source line of one rank posts with the same size, layout and peer."""

    rank: int
    site: MpiCallSite
    costs: Costs  # look-ups of message times; records those that the profile cannot answer
    counts: native.Messages
    # Number of cache lines of the messages that were no longer in L1, by the source line that wrote them (sends) or
    # read them first (receives).
    num_lines_by_place: Counter[SourcePlace] = field(hash=False)

    def shares_by_cache_level(self) -> list[float]:
        """Returns for each cache level, and memory as the last, the fraction of the messages' cache lines for which it
        is the innermost level that still had them. Lines that the program never touched count in no level."""
        return [lines / self.counts.lines if self.counts.lines else 0.0 for lines in self.counts.reach.lines]

    def mean_reuse_distance_bytes(self) -> float:
        """Returns the mean reuse distance in bytes of those cache lines of the messages that L1 no longer held; 0 if L1
        still held all of them."""
        lines = sum(self.counts.reach.lines[1:])
        return sum(self.counts.reach.bytes[1:]) / lines if lines else 0.0


@dataclass(frozen=True)
class AssumedMachine:
    """A machine on which the program is assumed to run instead of the observed one: its number of nodes, among which
    the ranks are distributed evenly in blocks, and the program's duration on it."""

    num_nodes: int
    seconds: float


@dataclass(frozen=True)
class ObservedRun:
    """An observed run of a program, with the analyzed trace of each of its ranks, and the profile with which it is
    compared."""

    trace: Trace
    profile: Profile
    node_costs: Costs  # times of messages inside a node
    network_costs: Costs  # times of messages between nodes
    ranks: list[native.Rank]
    call_sites: list[list[MpiCallSite]]  # by rank and call index
    messages: list[MessageGroup]
    host_by_rank: list[str]  # by rank; node numbers as text with an assumed machine
    separate_timing_run: ObservedRun | None = (
        None  # a run of the same program without hooks, from which times are taken
    )
    assumed_machine: AssumedMachine | None = None

    def costs_between(self, rank: int, peer: int) -> Costs:
        """Returns the times of messages between two ranks, which depend on whether both are on one node."""
        return self.node_costs if self.host_by_rank[rank] == self.host_by_rank[peer] else self.network_costs

    @cached_property
    def max_ranks_on_node(self) -> int:
        """Returns the maximum number of ranks on a node."""
        return max(Counter(self.host_by_rank).values())

    @property
    def num_accesses(self) -> int:
        """Returns the number of recorded loads and stores of all ranks."""
        return sum(rank.result.accesses for rank in self.ranks)

    @property
    def timing_run(self) -> ObservedRun:
        """Returns the run from which times are taken: one without hooks, if it was given."""
        return self.separate_timing_run or self

    @property
    def has_delay_times(self) -> bool:
        """Returns whether the run from which times are taken reports how long its ranks had no core."""
        return all(rank.result.delays for rank in self.timing_run.ranks)

    def time_without_core_ns(self, rank: int) -> int:
        """Returns how long a rank was ready to run but had no core, in ns, in the run from which times are taken."""
        counts = self.timing_run.ranks[rank].result
        return counts.delayed_between_ns + sum(call.delayed_ns for call in counts.calls)

    @property
    def has_program_times(self) -> bool:
        """Returns whether times are those of the program itself: it ran without hooks, and no other machine is
        assumed."""
        return not (self.timing_run.num_accesses or self.assumed_machine)

    @cached_property
    def seconds(self) -> float:
        """Returns the time of the slowest rank without hooks in s. It is estimated if only a run with hooks was
        observed."""
        if self.assumed_machine:
            return self.assumed_machine.seconds
        run = self.timing_run
        return max(_rank_seconds(run, rank) for rank in range(len(run.ranks)))

    @property
    def llc_bytes_per_rank(self) -> int:
        """Returns the part of the last-level cache that is available to each rank, in bytes."""
        return self.node_costs.cache_levels(self.max_ranks_on_node)[-1].size_bytes


def read_run(
    trace: Trace, profile: Profile, *, timing_trace: Trace | None = None, assumed_machine: AssumedMachine | None = None,
    progress: Callable[[int], None] | None = None,
) -> ObservedRun:  # fmt: skip
    """Reads and analyzes the trace of a run. `timing_trace` is the trace of another run of the program without hooks,
    from which times are taken. With `assumed_machine`, the program is assumed to run on the profile's machine.
    `progress` is called with the number of accesses read so far, where each access counts twice. Raises
    BrokenTraceError, and UsageError for a program without MPI."""
    if not trace.metadata.mpi:
        raise UsageError(f"{trace.folder} is of a program without MPI", "observe a program that sends messages")
    node_costs, network_costs = Costs(profile), Costs(profile, network=True)
    host_by_rank = read_host_by_rank(trace)
    if assumed_machine:
        host_by_rank = [str(rank * assumed_machine.num_nodes // len(host_by_rank)) for rank in range(len(host_by_rank))]
    cache_sizes_bytes = [level.size_bytes for level in node_costs.cache_levels(max(Counter(host_by_rank).values()))]
    if not cache_sizes_bytes:
        raise UsageError(
            f"the profile {profile.path} does not know the caches of its machine", "measure on another one"
        )
    ranks = _analyze_streams(trace, cache_sizes_bytes, progress)
    lines = read_lines(trace)
    sites = [[_site_of_call(call, lines) for call in rank.result.calls] for rank in ranks]
    messages = [
        MessageGroup(
            number, sites[number][one.call],
            (node_costs if _host_of(host_by_rank, one.world_peer) == host_by_rank[number]
             else network_costs).copy_for_messages(),
            one, _num_lines_by_place(rank, one, lines),
        )
        for number, rank in enumerate(ranks)
        for one in rank.result.messages
    ]  # fmt: skip
    timing_run = read_run(timing_trace, profile) if timing_trace else None
    return ObservedRun(
        trace, profile, node_costs, network_costs, ranks, sites, messages, host_by_rank, timing_run, assumed_machine
    )


def _analyze_streams(
    trace: Trace, cache_sizes_bytes: list[int], progress: Callable[[int], None] | None
) -> list[native.Rank]:
    """Reads the streams of all ranks and computes their reuse distances. `cache_sizes_bytes` are the cache sizes in
    bytes."""
    threads = len(os.sched_getaffinity(0))
    with broken_streams_as_errors():
        return native.analyse(
            [str(file) for file in trace.streams()], cache_sizes_bytes, MAX_SMALL_MESSAGE_BYTES, threads, progress
        )


def read_host_by_rank(trace: Trace) -> list[str]:
    """Returns the host name of each rank of a trace. Raises BrokenTraceError."""
    hosts = []
    for file in trace.streams():
        with broken_streams_as_errors():
            host_names = (
                fields["host"] for name, fields in iterate_events(trace.open_reader(file)) if name == "rank_is"
            )
            hosts.append(next(host_names, ""))
    return hosts


def _host_of(host_by_rank: Sequence[str], rank: int) -> str:
    """Returns the host of a rank; '' if the rank is unknown."""
    return host_by_rank[rank] if rank < len(host_by_rank) else ""


def _site_of_call(call: native.Call, lines: dict[tuple[str, int], SourceLine]) -> MpiCallSite:
    """Returns the source line of an MPI call."""
    return MpiCallSite(call.name, _place_of_line(line_of_call(lines, call.name, call.frames)))


def _place_of_line(line: SourceLine) -> SourcePlace:
    """Returns a source line as the place of a note; a code offset if the program was compiled without -g."""
    function = "" if line.function == UNKNOWN_NAME else line.function
    return SourcePlace(
        line.file if line.number else to_utf8(line.object), line.number, function=function, offset=line.offset
    )


def _num_lines_by_place(
    rank: native.Rank, messages: native.Messages, lines: dict[tuple[str, int], SourceLine]
) -> Counter[SourcePlace]:
    """Returns the number of the messages' cache lines by the source line that wrote them (sends) or read them first
    (receives)."""
    num_lines_by_place: Counter[SourcePlace] = Counter()
    for site, count in messages.sites.items():
        number, offset = rank.sites[site]
        path = rank.result.objects[number]
        line = line_of(lines, (path, offset))
        if line.number:
            num_lines_by_place[_place_of_line(line)] += count
    return num_lines_by_place


def _rank_seconds(run: ObservedRun, rank_number: int) -> float:
    """Returns the time of a rank without hooks in s. It is estimated if the run had hooks."""
    counts = run.ranks[rank_number].result
    in_calls_ns: float = sum(call.time_ns for call in counts.calls)
    if not run.num_accesses:
        return (counts.between_calls_ns + in_calls_ns) / 1e9
    own_messages = [m for m in run.messages if m.rank == rank_number]
    costs = [(m.costs.message_time(m.counts.bytes), m.counts.messages) for m in own_messages]
    # In a run with hooks, ranks also wait for ranks that the hooks slow down more. Therefore the calls count with at
    # most the time of their messages according to the profile.
    in_calls_ns = min(in_calls_ns, sum(cost.value * times for cost, times in costs if cost))
    return (counts.between_calls_ns / SLOWDOWN_BY_RECORDER[run.trace.metadata.recorder] + in_calls_ns) / 1e9


def group_by_site(messages: Sequence[MessageGroup]) -> Iterator[tuple[MpiCallSite, list[MessageGroup]]]:
    """Yields each source line that posts messages with its messages of all ranks."""
    messages_by_site: dict[MpiCallSite, list[MessageGroup]] = defaultdict(list)
    for one in messages:
        messages_by_site[one.site].append(one)
    yield from messages_by_site.items()
