"""The file beside the rules of a tune that has not ended, `<rules>.trials`.

It exists from the beginning of a tune until its rules are complete, and `tune --resume` goes on from it. Every line is
on disk before the next trial begins. A damaged line is left out, and its trial is measured again. Only one tune at a
time can hold the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import os_errors_as_profile_errors
from nearfield.base.units import counted
from nearfield.base.words import join_and
from nearfield.tune.request import Request
from nearfield.tune.trial_log import (
    ANEW,
    LaunchLine,
    Line,
    RequestLine,
    RuleLine,
    TrialLine,
    TrialLog,
    UndecidedLine,
    read_line,
)

SUFFIX = ".trials"


class TrialLogFile(TrialLog):
    """The lines of a tune together with their file. Enter `locked` first; then call `resume_request` to go on, or
    `record_request` to start anew."""

    def __init__(self, rules: Path) -> None:
        """`rules` is the file that the tune will write."""
        super().__init__()
        self.rules, self.path = rules, rules.with_name(f"{rules.name}{SUFFIX}")
        self._file: FileIO | None = None

    @contextmanager
    def locked(self, *, resume: bool) -> Iterator[TrialLogFile]:
        """Opens the file and locks it. With `resume`, raises UsageError if there is no such file."""
        self._file = self._open(resume)
        with self._file:
            self._lock()
            with os_errors_as_profile_errors(self.path, _ANOTHER):
                self._read()
            yield self

    def resume_request(self) -> Request:
        """Returns the request of the interrupted tune."""
        first = self.lines[0] if self.lines else None
        if not isinstance(first, RequestLine):
            raise ProfileError(f"cannot resume: the first line of {self.path} is damaged", ANEW)
        return first.request

    def require_free(self) -> None:
        """Raises ProfileError if the file holds an interrupted tune."""
        if self.found():
            raise ProfileError(
                f"there is an interrupted tune of {self.rules} with {self.describe_content()}",
                "complete it with --resume, or give it up with --overwrite",
            )

    def record_request(self, request: Request) -> None:
        """Empties the file and writes the request as its first line."""
        assert self._file
        with os_errors_as_profile_errors(self.path, _ANOTHER):
            self._file.truncate(0)
        self.lines.clear()
        self.damaged = 0
        self.add(RequestLine(request=request))

    def add(self, line: Line) -> None:
        """Appends a line, and returns when it is on disk."""
        super().add(line)
        assert self._file
        text = line.model_dump_json().encode() + b"\n"
        with os_errors_as_profile_errors(self.path, _ANOTHER):
            if self._file.write(text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)

    def describe_content(self) -> str:
        """Returns in words how many trials, launches of confirmations and rules the file holds."""
        number = {
            kind: sum(isinstance(line, kind) for line in self.lines) for kind in (TrialLine, LaunchLine, RuleLine)
        }
        parts = [counted(number[TrialLine], "finished trial")]
        parts += [counted(number[LaunchLine], "confirming launch", "confirming launches")] if number[LaunchLine] else []
        return join_and(parts + ([counted(number[RuleLine], "rule")] if number[RuleLine] else []))

    def undecided(self) -> bool:
        """Returns whether a sitting ended without a verdict, so that a later one can go on."""
        return any(isinstance(line, UndecidedLine) for line in self.lines)

    def end(self) -> None:
        """Removes the file."""
        self.path.unlink(missing_ok=True)

    def _open(self, resume: bool) -> FileIO:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if resume else os.O_CREAT)
        try:
            if not resume:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            return FileIO(os.open(self.path, flags, 0o600), "r+")
        except FileNotFoundError as error:
            raise UsageError(
                f"there is nothing to resume at {self.rules}: no {self.path.name} beside it",
                "start a new tune without --resume",
            ) from error
        except OSError as error:
            raise ProfileError(f"cannot open {self.path}: {error.strerror}", _ELSEWHERE) from error

    def _lock(self) -> None:
        """Locks the file itself; filelock would need another one beside it. Raises ProfileError if others may write to
        it, since this program runs the settings in it."""
        assert self._file
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise ProfileError(f"{self.path} is in the way: it is not a file that only you may write", _ELSEWHERE)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another tune is at work for {self.rules}", "wait for it, or choose another file with --out"
            ) from error

    def _read(self) -> None:
        assert self._file
        *texts, torn = self._file.readall().split(b"\n")
        lines = [read_line(text) for text in [*texts, *([torn] if torn else [])]]
        self.lines = [line for line in lines if line]
        self.damaged = len(lines) - len(self.lines)
        if lines and not self.lines:
            raise ProfileError(f"{self.path} is in the way: it is not of a tune", _ELSEWHERE)
        if torn:  # so that the next line is one of its own
            self._file.write(b"\n")


_ELSEWHERE = "remove it, or choose another file with --out"
_ANOTHER = "choose another file with --out"
