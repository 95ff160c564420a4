"""Sums up a trace: the accesses of each rank, their source lines, and its MPI calls."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nearfield._native import stream
from nearfield.base.frames import pl
from nearfield.observe import trace as traces
from nearfield.observe.source_lines import UNKNOWN, UNKNOWN_LINE, Line, line_of
from nearfield.observe.stream_events import StreamEvents
from nearfield.observe.symbols import how_to_name
from nearfield.observe.trace import BrokenTraceError, Trace, broken_streams


@dataclass
class CallSums:
    """Sums over all calls of one MPI function from one source line, on one rank."""

    name: str
    line: Line
    calls: int = 0
    seconds: float = 0.0
    sent: int = 0  # messages
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    peers: set[int] = field(default_factory=set)


@dataclass
class RankSummary:
    """Sums over the stream of one rank."""

    rank: int
    host: str = ""
    loads: int = 0
    stores: int = 0
    accessed_bytes: int = 0
    stream_bytes: int = 0
    delayed_seconds: float | None = None  # runnable but without a core; None if the system does not report it
    calls: list[CallSums] = field(default_factory=list)
    lines: Counter[Line] = field(default_factory=Counter)  # source line -> number of accesses
    # Source line -> floating-point operations.
    flops: dict[Line, float] = field(default_factory=lambda: defaultdict(float))
    regions: Counter[str] = field(default_factory=Counter)  # name of a region -> number of entries
    refused: list[str] = field(default_factory=list)
    problem: str = ""  # where the stream is broken; empty if it is complete


def summarize(trace: Trace) -> list[RankSummary]:
    """Returns the summary of each rank. A broken stream is summed up to the point at which it is broken."""
    lines, flops = read_lines(trace), read_flops(trace)
    summaries = []
    for rank, file in enumerate(trace.streams()):
        summary = RankSummary(rank, stream_bytes=file.stat().st_size)
        try:
            with broken_streams():
                _StreamSummary(summary, lines, flops).read(stream.Reader(str(file)))
        except BrokenTraceError as error:
            summary.problem = error.message
        summaries.append(summary)
    return summaries


def read_lines(trace: Trace) -> dict[tuple[str, int], Line]:
    """Returns (path, offset) of a code location -> source line, from places.parquet. Raises BrokenTraceError."""
    return {
        (path, offset): Line(file, number, function) if number else Line(UNKNOWN, 0, function, path, offset)
        for path, offset, file, number, function, _ in _read_places(trace)
    }


def how_to_name_functions(lines: Iterable[Line]) -> str:
    """Returns advice on how to get names for the unnamed functions among these lines; '' if all have names."""
    return how_to_name(line.object for line in lines if not line.is_named)


def read_flops(trace: Trace) -> dict[str, dict[int, float]]:
    """Returns path -> offset of a code location -> floating-point operations per access, from places.parquet."""
    flops: dict[str, dict[int, float]] = defaultdict(dict)
    for path, offset, *_, count in _read_places(trace):
        if count:
            flops[path][offset] = count
    return flops


def flops_of_objects(trace: Trace) -> Callable[[str], Mapping[int, float]] | None:
    """Returns a function from an object file's path to (offset -> floating-point operations per access); None if the
    trace has no floating-point operations."""
    flops = read_flops(trace)
    return (lambda path: flops.get(path, {})) if flops else None


def _read_places(trace: Trace) -> list[tuple[Any, ...]]:
    file = trace.folder / traces.PLACES_FILE
    try:
        found = pl.read_parquet(file.read_bytes()).select(list(traces.PLACE_COLUMNS))
    except OSError:
        return []  # the observation was not completed
    except pl.exceptions.PolarsError as error:
        raise BrokenTraceError(f"{file} cannot be read: {str(error).splitlines()[0]}", traces.REMEDY) from error
    for name, kind in traces.PLACE_COLUMNS.items():
        if found[name].dtype.to_python() is not kind or found[name].null_count():
            raise BrokenTraceError(f"the column '{name}' of {file} does not consist of {kind.__name__}", traces.REMEDY)
    return [(os.fsdecode(path), *others) for path, *others in found.rows()]


class _StreamSummary(StreamEvents):
    def __init__(
        self, summary: RankSummary, lines: dict[tuple[str, int], Line], flops: dict[str, dict[int, float]]
    ) -> None:
        super().__init__(lines)
        self.summary, self.flops = summary, flops
        self.counts = stream.SiteCounts()
        self.posted: dict[int, CallSums] = {}  # request -> sums of the call that posted the receive
        self.by_call: dict[tuple[int, Line], CallSums] = {}
        self.now: CallSums | None = None

    def read(self, reader: stream.Reader) -> None:
        """Reads the whole stream and adds its events and accesses to the summary."""
        try:
            super().read(reader)
        finally:
            self._count_lines(reader)
            self.summary.calls = list(self.by_call.values())

    def pass_accesses(self, reader: stream.Reader) -> None:
        passed = reader.pass_accesses(self.counts)
        self.summary.loads += passed.loads
        self.summary.stores += passed.stores
        self.summary.accessed_bytes += passed.bytes

    def _count_lines(self, reader: stream.Reader) -> None:
        for site, accesses in zip(reader.sites, self.counts.accesses, strict=False):
            path = self.objects.get(site.object, "")
            line = line_of(self.lines, (path, site.offset)).merge_by_function()
            self.summary.lines[line] += accesses
            if flops := self.flops.get(path, {}).get(site.offset):
                self.summary.flops[line] += flops * accesses

    # ---- handlers of events

    def on_rank_is(self, host: str, delays: bool, **_: Any) -> None:
        self.summary.host = host
        self.summary.delayed_seconds = 0.0 if delays else None

    def on_enter(self, name: int, call_site: int, delayed_ns: int, **_: Any) -> None:
        self._delayed(delayed_ns)
        key = name, self.line_of_call(name, call_site)
        if key not in self.by_call:
            self.by_call[key] = CallSums(self.text_of(name), key[1])
        self.now = self.by_call[key]
        self.now.calls += 1

    def _delayed(self, delayed_ns: int) -> None:
        if self.summary.delayed_seconds is not None:
            self.summary.delayed_seconds += delayed_ns / 1e9

    def on_leave(self, since_ns: int, delayed_ns: int) -> None:
        self._delayed(delayed_ns)
        if self.now:
            self.now.seconds += since_ns / 1e9
        self.now = None

    def on_send(self, peer: int, data: dict[str, int], **_: Any) -> None:
        if self.now and peer >= 0:
            self.now.sent += 1
            self.now.sent_bytes += self.bytes_of(data)
            self.now.peers.add(peer)

    def on_receive(self, request: int, **_: Any) -> None:
        if self.now:
            self.posted[request] = self.now

    def on_outcome(self, request: int, peer: int, bytes: int, **_: Any) -> None:  # noqa: A002
        calls = self.posted.pop(request, None)
        if calls and peer >= 0:
            calls.received += 1
            calls.received_bytes += bytes
            calls.peers.add(peer)

    def on_collective(self, gives: list[dict[str, int]], gets: list[dict[str, int]], **_: Any) -> None:
        if self.now:
            self.now.sent_bytes += self.bytes_of(*gives)
            self.now.received_bytes += self.bytes_of(*gets)

    def on_region(self, name: int, level: int) -> None:
        if level > 0:
            self.summary.regions[self.text_of(name)] += 1

    def on_refused(self, what: int) -> None:
        self.summary.refused.append(self.text_of(what))


def combine_ranks(summaries: list[RankSummary]) -> list[CallSums]:
    """Returns the call sums of all ranks combined, in descending order of time."""
    together: dict[tuple[str, Line], CallSums] = defaultdict(lambda: CallSums("", UNKNOWN_LINE))
    for calls in (calls for summary in summaries for calls in summary.calls):
        key = calls.name, calls.line
        if key not in together:
            together[key] = CallSums(calls.name, calls.line)
        sum_of = together[key]
        for what in ("calls", "seconds", "sent", "sent_bytes", "received", "received_bytes"):
            setattr(sum_of, what, getattr(sum_of, what) + getattr(calls, what))
        sum_of.peers |= calls.peers
    return sorted(together.values(), key=lambda calls: -calls.seconds)
