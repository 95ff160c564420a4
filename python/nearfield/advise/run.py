"""An observed run as input of the checks: its MPI calls by source line, its messages, and its duration."""

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
from nearfield.observe.source_lines import UNKNOWN, Line, line_of, line_of_call, to_utf8
from nearfield.observe.summary import read_lines
from nearfield.observe.trace import Trace, broken_streams
from nearfield.profile import Profile
from nearfield.profile.costs import Costs

SMALL_BYTES = 8192  # maximum size of messages that count in bursts of small messages
SLOWER = {"hooks": 10.0, "valgrind": 30.0}  # slowdown of computation by the recorder (docs/performance.md)


@dataclass(frozen=True)
class MpiCallSite:
    """A source line of the program that calls an MPI function."""

    name: str  # for example MPI_Send
    place: SourcePlace


@dataclass(frozen=True)
class MessageGroup:
    """The messages of one rank that one source line posts, with one size, layout and peer."""

    rank: int
    site: MpiCallSite
    costs: Costs  # records which queries on these messages had no answer
    found: native.Messages
    # Number of cache lines of the messages that had left L1, by the source line that wrote them, or read them first.
    places: Counter[SourcePlace] = field(hash=False)

    def shares_by_cache_level(self) -> list[float]:
        """Returns the shares of the messages' cache lines by the innermost cache that still had them. Untouched lines
        count in none."""
        return [lines / self.found.lines if self.found.lines else 0.0 for lines in self.found.reach.lines]

    def distance_bytes(self) -> float:
        """Returns the mean reuse distance in bytes, over the messages' cache lines that had left L1."""
        lines = sum(self.found.reach.lines[1:])
        return sum(self.found.reach.bytes[1:]) / lines if lines else 0.0


@dataclass(frozen=True)
class AssumedMachine:
    """The machine on which the program is assumed to run: its number of nodes, each with as many consecutive ranks, and
    the program's duration on it."""

    nodes: int
    seconds: float


@dataclass(frozen=True)
class ObservedRun:
    """All ranks of an observed run of a program."""

    trace: Trace
    profile: Profile
    inside: Costs  # times of messages inside a node
    across: Costs  # times of messages between nodes
    ranks: list[native.Rank]
    sites: list[list[MpiCallSite]]  # by rank and call index
    messages: list[MessageGroup]
    hosts: list[str]  # by rank; node numbers if the program is assumed to run on the profile's machine
    clock: ObservedRun | None = None  # another run of the program, without hooks, from which times are taken
    assumed: AssumedMachine | None = None

    def costs_between(self, rank: int, peer: int) -> Costs:
        """Returns the times of messages between two ranks, which depend on whether both are on one node."""
        return self.inside if self.hosts[rank] == self.hosts[peer] else self.across

    @cached_property
    def ranks_on_node(self) -> int:
        """Returns the maximum number of ranks on a node."""
        return max(Counter(self.hosts).values())

    @property
    def accesses(self) -> int:
        """Returns the number of recorded loads and stores of all ranks."""
        return sum(rank.found.accesses for rank in self.ranks)

    @property
    def timing_run(self) -> ObservedRun:
        """Returns the run from which times are taken: one without hooks, if it was given."""
        return self.clock or self

    @property
    def reports_delays(self) -> bool:
        """Returns whether the run from which times are taken reports how long its ranks had no core."""
        return all(rank.found.delays for rank in self.timing_run.ranks)

    def delayed_ns(self, rank: int) -> int:
        """Returns how long a rank was ready to run without a core, in ns, in the run from which times are taken."""
        found = self.timing_run.ranks[rank].found
        return found.delayed_between_ns + sum(call.delayed_ns for call in found.calls)

    @property
    def has_program_times(self) -> bool:
        """Returns whether times are those of the program, which ran without hooks."""
        return not (self.timing_run.accesses or self.assumed)

    @cached_property
    def seconds(self) -> float:
        """Returns the time of the slowest rank in s, without hooks; estimated if the run had hooks."""
        if self.assumed:
            return self.assumed.seconds
        run = self.timing_run
        return max(_rank_seconds(run, rank) for rank in range(len(run.ranks)))

    @property
    def llc_bytes(self) -> int:
        """Returns the part of the last-level cache that is available to each rank, in bytes."""
        return self.inside.levels(self.ranks_on_node)[-1].size_bytes


