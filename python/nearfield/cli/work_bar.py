"""How far long work is and how long it still takes: a bar on a terminal; in a pipe or a log a line every few
seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

EVERY_S = 5.0  # a line


class Pace:
    """Work in any unit, and how long the rest of it takes if it goes on as it went so far."""

    def __init__(self, total: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.done = total, 0.0
        self._clock, self._begin = clock, clock()

    def left_s(self) -> float | None:
        """None: nothing is done that would tell."""
        elapsed = self._clock() - self._begin
        return elapsed / self.done * max(0.0, self.total - self.done) if self.done > 0 else None


class WorkBar:
    """`left_s` is asked for the seconds that are left, or None while nobody knows, on a thread of its own."""

    def __init__(self, console: Console, left_s: Callable[[], float | None]) -> None:
        self._console, self._left_s = console, left_s
        self._what, self._share = "starting", 0.0
        self._ended = Event()
        self._bar = _bar(console, left_s) if console.is_terminal else None
        self._task = self._bar.add_task(self._what, total=1.0) if self._bar else None
        self._lines = Thread(target=self._print_lines, daemon=True)

    def start(self) -> None:
        self._bar.start() if self._bar else self._lines.start()

    def show(self, what: str, share: float) -> None:
        """What is being done, and how much of all is done, from 0 to 1."""
        self._what, self._share = what, share
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=share, description=escape(what))

    def stop(self) -> None:
        """The bar goes. Twice is as good as once."""
        self._ended.set()
        if self._bar:
            self._bar.stop()

    def _print_lines(self) -> None:
        while not self._ended.wait(EVERY_S):
            line = f"{self._what}: {100 * self._share:.0f} % done, {left_text(self._left_s())}"
            self._console.print(escape(line), soft_wrap=True)


def left_text(seconds: float | None) -> str:
    """'about 40 s left'; coarse, as it is a guess."""
    if seconds is None:
        return "time left not known yet"
    if seconds < 100:
        return f"about {max(1, round(seconds))} s left"
    minutes = round(seconds / 60)
    return f"about {minutes} min left" if minutes < 100 else f"about {minutes // 60} h {minutes % 60} min left"


class _TimeLeft(ProgressColumn):
    def __init__(self, left_s: Callable[[], float | None]) -> None:
        super().__init__(Column(no_wrap=True))
        self._asked = left_s

    def render(self, task: Task) -> Text:
        return Text(left_text(self._asked()))


def _bar(console: Console, left_s: Callable[[], float | None]) -> Progress:
    whole = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = (TextColumn("{task.description}", table_column=whole), BarColumn(bar_width=16))
    told = (TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(), _TimeLeft(left_s))
    return Progress(*columns, *told, console=console, refresh_per_second=2, transient=True, expand=True)
