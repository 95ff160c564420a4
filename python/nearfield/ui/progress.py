"""Shows the progress of long-running work: as a bar on a terminal, and as a line every few seconds in a pipe or log
file."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Column

from nearfield.base.progress import LOG_INTERVAL_S, LogLines, Progress
from nearfield.base.units import format_seconds
from nearfield.ui.terminal import err

if TYPE_CHECKING:
    from typing_extensions import Self

MIN_SHARE_TO_ESTIMATE = 0.05  # min fraction of the work that must be done before the remaining time is shown
SHORT_ESTIMATE_S = 10.0  # estimates below this may double without being distrusted
OVER_ESTIMATE_TEXT = "taking longer than estimated"
ENDING_TEXT = "ending"


class RemainingTimeEstimate:
    """Estimates the remaining time from the progress so far. Gives no estimate at the beginning, or if the estimated
    end recedes repeatedly."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.latest: Progress | None = None
        self._latest_at = self._begun_at = self._begun_share = 0.0
        self._left_s: float | None = None  # estimate at the time of the latest progress event
        self._min_left_s = math.inf

    def add_event(self, event: Progress) -> None:
        """Records a progress event. If its share is smaller than before, another piece of work has begun."""
        now, share = self._clock(), event.share or 0.0
        if self.latest is None or self.latest.share is None or share < self.latest.share:
            self._begun_at, self._begun_share, self._min_left_s = now, share, math.inf
        self._left_s = event.remaining_s
        if self._left_s is None and share > self._begun_share:
            self._left_s = (now - self._begun_at) * (1 - share) / (share - self._begun_share)
        if self._left_s is not None and event.max_remaining_s is not None:
            self._left_s = min(self._left_s, event.max_remaining_s)
        self.latest, self._latest_at = event, now

    def __str__(self) -> str:
        """Returns the remaining time as text, or why there is no estimate. The time decreases between progress
        events."""
        if self.latest is None or self._left_s is None or (self.latest.share or 0.0) < MIN_SHARE_TO_ESTIMATE:
            return format_remaining_time(None)
        silent_s = self._clock() - self._latest_at
        left_s = self._left_s - silent_s
        self._min_left_s = min(self._min_left_s, max(left_s, SHORT_ESTIMATE_S))
        if 0 <= left_s <= 2 * self._min_left_s:
            return format_remaining_time(left_s)
        if self.latest.share == 1.0:
            return ENDING_TEXT
        max_left_s = (self.latest.max_remaining_s or 0.0) - silent_s
        return (
            OVER_ESTIMATE_TEXT
            if max_left_s <= 0
            else f"{OVER_ESTIMATE_TEXT}, at most {format_seconds(max_left_s)} more"
        )

    def format_line(self) -> str:
        """Returns the current work, the fraction that is done, and the remaining time, as text."""
        if self.latest is None or self.latest.share is None:
            return str(self.latest or "")
        return f"{self.latest}: {100 * self.latest.share:.0f} % done, {self}"


class ProgressDisplay:
    """Displays progress events; pass it as the `report` argument of long-running work. Use as a context manager: the
    bar appears with the first event and disappears at the end of the context."""

    def __init__(
        self, console: Console = err, every_s: float = LOG_INTERVAL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._every_s = console, every_s
        self._left = RemainingTimeEstimate(clock)
        self._ended = Event()
        self._bar = _ProgressBar(console, self._left) if console.is_terminal else None
        self._log = LogLines(lambda text: console.print(escape(text), soft_wrap=True), every_s)
        self._thread = Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._bar:
            self._bar.stop()
        elif self._thread.is_alive():
            self._thread.join()

    def __call__(self, event: str | Progress) -> None:
        """Prints a text, or displays a progress event until the next one."""
        if isinstance(event, str):
            self._console.print(escape(event))
            return
        before = self._left.latest
        self._left.add_event(event)
        if not self._bar and event.phase and (before is None or before.phase != event.phase):
            self._log.print_line(self._left.format_line())
        if before is None:
            (self._bar or self._thread).start()

    def _print_lines(self) -> None:
        while not self._ended.wait(self._every_s):
            self._log.add_line(self._left.format_line())


def format_remaining_time(seconds: float | None) -> str:
    """Returns text such as 'about 40 s left'. It is rounded coarsely because the time is an estimate."""
    if seconds is None:
        return "time left not known yet"
    if seconds < 100:
        return f"about {max(1, round(seconds))} s left"
    minutes = round(seconds / 60)
    return f"about {minutes} min left" if minutes < 100 else f"about {minutes // 60} h {minutes % 60} min left"


class _ProgressBar(Bar):
    """A progress bar of one line, which fetches the latest progress event whenever it is drawn."""

    def __init__(self, console: Console, remaining_time: RemainingTimeEstimate) -> None:
        self._left = remaining_time
        what = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        right = TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True))
        columns: list[Any] = [what, BarColumn(bar_width=16), TextColumn("{task.fields[percent]}")]
        columns += [TimeElapsedColumn(), right]
        super().__init__(*columns, console=console, refresh_per_second=2, transient=True, expand=True)
        self._task = self.add_task("", total=None, left="", percent="")

    def get_renderables(self) -> Iterable[RenderableType]:
        if not self.tasks or not (now := self._left.latest):
            return ()
        known = now.share is not None
        self.update(
            self._task,
            total=1.0 if known else None,
            completed=now.share,
            description=escape(str(now)),
            left=str(self._left) if known else "",
            percent=f"{100 * (now.share or 0.0):3.0f} %" if known else "",
        )
        return super().get_renderables()
