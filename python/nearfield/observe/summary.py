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
from nearfield.observe.source_lines import UNKNOWN_LINE, UNKNOWN_NAME, SourceLine, line_of
from nearfield.observe.stream_events import StreamEvents
from nearfield.observe.symbols import missing_names_advice
from nearfield.observe.trace import BrokenTraceError, Trace, broken_streams_as_errors


@dataclass
class CallSums:
    """Sums over all calls of one MPI function from one source line, on one rank."""

    name: str
    line: SourceLine
    calls: int = 0
    seconds: float = 0.0
    sent: int = 0  # number of messages
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
    lines: Counter[SourceLine] = field(default_factory=Counter)  # source line -> number of accesses
    # Source line -> floating-point operations.
    flops: dict[SourceLine, float] = field(default_factory=lambda: defaultdict(float))
    regions: Counter[str] = field(default_factory=Counter)  # name of a region -> number of entries
    refused: list[str] = field(default_factory=list)
    problem: str = ""  # how and where the stream is broken; empty if it is complete


def summarize(trace: Trace) -> list[RankSummary]:
    """Returns the summary of each rank. A broken stream is summed up to the point at which it is broken."""
    lines, flops = read_lines(trace), read_flops(trace)
    summaries = []
    for rank, file in enumerate(trace.streams()):
        summary = RankSummary(rank, stream_bytes=file.stat().st_size)
        try:
            with broken_streams_as_errors():
                _StreamSummarizer(summary, lines, flops).read(stream.Reader(str(file)))
        except BrokenTraceError as error:
            summary.problem = error.message
        summaries.append(summary)
    return summaries


def read_lines(trace: Trace) -> dict[tuple[str, int], SourceLine]:
    """Returns (path, offset) of a code location -> source line, from places.parquet. Raises BrokenTraceError."""
    return {
        (path, offset): SourceLine(file, number, function)
        if number
        else SourceLine(UNKNOWN_NAME, 0, function, path, offset)
        for path, offset, file, number, function, _ in _read_places_file(trace)
    }


def missing_function_names_advice(lines: Iterable[SourceLine]) -> str:
    """Returns advice on how to get names for the unnamed functions among these lines; '' if all have names."""
    return missing_names_advice(line.object for line in lines if not line.is_resolved)


def read_flops(trace: Trace) -> dict[str, dict[int, float]]:
    """Returns path -> offset of a code location -> floating-point operations per access, from places.parquet."""
    flops: dict[str, dict[int, float]] = defaultdict(dict)
    for path, offset, *_, count in _read_places_file(trace):
        if count:
            flops[path][offset] = count
    return flops


def flops_of_objects(trace: Trace) -> Callable[[str], Mapping[int, float]] | None:
    """Returns a function from an object file's path to (offset -> floating-point operations per access); None if the
    trace has no floating-point operations."""
    flops = read_flops(trace)
    return (lambda path: flops.get(path, {})) if flops else None


def _read_places_file(trace: Trace) -> list[tuple[Any, ...]]:
    file = trace.folder / traces.PLACES_FILE
    try:
        places = pl.read_parquet(file.read_bytes()).select(list(traces.PLACE_COLUMNS))
    except OSError:
        return []  # the observation was not completed
    except pl.exceptions.PolarsError as error:
        raise BrokenTraceError(
            f"{file} cannot be read: {str(error).splitlines()[0]}", traces.OBSERVE_AGAIN_REMEDY
        ) from error
    for name, kind in traces.PLACE_COLUMNS.items():
        if places[name].dtype.to_python() is not kind or places[name].null_count():
            raise BrokenTraceError(
                f"the column '{name}' of {file} does not consist of {kind.__name__}", traces.OBSERVE_AGAIN_REMEDY
            )
    return [(os.fsdecode(path), *other_columns) for path, *other_columns in places.rows()]


