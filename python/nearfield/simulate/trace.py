"""Runs traces of other tools through a simulated memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nearfield._native import trace
from nearfield.base.errors import UsageError
from nearfield.base.words import as_sentence, suggest
from nearfield.simulate.memory import Memory
from nearfield.simulate.source import TraceSource

ENOUGH_BYTES = 1 << 16  # enough of a trace to recognise its format
Read = Callable[[Callable[[], bytes]], bytes]


def formats() -> dict[str, trace.Format]:
    """Returns name -> format for all trace formats."""
    return {one.name: one for one in trace.formats()}


@dataclass(frozen=True)
class TraceSelection:
    """Which part of the traces to simulate, and in which format to read them."""

    format: str = ""  # name of the format; empty: recognise the format of each trace by its content
    skip: int = 0  # accesses to skip at the beginning
    limit: int | None = None  # maximum number of accesses after the skipped ones
    instructions: bool = False  # simulate instruction fetches as loads
    chase: bool = False  # every load depends on the data of the previous load


class TraceRun:
    """Simulates the accesses of traces, one trace after the other, in one memory.

    `run` reads a trace to its end, or to the limit of accesses. `guarded(f)` calls f() so that Ctrl-C takes effect, and
    returns its result; it may raise an exception, such as KeyboardInterrupt. Whenever `run` ends, `accesses` and the
    memory agree: both include all accesses up to the same point of the trace.
    """

    def __init__(self, memory: Memory, choice: TraceSelection, guarded: Read = lambda read: read()) -> None:
        self.memory, self.choice = memory, choice
        self.found = trace.Accesses(memory.native, choice.skip, choice.limit, choice.instructions, choice.chase)
        self.formats: list[str] = []  # names of the formats of the traces so far
        self._guarded = guarded
        if choice.format and choice.format not in formats():
            remedy = as_sentence(suggest(choice.format, formats()))
            raise UsageError(f"there is no format of traces '{choice.format}'", remedy)

    @property
    def threads(self) -> int:
        """Returns the number of threads in the traces; 1 if the format does not distinguish threads."""
        return max(1, self.found.threads)

    @property
    def accesses(self) -> int:
        """Returns the number of simulated accesses."""
        taken = self.found.instructions if self.choice.instructions else 0
        return self.found.loads + self.found.stores + taken

    def run(self, source: TraceSource, progress: Callable[[], None] = lambda: None) -> None:
        """Reads and simulates a trace; calls `progress` after every block. Raises UsageError if the trace cannot be
        read."""
        if self.found.full:
            return
        block, whole = self._read_beginning(source)
        self.formats.append(self.choice.format or _recognise_format(source, block, whole))
        reader = trace.Reader(self.formats[-1], self.found)
        try:
            while block and not self.found.full:
                reader.feed(block)
                progress()
                block = self._guarded(source.read)
            reader.finish()
        except ValueError as error:
            raise UsageError(f"{source.name}: {error}", _expected_format(self.formats[-1])) from error
        except OverflowError as error:
            raise UsageError(f"{source.name}: {error}", "Simulate a part of the trace: --skip and --limit.") from error

    def share(self, source: TraceSource) -> float | None:
        """Returns the completed share, from 0 to 1: the larger of the share of the trace that has been read and the
        share of the access limit that is reached; None if neither is known."""
        of_limit = self.accesses / self.choice.limit if self.choice.limit else None
        return max((share for share in (source.share, of_limit) if share is not None), default=None)

    def _read_beginning(self, source: TraceSource) -> tuple[bytes, bool]:
        """Returns enough bytes of the trace to recognise its format, and whether they are the whole trace."""
        found = b""
        while len(found) < ENOUGH_BYTES:
            if not (more := self._guarded(source.read)):
                return found, True
            found += more
        return found, False


def _recognise_format(source: TraceSource, block: bytes, whole: bool) -> str:
    name = trace.recognised(block + b"\n" * whole if not block.endswith(b"\n") else block)
    if not block:
        raise UsageError(f"{source.name} is empty")
    if not name:
        raise UsageError(
            f"{source.name} is in none of the formats that are known",
            f"Name the one that it should be in, to see the first line that is not: --format {'|'.join(formats())}.",
        )
    return name


def _expected_format(name: str) -> str:
    return f"Expected: {formats()[name].expected}."
