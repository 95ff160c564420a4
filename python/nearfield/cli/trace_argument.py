"""Shared by commands that read traces: obtains the trace from a folder or by running a command, and reports the
progress of reading."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.files import atomic_write
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.progress import Progress, Report
from nearfield.base.units import format_rounded
from nearfield.base.words import join_and
from nearfield.observe.ending import EndedBySignal
from nearfield.observe.observing import observe
from nearfield.observe.trace import BrokenTraceError, Trace, find_newest_trace
from nearfield.ui.terminal import err, program_output_to_stderr


def find_trace(path: Path | None = None) -> Trace:
    """Returns the given trace, or else the newest trace in the current folder. If there are several, prints which is
    used. Raises ProfileError or UsageError."""
    if path:
        return Trace(path)
    found, every = find_newest_trace(Path())
    if others := [str(folder) for folder in every if folder != found.folder]:
        also = "there is also" if len(others) == 1 else "there are also"
        err.print(f"nearfield: this is {escape(f'{found.folder}, the newest trace here; {also} {join_and(others)}')}")
    return found


@contextmanager
def provide_trace(
    words: list[str], keep: Path | None, *, valgrind: bool = False, prints_data: bool = False
) -> Iterator[Trace]:
    """Yields the trace in the given folder, or observes the given command and yields its trace. If nothing is given,
    yields the newest trace in the current folder. `valgrind` is passed to observe(). If the caller prints data
    (`prints_data`), the command's standard output goes to standard error. Raises MeasurementError if the trace is
    incomplete, and EndedBySignal if a signal terminated the command."""
    if not words or len(words) == 1 and Path(words[0]).is_dir():
        found = find_trace(Path(words[0]) if words else None)
        if valgrind:
            raise UsageError(f"{found.folder} was observed already", "--valgrind is for a command: -- COMMAND")
        if found.metadata.ended_by:
            raise BrokenTraceError(
                f"{found.folder} ends where {found.metadata.ended_by} ended the program, so its ranks do not end "
                "together",
                f"observe it to its end; the part until then: "
                f"{own_command.command_line('observe', 'show', found.folder)}",
            )
        yield found
        return
    if len(words) == 1 and not shutil.which(words[0]):
        raise UsageError(f"{words[0]} is neither a trace nor a command", "name a folder that observe made")
    with OwnedFolder("nearfield-") as folder:
        with program_output_to_stderr(prints_data):
            done = observe(
                words, keep or Path(folder) / "trace", valgrind=valgrind,
                progress=lambda line: err.print(f"nearfield: {line}"),
            )  # fmt: skip
        if done.end_signal:
            raise EndedBySignal(done.end_signal, "while the program ran")
        if done.problem:
            raise MeasurementError(f"the program was not observed to its end: {done.problem}")
        yield done.trace


# First characters of the files that --timeline and --goal write, by option; files with another beginning are not
# replaced.
_FILE_PREFIX_BY_OPTION = {"--timeline": '{"displayTimeUnit"', "--goal": "// GOAL, simulated by nearfield"}


def require_output_file(file: Path, option: str) -> None:
    """Raises UsageError if the option names a folder, or a file that the option has not written, and ProfileError if
    the file cannot be written. Call it before long work."""
    if file.is_dir():
        raise UsageError(f"{option} {file}: this is a folder", "name a file")
    if file.is_file() and file.stat().st_size:
        begin = _FILE_PREFIX_BY_OPTION[option].encode()
        with file.open("rb") as found:
            is_of_option = found.read(len(begin)) == begin
        if not is_of_option:
            raise UsageError(f"{option} {file}: there is another file of this name", "name another one, or remove it")
    atomic_write(file, "", "name another file, in a folder that you may write", keep=False)


class AccessReporter:
    """Reports the number of accesses read so far, and the accesses per second since the construction of this object,
    when `before` accesses had been read. `total` is the number of accesses to read; 0 if unknown."""

    def __init__(self, report: Report, total: int = 0, source: str = "", before: int = 0) -> None:
        self._report, self._total, self._source = report, total, source
        self._before, self._begun = before, time.monotonic()

    def __call__(self, accesses: int, share: float | None = None) -> None:
        """Reports the progress. `share` is the fraction that is done, needed only if `total` is unknown."""
        seconds = time.monotonic() - self._begun
        rate = (accesses - self._before) / seconds if seconds else 0.0
        if self._total:
            share = min(1.0, accesses / self._total)
        text = f"{format_rounded(accesses)} accesses, {format_rounded(rate)} a second{self._source}"
        self._report(Progress(text, share))
