"""Progress reports of long work. `nearfield.ui.progress` displays them; a caller without a display prints them as lines
or ignores them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LOG_INTERVAL_S = 5.0  # seconds between two lines of a log
UNCHANGED_LOG_INTERVAL_S = 14.0  # seconds between two lines with the same text


@dataclass(frozen=True)
class Progress:
    """The progress of long work at one moment."""

    text: str  # current step, or latest result
    share: float | None = None  # completed share of the whole work, from 0 to 1; None if unknown
    remaining_s: float | None = None  # remaining seconds; None: the display estimates them from the pace
    max_remaining_s: float | None = None  # seconds after which the work ends in any case; None: no limit
    phase: str = ""  # current part of the work; a log gets a line when it changes

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.phase, self.text)))


Report = Callable[[str | Progress], None]  # a text is printed once; a Progress replaces the previous Progress
ReportLine = Callable[[str], None]


def ignore_progress(event: str | Progress) -> None:
    """Ignores a progress report."""


class LogLines:
    """Passes progress lines on to a log: every few seconds if the text changes, and less often if it does not, so that
    users can tell slow work from work that hangs."""

    def __init__(
        self, print_line: ReportLine, every_s: float = LOG_INTERVAL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._print_line, self._every_s, self._clock = print_line, every_s, clock
        self._printed, self._printed_at = "", clock()

    def add_line(self, text: str) -> None:
        """Prints the line, unless the previous line was printed too recently."""
        silent_s = self._clock() - self._printed_at
        if silent_s >= (self._every_s if text != self._printed else UNCHANGED_LOG_INTERVAL_S):
            self.print_line(text)

    def print_line(self, text: str) -> None:
        """Prints the line immediately."""
        self._print_line(text)
        self._printed, self._printed_at = text, self._clock()
