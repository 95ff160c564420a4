"""Returns timelines of the ranks as Chrome's trace JSON, for Perfetto (https://ui.perfetto.dev), Speedscope
and chrome://tracing: a process for each node, a thread for each rank, and a slice for each MPI call.

The times are those of a simulated program, or those of the observed run. Clocks of hosts differ, so the ranks of an
observed run are aligned at the end of the first collective of all ranks, which no rank leaves before all have come; if
there is none, at their first MPI call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from math import inf
from typing import Any

from nearfield._native import replay, stream
from nearfield.observe.replay import Replay
from nearfield.observe.source_lines import SourceLine
from nearfield.observe.stream_events import StreamEvents
from nearfield.observe.summary import read_lines
from nearfield.observe.trace import BrokenTraceError, Trace, broken_streams_as_errors

Event = dict[str, Any]

# Collectives that no rank leaves before all ranks have begun them.
_SYNCHRONIZING_COLLECTIVES = frozenset(
    f"MPI_{name}"
    for name in (
        "Barrier", "Allreduce", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter",
        "Reduce_scatter_block",
    )
)  # fmt: skip


def simulated_timeline(program_replay: Replay) -> str:
    """Returns the simulated times of a program whose schedules were recorded. Inside the calls are slices for waits,
    with an arrow from the send that ended each."""
    return _to_json(_simulated_events(program_replay))


def observed_timeline(trace: Trace) -> tuple[str, list[str]]:
    """Returns the times of the observed run, and a message for each broken stream, which is drawn up to the point at
    which it is broken."""
    lines = read_lines(trace)
    ranks, problems = [_ObservedRank(lines) for _ in trace.streams()], []
    for number, (rank, path) in enumerate(zip(ranks, trace.streams(), strict=True)):
        try:
            with broken_streams_as_errors():
                rank.read(stream.Reader(str(path)))
        except BrokenTraceError as error:
            problems.append(f"rank {number}: {error.message}")
    return _to_json(_observed_events(ranks)), problems


def _to_json(events: Iterable[Event]) -> str:
    return '{"displayTimeUnit": "ns", "traceEvents": [\n' + ",\n".join(map(json.dumps, events)) + "\n]}\n"


@dataclass(frozen=True)
class _TimelineSlice:
    """An interval in which a rank did something. Two slices of a rank are either nested or disjoint."""

    name: str
    begin_ns: float
    end_ns: float
    args: dict[str, Any] = field(default_factory=dict)


def _slice_events(node: int, rank: int, slices: Iterable[_TimelineSlice]) -> Iterator[Event]:
    """Yields the begin and end events of the slices in the order of time. If one slice ends when another begins, the
    end comes first."""
    open_slices: list[tuple[float, Event]] = []  # (end of the slice, fields that its two events share)

    def close_until(time_ns: float) -> Iterator[Event]:
        while open_slices and open_slices[-1][0] <= time_ns:
            end_ns, event = open_slices.pop()
            yield event | {"ph": "E", "ts": _microseconds(end_ns)}

    # Of slices that begin at the same time, those of zero length come first, and containing slices precede contained
    # ones.
    for one in sorted(slices, key=lambda one: (one.begin_ns, one.end_ns > one.begin_ns, -one.end_ns)):
        yield from close_until(one.begin_ns)
        event = {"name": one.name, "pid": node, "tid": rank, "args": one.args}
        yield event | {"ph": "B", "ts": _microseconds(one.begin_ns)}
        open_slices.append((min([one.end_ns, *(end for end, _ in open_slices[-1:])]), event))
    yield from close_until(inf)


def _microseconds(time_ns: float) -> float:
    """Returns a time in the unit of the format, with whole nanoseconds."""
    return round(time_ns) / 1e3


def _name_events(node: int, node_name: str, rank: int) -> Iterator[Event]:
    """Yields the events that name a process and a thread."""
    yield {"name": "process_name", "ph": "M", "pid": node, "args": {"name": node_name}}
    yield {"name": "thread_name", "ph": "M", "pid": node, "tid": rank, "args": {"name": f"rank {rank}"}}
    yield {"name": "thread_sort_index", "ph": "M", "pid": node, "tid": rank, "args": {"sort_index": rank}}


# ---- simulated programs


def _simulated_events(program_replay: Replay) -> Iterator[Event]:
    ranks_per_node = program_replay.cluster.ranks_per_node
    schedules = program_replay.schedules()
    arrows = count(1)
    for rank, (outcome, steps) in enumerate(zip(program_replay.replayed.ranks, schedules, strict=True)):
        node = rank // ranks_per_node
        yield from _name_events(node, f"node {node}", rank)
        calls = [
            _TimelineSlice(call.name, begin, end, {"line": program_replay.source_line_of(call)})
            for call in outcome.calls
            for begin, end in call.intervals_ns
        ]
        waits = [
            (step.origin, _TimelineSlice(_wait_name(rank, step.origin[0]), step.end_ns, after.begin_ns))
            for step, after in pairwise(steps)
            if step.kind == replay.StepKind.wait and after.begin_ns > step.end_ns
        ]
        yield from _slice_events(node, rank, [*calls, *(wait for _, wait in waits)])
        for (sender, number), wait in waits:
            if sender == rank:
                continue
            arrow = {"name": "message", "cat": "message", "id": next(arrows)}
            sent = _microseconds(schedules[sender][number - 1].end_ns)
            yield arrow | {"ph": "s", "pid": sender // ranks_per_node, "tid": sender, "ts": sent}
            yield arrow | {"ph": "f", "bp": "e", "pid": node, "tid": rank, "ts": _microseconds(wait.end_ns)}


def _wait_name(rank: int, sender: int) -> str:
    return "waits for its NIC" if sender == rank else f"waits for rank {sender}"


# ---- observed runs


@dataclass
class _ObservedCall:
    name: str
    line: str
    begin_ns: int
    end_ns: int = 0
    delayed_ns: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    peers: set[int] = field(default_factory=set)

    def details(self) -> dict[str, Any]:
        """Returns the names and values that Perfetto displays with the slice."""
        peers = ", ".join(map(str, sorted(self.peers)))
        shown = {
            "line": self.line, "sent bytes": self.sent_bytes, "received bytes": self.received_bytes, "peers": peers,
            "without a core (us)": self.delayed_ns / 1e3,
        }  # fmt: skip
        return {name: value for name, value in shown.items() if value}


class _ObservedRank(StreamEvents):
    """The MPI calls of one stream. Times count from its first call."""

    def __init__(self, lines: dict[tuple[str, int], SourceLine]) -> None:
        super().__init__(lines)
        self.host = ""
        self.calls: list[_ObservedCall] = []
        self.synchronized_ns: int | None = None  # end of the first collective of all ranks
        self._num_ranks, self._now_ns, self._depth = 1, 0, 0
        self._num_ranks_by_communicator: dict[int, int] = {}  # communicator -> number of its ranks
        self._receiving_call_by_request: dict[int, _ObservedCall] = {}  # request -> call that posted the receive
        self._is_synchronizing = False

    def on_rank_is(self, host: str, ranks: int, **_: Any) -> None:
        self.host, self._num_ranks = host, ranks

    def on_communicator(self, communicator: int, world: list[int], **_: Any) -> None:
        self._num_ranks_by_communicator[communicator] = len(world)

    def on_enter(self, name: int, call_site: int, since_ns: int, **_: Any) -> None:
        self._now_ns += since_ns
        self._depth += 1
        if self._depth == 1:
            self.calls.append(_ObservedCall(self.text_of(name), str(self.line_of_call(name, call_site)), self._now_ns))

    def on_leave(self, since_ns: int, delayed_ns: int) -> None:
        self._now_ns += since_ns
        self._depth -= 1
        if self._depth > 0:
            return
        self.calls[-1].end_ns = self._now_ns
        self.calls[-1].delayed_ns = delayed_ns
        if self._is_synchronizing and self.synchronized_ns is None:
            self.synchronized_ns = self._now_ns
        self._is_synchronizing = False

    def on_send(self, peer: int, data: dict[str, int], **_: Any) -> None:
        if self._depth and peer >= 0:
            self.calls[-1].sent_bytes += self.total_bytes_of(data)
            self.calls[-1].peers.add(peer)

    def on_receive(self, request: int, **_: Any) -> None:
        if self._depth:
            self._receiving_call_by_request[request] = self.calls[-1]

    def on_outcome(self, request: int, peer: int, bytes: int, **_: Any) -> None:  # noqa: A002
        posted = self._receiving_call_by_request.pop(request, None)
        if posted and peer >= 0:
            posted.received_bytes += bytes
            posted.peers.add(peer)

    def on_collective(
        self, request: int, communicator: int, gives: list[dict[str, int]], gets: list[dict[str, int]],
        **_: Any,
    ) -> None:  # fmt: skip
        if self._depth:
            self.calls[-1].sent_bytes += self.total_bytes_of(*gives)
            self.calls[-1].received_bytes += self.total_bytes_of(*gets)
            is_of_all = self._num_ranks_by_communicator.get(communicator) == self._num_ranks
            self._is_synchronizing |= request == 0 and is_of_all and self.calls[-1].name in _SYNCHRONIZING_COLLECTIVES


def _observed_events(ranks: list[_ObservedRank]) -> Iterator[Event]:
    synchronized_ns = [rank.synchronized_ns for rank in ranks]
    common_ns = max((time for time in synchronized_ns if time is not None), default=0)
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    for number, (rank, own_ns) in enumerate(zip(ranks, synchronized_ns, strict=True)):
        node, shift = (
            hosts.index(rank.host),
            common_ns - own_ns if own_ns is not None and None not in synchronized_ns else 0,
        )
        yield from _name_events(node, rank.host or "one process", number)
        calls = (
            _TimelineSlice(call.name, call.begin_ns + shift, call.end_ns + shift, call.details())
            for call in rank.calls
            if call.end_ns  # the last one has no end if the process was killed
        )
        yield from _slice_events(node, number, calls)
