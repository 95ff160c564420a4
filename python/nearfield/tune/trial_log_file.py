"""The file `<rules>.trials` that stores an unfinished tune, in the folder of its rules file.

The file exists from the beginning of a tune until its rules are complete, and `tune --resume` continues it. Every line
is on disk before the next trial begins. A damaged line is dropped, and its trial is measured again. Only one tune at a
time can use the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import os_errors_as_profile_errors
from nearfield.base.journal import Journal
from nearfield.base.units import counted
from nearfield.base.words import join_and
from nearfield.tune.request import TuneRequest
from nearfield.tune.trial_log import (
    RESTART_REMEDY,
    LaunchLine,
    LogLine,
    RequestLine,
    RuleLine,
    TrialLine,
    TrialLog,
    UndecidedLine,
    parse_log_line,
)

TRIAL_LOG_SUFFIX = ".trials"
_OTHER_FILE_REMEDY = "choose another file with --out"


class TrialLogFile(TrialLog):
    """The log lines of a tune, mirrored in a file. Enter `open_locked` first; then call `read_request` to continue a
    tune, or `record_request` to start a new one."""

    def __init__(self, rules_file: Path) -> None:
        """`rules_file` is the path of the rules file that the tune will write."""
        super().__init__()
        self.rules, self.path = rules_file, rules_file.with_name(f"{rules_file.name}{TRIAL_LOG_SUFFIX}")
        self._journal = Journal(self.path, _OTHER_FILE_REMEDY)

    @contextmanager
    def open_locked(self, *, resume: bool) -> Iterator[TrialLogFile]:
        """Opens the file and locks it. With `resume`, raises UsageError if the file does not exist."""
        if resume and not os.path.lexists(self.path):
            raise UsageError(
                f"there is nothing to resume at {self.rules}: no {self.path.name} beside it",
                "start a new tune without --resume",
            )
        with os_errors_as_profile_errors(self.path, _OTHER_FILE_REMEDY):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = UsageError(f"another tune is at work for {self.rules}", f"wait for it, or {_OTHER_FILE_REMEDY}")
        # private (0600, own file), since settings from the file are passed to programs
        with self._journal.open_locked(busy, is_private=True):
            read = [parse_log_line(line) for line in self._journal.read_lines()]
            self.lines = [line for line in read if line]
            self.num_damaged_lines = len(read) - len(self.lines)
            if read and not self.lines:
                raise ProfileError(
                    f"{self.path} is in the way: it is not of a tune", f"remove it, or {_OTHER_FILE_REMEDY}"
                )
            yield self

    def read_request(self) -> TuneRequest:
        """Returns the request of the interrupted tune. Raises ProfileError if its line is damaged."""
        first = self.lines[0] if self.lines else None
        if not isinstance(first, RequestLine):
            raise ProfileError(f"cannot resume: the first line of {self.path} is damaged", RESTART_REMEDY)
        return first.request

    def require_no_interrupted_tune(self) -> None:
        """Raises ProfileError if the file holds an interrupted tune."""
        if self.count_trials():
            raise ProfileError(
                f"there is an interrupted tune of {self.rules} with {self.describe_content()}",
                "complete it with --resume, or discard it with --overwrite",
            )

    def record_request(self, request: TuneRequest) -> None:
        """Empties the file and writes the request as its first line."""
        self._journal.clear()
        self.lines.clear()
        self.num_damaged_lines = 0
        self.add(RequestLine(request=request))

    def add(self, line: LogLine) -> None:
        """Appends a line to the file and waits until it is on disk."""
        super().add(line)
        self._journal.append_line(line.model_dump_json().encode(), sync=True)

    def describe_content(self) -> str:
        """Returns the numbers of trials, confirming launches and rules in the file, as human-readable text."""
        number = {
            kind: sum(isinstance(line, kind) for line in self.lines) for kind in (TrialLine, LaunchLine, RuleLine)
        }
        parts = [counted(number[TrialLine], "finished trial")]
        parts += [counted(number[LaunchLine], "confirming launch", "confirming launches")] if number[LaunchLine] else []
        return join_and(parts + ([counted(number[RuleLine], "rule")] if number[RuleLine] else []))

    def is_undecided(self) -> bool:
        """Returns whether an earlier session ended without a verdict, so that a later session can continue."""
        return any(isinstance(line, UndecidedLine) for line in self.lines)

    def remove_file(self) -> None:
        """Removes the file."""
        self._journal.remove_file()