class _StreamSummarizer(StreamEvents):
    def __init__(
        self, summary: RankSummary, lines: dict[tuple[str, int], SourceLine], flops: dict[str, dict[int, float]]
    ) -> None:
        super().__init__(lines)
        self.summary, self.flops = summary, flops
        self.site_counts = stream.SiteCounts()
        self.posting_call_by_request: dict[int, CallSums] = {}  # request -> sums of the call that posted the receive
        self.sums_by_call: dict[tuple[int, SourceLine], CallSums] = {}
        self.current_call: CallSums | None = None

    def read(self, reader: stream.Reader) -> None:
        """Reads the whole stream and adds its events and accesses to the summary."""
        try:
            super().read(reader)
        finally:
            self._count_lines(reader)
            self.summary.calls = list(self.sums_by_call.values())

    def skip_accesses(self, reader: stream.Reader) -> None:
        passed = reader.pass_accesses(self.site_counts)
        self.summary.loads += passed.loads
        self.summary.stores += passed.stores
        self.summary.accessed_bytes += passed.bytes

    def _count_lines(self, reader: stream.Reader) -> None:
        for site, accesses in zip(reader.sites, self.site_counts.accesses, strict=False):
            path = self.path_by_object.get(site.object, "")
            line = line_of(self.line_by_location, (path, site.offset)).merge_by_function()
            self.summary.lines[line] += accesses
            if flops := self.flops.get(path, {}).get(site.offset):
                self.summary.flops[line] += flops * accesses

    # ---- handlers of events

    def on_rank_is(self, host: str, delays: bool, **_: Any) -> None:
        self.summary.host = host
        self.summary.delayed_seconds = 0.0 if delays else None

    def on_enter(self, name: int, call_site: int, delayed_ns: int, **_: Any) -> None:
        self._add_delay(delayed_ns)
        key = name, self.line_of_call(name, call_site)
        if key not in self.sums_by_call:
            self.sums_by_call[key] = CallSums(self.text_of(name), key[1])
        self.current_call = self.sums_by_call[key]
        self.current_call.calls += 1

    def _add_delay(self, delayed_ns: int) -> None:
        if self.summary.delayed_seconds is not None:
            self.summary.delayed_seconds += delayed_ns / 1e9

    def on_leave(self, since_ns: int, delayed_ns: int) -> None:
        self._add_delay(delayed_ns)
        if self.current_call:
            self.current_call.seconds += since_ns / 1e9
        self.current_call = None

    def on_send(self, peer: int, data: dict[str, int], **_: Any) -> None:
        if self.current_call and peer >= 0:
            self.current_call.sent += 1
            self.current_call.sent_bytes += self.total_bytes_of(data)
            self.current_call.peers.add(peer)

    def on_receive(self, request: int, **_: Any) -> None:
        if self.current_call:
            self.posting_call_by_request[request] = self.current_call

    def on_outcome(self, request: int, peer: int, bytes: int, **_: Any) -> None:  # noqa: A002
        calls = self.posting_call_by_request.pop(request, None)
        if calls and peer >= 0:
            calls.received += 1
            calls.received_bytes += bytes
            calls.peers.add(peer)

    def on_collective(self, gives: list[dict[str, int]], gets: list[dict[str, int]], **_: Any) -> None:
        if self.current_call:
            self.current_call.sent_bytes += self.total_bytes_of(*gives)
            self.current_call.received_bytes += self.total_bytes_of(*gets)

    def on_region(self, name: int, level: int) -> None:
        if level > 0:
            self.summary.regions[self.text_of(name)] += 1

    def on_refused(self, what: int) -> None:
        self.summary.refused.append(self.text_of(what))


def combine_ranks(summaries: list[RankSummary]) -> list[CallSums]:
    """Returns the call sums of all ranks combined, in descending order of time."""
    sums_by_call: dict[tuple[str, SourceLine], CallSums] = defaultdict(lambda: CallSums("", UNKNOWN_LINE))
    for calls in (calls for summary in summaries for calls in summary.calls):
        key = calls.name, calls.line
        if key not in sums_by_call:
            sums_by_call[key] = CallSums(calls.name, calls.line)
        total = sums_by_call[key]
        for field_name in ("calls", "seconds", "sent", "sent_bytes", "received", "received_bytes"):
            setattr(total, field_name, getattr(total, field_name) + getattr(calls, field_name))
        total.peers |= calls.peers
    return sorted(sums_by_call.values(), key=lambda calls: -calls.seconds)