def read_run(
    trace: Trace, profile: Profile, *, times: Trace | None = None, assumed: AssumedMachine | None = None,
    progress: Callable[[int], None] | None = None,
) -> ObservedRun:  # fmt: skip
    """Reads the trace of a run. `times`: the trace of another run of the program, without hooks. `assumed`: the program
    is assumed to run on the profile's machine. `progress` is called with the number of accesses read so far, each
    counted twice. Raises BrokenTraceError, and UsageError for a program without MPI."""
    if not trace.about.mpi:
        raise UsageError(f"{trace.folder} is of a program without MPI", "observe a program that sends messages")
    inside, across = Costs(profile), Costs(profile, network=True)
    hosts = hosts_of(trace)
    if assumed:
        hosts = [str(rank * assumed.nodes // len(hosts)) for rank in range(len(hosts))]
    limits = [level.size_bytes for level in inside.levels(max(Counter(hosts).values()))]
    if not limits:
        raise UsageError(
            f"the profile {profile.path} does not know the caches of its machine", "measure on another one"
        )
    found = _analyse_streams(trace, limits, progress)
    lines = read_lines(trace)
    sites = [[_site_of_call(call, lines) for call in rank.found.calls] for rank in found]
    messages = [
        MessageGroup(
            number, sites[number][one.call],
            (inside if _host_of(hosts, one.world_peer) == hosts[number] else across).copy_for_messages(), one,
            _places_of_messages(rank, one, lines),
        )
        for number, rank in enumerate(found)
        for one in rank.found.messages
    ]  # fmt: skip
    clock = read_run(times, profile) if times else None
    return ObservedRun(trace, profile, inside, across, found, sites, messages, hosts, clock, assumed)


def _analyse_streams(trace: Trace, limits: list[int], progress: Callable[[int], None] | None) -> list[native.Rank]:
    """Reads the streams of all ranks and computes their reuse distances. `limits` are the cache sizes in bytes."""
    threads = len(os.sched_getaffinity(0))
    with broken_streams():
        return native.analyse([str(file) for file in trace.streams()], limits, SMALL_BYTES, threads, progress)


def hosts_of(trace: Trace) -> list[str]:
    """Returns the host name of each rank of a trace. Raises BrokenTraceError."""
    hosts = []
    for file in trace.streams():
        with broken_streams():
            said = (fields["host"] for name, fields in iterate_events(trace.reader(file)) if name == "rank_is")
            hosts.append(next(said, ""))
    return hosts


def _host_of(hosts: Sequence[str], rank: int) -> str:
    """Returns the host of a rank; '' if the rank is unknown."""
    return hosts[rank] if rank < len(hosts) else ""


def _site_of_call(call: native.Call, lines: dict[tuple[str, int], Line]) -> MpiCallSite:
    """Returns the source line of an MPI call."""
    return MpiCallSite(call.name, _place_of_line(line_of_call(lines, call.name, call.frames)))


def _place_of_line(line: Line) -> SourcePlace:
    """Returns a source line as the place of a note; the code offset if the program was compiled without -g."""
    function = "" if line.function == UNKNOWN else line.function
    return SourcePlace(
        line.file if line.number else to_utf8(line.object), line.number, function=function, offset=line.offset
    )


def _places_of_messages(
    rank: native.Rank, found: native.Messages, lines: dict[tuple[str, int], Line]
) -> Counter[SourcePlace]:
    """Returns the source lines that wrote, or read first, the cache lines of messages, with the number of cache
    lines."""
    places: Counter[SourcePlace] = Counter()
    for site, count in found.sites.items():
        number, offset = rank.sites[site]
        path = rank.found.objects[number]
        line = line_of(lines, (path, offset))
        if line.number:
            places[_place_of_line(line)] += count
    return places


def _rank_seconds(run: ObservedRun, number: int) -> float:
    """Returns the time of a rank in s, without hooks; estimated if the run had hooks."""
    found = run.ranks[number].found
    in_calls: float = sum(call.time_ns for call in found.calls)
    if not run.accesses:
        return (found.between_calls_ns + in_calls) / 1e9
    own_messages = [m for m in run.messages if m.rank == number]
    costs = [(m.costs.message(m.found.bytes), m.found.messages) for m in own_messages]
    # In a run with hooks, ranks also wait for slower ranks. So calls count for at most the time of their messages.
    in_calls = min(in_calls, sum(cost.value * times for cost, times in costs if cost))
    return (found.between_calls_ns / SLOWER[run.trace.about.recorder] + in_calls) / 1e9


def group_by_site(messages: Sequence[MessageGroup]) -> Iterator[tuple[MpiCallSite, list[MessageGroup]]]:
    """Yields the messages of all ranks by the source line that posted them."""
    together: dict[MpiCallSite, list[MessageGroup]] = defaultdict(list)
    for one in messages:
        together[one.site].append(one)
    yield from together.items()
