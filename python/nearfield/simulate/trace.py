"""Runs traces of other tools through a simulated memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearfield._native import trace
from nearfield.base.errors import UsageError
from nearfield.base.words import as_sentence, suggest_name
from nearfield.simulate.memory import Memory
from nearfield.simulate.source import TraceSource

MIN_BYTES_TO_RECOGNIZE = 1 << 16  # enough of a trace to recognise its format
GuardedRead = Callable[[Callable[[], bytes]], bytes]


def trace_format_by_name() -> dict[str, trace.Format]:
    """Returns name -> format for all trace formats."""
    return {one.name: one for one in trace.formats()}


@dataclass(frozen=True)
class TraceSelection:
    """The part of the traces to simulate, and the format in which to read them."""

    format: str = ""  # name of the format; empty: recognise the format of each trace by its content
    skip: int = 0  # accesses to skip at the beginning
    limit: int | None = None  # maximum number of accesses after the skipped ones
    instructions: bool = False  # simulate instruction fetches as loads
    chase: bool = False  # every load depends on the data of the previous load


class TraceRun:
    """Simulates the accesses of traces, one trace after the other, in one memory.

    `run` reads a trace to its end, or to the limit of accesses. `read_guarded(f)` calls f() so that Ctrl-C takes
    effect, and returns its result; it may raise an exception, such as KeyboardInterrupt. Whenever `run` ends, even by
    an exception, `accesses` and the memory include all accesses up to the same point of the trace."""

    def __init__(
        self, memory: Memory, selection: TraceSelection, read_guarded: GuardedRead = lambda read: read()
    ) -> None:
        self.memory, self.selection = memory, selection
        self.native_accesses = trace.Accesses(
            memory.native, selection.skip, selection.limit, selection.instructions, selection.chase
        )
        self.format_names: list[str] = []  # names of the formats of the traces so far
        self._read_guarded = read_guarded
        if selection.format and selection.format not in trace_format_by_name():
            remedy = as_sentence(suggest_name(selection.format, trace_format_by_name()))
            raise UsageError(f"there is no format of traces '{selection.format}'", remedy)

    @property
    def threads(self) -> int:
        """Returns the number of threads in the traces; 1 if the format does not distinguish threads."""
        return max(1, self.native_accesses.threads)

    @property
    def accesses(self) -> int:
        """Returns the number of simulated accesses."""
        num_instructions = self.native_accesses.instructions if self.selection.instructions else 0
        return self.native_accesses.loads + self.native_accesses.stores + num_instructions

    def run(self, source: TraceSource, progress: Callable[[], None] = lambda: None) -> None:
        """Reads and simulates a trace; calls `progress` after every block. Raises UsageError if the trace cannot be
        read."""
        if self.native_accesses.full:
            return
        block, is_whole_trace = self._read_beginning(source)
        self.format_names.append(self.selection.format or _recognize_format(source, block, is_whole_trace))
        reader = trace.Reader(self.format_names[-1], self.native_accesses)
        try:
            while block and not self.native_accesses.full:
                reader.feed(block)
                progress()
                block = self._read_guarded(source.read)
            reader.finish()
        except ValueError as error:
            raise UsageError(f"{source.name}: {error}", _expected_format(self.format_names[-1])) from error
        except OverflowError as error:
            raise UsageError(f"{source.name}: {error}", "Simulate a part of the trace: --skip and --limit.") from error

    def completed_share(self, source: TraceSource) -> float | None:
        """Returns the completed share, from 0 to 1: the larger of the share of the trace that has been read and the
        share of the access limit that is reached; None if neither is known."""
        limit_share = self.accesses / self.selection.limit if self.selection.limit else None
        return max((share for share in (source.read_share, limit_share) if share is not None), default=None)

    def _read_beginning(self, source: TraceSource) -> tuple[bytes, bool]:
        """Returns enough bytes of the trace to recognise its format, and whether they are the whole trace."""
        beginning = b""
        while len(beginning) < MIN_BYTES_TO_RECOGNIZE:
            if not (block := self._read_guarded(source.read)):
                return beginning, True
            beginning += block
        return beginning, False


def _recognize_format(source: TraceSource, block: bytes, is_whole_trace: bool) -> str:
    name = trace.recognised(block + b"\n" * is_whole_trace if not block.endswith(b"\n") else block)
    if not block:
        raise UsageError(f"{source.name} is empty")
    if not name:
        names = "|".join(trace_format_by_name())
        raise UsageError(
            f"{source.name} is in none of the formats that are known",
            f"Name the one that it should be in, to see the first line that is not: --format {names}.",
        )
    return name


def _expected_format(name: str) -> str:
    return f"Expected: {trace_format_by_name()[name].expected}."
