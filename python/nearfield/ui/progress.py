"""Shows how far long work has come and how long the rest will take: as a bar on a terminal, and as a line every few
seconds in a pipe or a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

if TYPE_CHECKING:
    from typing_extensions import Self

EVERY_S = 5.0  # between two lines
KNOWN_FROM = 0.05  # share of the work that must be done before its pace tells when the rest will be
SHORT_S = 10.0  # guesses that are shorter than this may double
LONGER = "longer than was planned"


@dataclass(frozen=True)
class Standing:
    """The progress of the work at one moment."""

    what: str  # is being done
    share: float | None  # of the whole work that is done, from 0 to 1; None if nobody knows how much work there is
    left_s: float | None  # seconds until the end; None if not known yet; negative if the end is overdue

    def __str__(self) -> str:
        return Guesses().line(self)


class Guesses:
    """Decides which guesses of the time left are told. Those of the first moments mean nothing, and if the end moves
    away again and again, nobody knows when it will be."""

    def __init__(self) -> None:
        self._share, self._least_s = 0.0, math.inf

    def line(self, now: Standing) -> str:
        """Returns what is being done, how far it is, and the time left."""
        return now.what if now.share is None else f"{now.what}: {100 * now.share:.0f} % done, {self.left(now)}"

    def left(self, now: Standing) -> str:
        """Returns the time left in words, or why it is not told."""
        share = now.share or 0.0
        if share < self._share:  # other work has begun
            self._least_s = math.inf
        self._share = share
        if now.left_s is None or share < KNOWN_FROM:
            return left_text(None)
        self._least_s = min(self._least_s, max(now.left_s, SHORT_S))
        return LONGER if now.left_s > 2 * self._least_s else left_text(now.left_s)


class WorkBar:
    """Shows what `standing` returns, which is called on a thread of its own; None means that nothing is under way. Use
    as a context: the bar appears with `start` and goes with the context."""

    def __init__(self, console: Console, standing: Callable[[], Standing | None], every_s: float = EVERY_S) -> None:
        self._console, self._standing, self._every_s = console, standing, every_s
        self._ended = Event()
        self._guesses = Guesses()
        self._bar = _Bar(console, standing, self._guesses) if console.is_terminal else None
        self._lines = Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Removes the bar, or ends the lines."""
        self._ended.set()
        if self._bar:
            self._bar.stop()
        elif self._lines.is_alive():
            self._lines.join()

    def start(self) -> None:
        if self._bar:
            self._bar.start()
        else:
            self._lines.start()

    def _print_lines(self) -> None:
        while not self._ended.wait(self._every_s):
            if now := self._standing():
                self._console.print(escape(self._guesses.line(now)), soft_wrap=True)


def left_text(seconds: float | None) -> str:
    """Returns 'about 40 s left'. The text is coarse because the time is a guess."""
    if seconds is None:
        return "time left not known yet"
    if seconds < 0:
        return LONGER
    if seconds < 100:
        return f"about {max(1, round(seconds))} s left"
    minutes = round(seconds / 60)
    return f"about {minutes} min left" if minutes < 100 else f"about {minutes // 60} h {minutes % 60} min left"


class _Bar(Progress):
    """A bar of one line, which asks for the standing before it is drawn."""

    def __init__(self, console: Console, standing: Callable[[], Standing | None], guesses: Guesses) -> None:
        self._standing, self._guesses = standing, guesses
        what = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
        left = TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True))
        columns: list[Any] = [what, BarColumn(bar_width=16), TextColumn("{task.fields[percent]}")]
        columns += [TimeElapsedColumn(), left]
        super().__init__(*columns, console=console, refresh_per_second=2, transient=True, expand=True)
        self._task = self.add_task("starting", total=1.0, left="", percent="  0 %")

    def get_renderables(self) -> Iterable[RenderableType]:
        if not self.tasks or not (now := self._standing()):
            return ()
        if now.share is None:
            self.update(self._task, total=None, description=escape(now.what), left="", percent="")
        else:
            percent, left = f"{100 * now.share:3.0f} %", self._guesses.left(now)
            what = escape(now.what)
            self.update(self._task, total=1.0, completed=now.share, description=what, left=left, percent=percent)
        return super().get_renderables()
