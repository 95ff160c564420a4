"""The progress that long work reports. `nearfield.ui.progress` displays it; a caller without a display prints the
messages, or ignores everything."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

EVERY_S = 5.0  # between two lines of a log
UNCHANGED_EVERY_S = 14.0  # between two lines of the same text


@dataclass(frozen=True)
class Progress:
    """The progress of the work at one moment."""

    text: str  # what is being done, or the latest result
    share: float | None = None  # of the whole work that is done, from 0 to 1; None if its length is unknown
    left_s: float | None = None  # seconds until the end; None: the display estimates them from the pace
    max_left_s: float | None = None  # seconds after which the work ends in any case; None without such a limit
    phase: str = ""  # the part of the work that is under way; a log gets a line when it changes

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.phase, self.text)))


Report = Callable[[str | Progress], None]  # a text is printed once; a Progress replaces the one before
ReportLine = Callable[[str], None]


def ignore(event: str | Progress) -> None:
    """Drops what is reported."""


class LogLines:
    """Passes lines on to a log: every few seconds if they change, and less often if they do not, so that slow work is
    not mistaken for work that hangs."""

    def __init__(
        self, print_line: ReportLine, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._print_line, self._every_s, self._clock = print_line, every_s, clock
        self._printed, self._printed_at = "", clock()

    def add(self, text: str) -> None:
        """Prints the line, unless the last one was printed too recently."""
        silent_s = self._clock() - self._printed_at
        if silent_s >= (self._every_s if text != self._printed else UNCHANGED_EVERY_S):
            self.print(text)

    def print(self, text: str) -> None:
        """Prints the line in any case."""
        self._print_line(text)
        self._printed, self._printed_at = text, self._clock()
