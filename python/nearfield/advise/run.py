"""An observed run as input of the checks: its calls by source line, its messages, and its duration."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nearfield._native import advise as native
from nearfield.base.errors import UsageError
from nearfield.notes import Place
from nearfield.observe.observing import iterate_events
from nearfield.observe.source_lines import UNKNOWN, Line, line_of, line_of_call, to_utf8
from nearfield.observe.summary import read_lines
from nearfield.observe.trace import Trace, broken_streams
from nearfield.profile import Profile
from nearfield.profile.costs import Costs

SMALL_BYTES = 8192  # of messages in bursts
SLOWER = {"hooks": 10.0, "valgrind": 30.0}  # slowdown of computation by the recorder (docs/performance.md)


@dataclass(frozen=True)
class Site:
    """A line of the program that calls an MPI function."""

    name: str  # for example MPI_Send
    place: Place


@dataclass(frozen=True)
class Messages:
    """Messages of one rank from one line, of one size and layout, to or from one peer."""

    rank: int
    site: Site
    costs: Costs  # with the queries on these messages that had no answer
    found: native.Messages
    places: Counter[Place] = field(
        hash=False
    )  # lines of code that wrote, or read first, the cache lines that had left L1

    def shares(self) -> list[float]:
        """Returns the shares of their lines by the smallest cache that still had them; untouched lines are in none."""
        return [lines / self.found.lines if self.found.lines else 0.0 for lines in self.found.reach.lines]

    def distance_bytes(self) -> float:
        """Returns the mean reuse distance in bytes, of lines that had left L1."""
        lines = sum(self.found.reach.lines[1:])
        return sum(self.found.reach.bytes[1:]) / lines if lines else 0.0


@dataclass(frozen=True)
class AssumedMachine:
    """The machine on which the program is assumed to run: its nodes, with equal numbers of consecutive ranks, and the
    program's duration there."""

    nodes: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """All ranks of an observed run."""

    trace: Trace
    profile: Profile
    inside: Costs  # of messages inside a node
    across: Costs  # of messages between nodes
    ranks: list[native.Rank]
    sites: list[list[Site]]  # by rank and call
    messages: list[Messages]
    hosts: list[str]  # of the ranks; node numbers if the program is assumed to run on the profile's machine
    clock: Run | None = None  # another run of the program, without hooks, for the times
    assumed: AssumedMachine | None = None

    def costs(self, rank: int, peer: int) -> Costs:
        """Returns the costs of messages between two ranks."""
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
    def timing(self) -> Run:
        """Returns the run for the times."""
        return self.clock or self

    @property
    def reports_delays(self) -> bool:
        """Returns whether the run for the times reports how long its ranks had no core."""
        return all(rank.found.delays for rank in self.timing.ranks)

    def delayed_ns(self, rank: int) -> int:
        """Returns how long a rank was ready to run without a core, in the run for the times."""
        found = self.timing.ranks[rank].found
        return found.delayed_between_ns + sum(call.delayed_ns for call in found.calls)

    @property
    def timed(self) -> bool:
        """Returns whether times are those of the program: it ran without hooks."""
        return not (self.timing.accesses or self.assumed)

    @cached_property
    def seconds(self) -> float:
        """Returns the time of the slowest rank without hooks, estimated if the run had hooks."""
        if self.assumed:
            return self.assumed.seconds
        run = self.timing
        return max(_seconds(run, rank) for rank in range(len(run.ranks)))

    @property
    def llc_bytes(self) -> int:
        """Returns the part of the last-level cache that is available to a rank."""
        return self.inside.levels(self.ranks_on_node)[-1].size_bytes


def read_run(
    trace: Trace, profile: Profile, *, times: Trace | None = None, assumed: AssumedMachine | None = None,
    progress: Callable[[int], None] | None = None,
) -> Run:  # fmt: skip
    """Reads the streams. `times`: another trace of the program, which ran without hooks. `assumed`: the program is
    assumed to run on the profile's machine. `progress` is called with the accesses read so far, each counted twice.
    Raises BrokenTraceError, and UsageError for a program without MPI."""
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
    found = _analyse(trace, limits, progress)
    lines = read_lines(trace)
    sites = [[_site(call, lines) for call in rank.found.calls] for rank in found]
    messages = [
        Messages(
            number, sites[number][one.call],
            (inside if _host(hosts, one.world_peer) == hosts[number] else across).copy_for_messages(), one,
            _places(rank, one, lines),
        )
        for number, rank in enumerate(found)
        for one in rank.found.messages
    ]  # fmt: skip
    clock = read_run(times, profile) if times else None
    return Run(trace, profile, inside, across, found, sites, messages, hosts, clock, assumed)


def _analyse(trace: Trace, limits: list[int], progress: Callable[[int], None] | None) -> list[native.Rank]:
    threads = len(os.sched_getaffinity(0))
    with broken_streams():
        return native.analyse([str(file) for file in trace.streams()], limits, SMALL_BYTES, threads, progress)


def hosts_of(trace: Trace) -> list[str]:
    """Returns the host of each rank. Raises BrokenTraceError."""
    hosts = []
    for file in trace.streams():
        with broken_streams():
            said = (fields["host"] for name, fields in iterate_events(trace.reader(file)) if name == "rank_is")
            hosts.append(next(said, ""))
    return hosts


def _host(hosts: Sequence[str], rank: int) -> str:
    return hosts[rank] if rank < len(hosts) else ""


def _site(call: native.Call, lines: dict[tuple[str, int], Line]) -> Site:
    return Site(call.name, _place(line_of_call(lines, call.name, call.frames)))


def _place(line: Line) -> Place:
    """Returns the source line, or the offset in the program if it was compiled without -g."""
    function = "" if line.function == UNKNOWN else line.function
    return Place(line.file if line.number else to_utf8(line.object), line.number, function=function, offset=line.offset)


def _places(rank: native.Rank, found: native.Messages, lines: dict[tuple[str, int], Line]) -> Counter[Place]:
    places: Counter[Place] = Counter()
    for site, count in found.sites.items():
        number, offset = rank.sites[site]
        path = rank.found.objects[number]
        line = line_of(lines, (path, offset))
        if line.number:
            places[_place(line)] += count
    return places


def _seconds(run: Run, number: int) -> float:
    found = run.ranks[number].found
    in_calls: float = sum(call.time_ns for call in found.calls)
    if not run.accesses:
        return (found.between_calls_ns + in_calls) / 1e9
    own_messages = [m for m in run.messages if m.rank == number]
    costs = [(m.costs.message(m.found.bytes), m.found.messages) for m in own_messages]
    in_calls = min(
        in_calls, sum(cost.value * times for cost, times in costs if cost)
    )  # otherwise it waits for slow ranks
    return (found.between_calls_ns / SLOWER[run.trace.about.recorder] + in_calls) / 1e9


def by_site(messages: Sequence[Messages]) -> Iterator[tuple[Site, list[Messages]]]:
    """Yields the messages of all ranks by the line that posted them."""
    together: dict[Site, list[Messages]] = defaultdict(list)
    for one in messages:
        together[one.site].append(one)
    yield from together.items()
