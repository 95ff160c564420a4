"""What `nearfield tune` tells while it runs: how long it will take; then one bar for the phase under way, or in a log a
line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from threading import Event, Thread
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from nearfield.tune.gains import geometric_mean
from nearfield.tune.search import Trial
from nearfield.tune.tuning import Listener
from nearfield.units import format_seconds

EVERY_S = 5.0  # a line in a log

err = Console(stderr=True, highlight=False, soft_wrap=True)


class _Clock(Progress):
    """Its tasks are done when their time is over."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            task.completed = min(task.total or 0, task.elapsed or 0)
        return super().get_renderables()


class Display(Listener):
    """Use as a context. `prefix` stands before what is told of one MPI among several."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self.prefix = ""
        self._every_s = every_s
        self._ended = Event()
        self._phase, self._begun, self._seconds, self._best = "", 0.0, 0.0, ""
        self._ends = 0.0  # about, on the monotonic clock
        self._task: Any = None

    def __enter__(self) -> Display:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[best]}"),
        )
        self._bar = _Clock(*columns, console=err, refresh_per_second=4, transient=True, disable=not err.is_terminal)
        self._bar.start()
        self._thread = Thread(target=self._log, daemon=True)
        if not err.is_terminal:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._bar.stop()

    def say(self, text: str) -> None:
        err.print(escape(text))

    def plan(self, mpi_name: str, distances: list[str], seconds: Mapping[str, float], longer_s: float) -> None:
        total, latest = sum(seconds.values()), sum(seconds.values()) + longer_s
        self._ends = time.monotonic() + total
        phases = ", ".join(f"{name} {format_seconds(taken)}" for name, taken in seconds.items())
        many = f"{len(distances)} distances ({', '.join(distances)})" if len(distances) > 1 else distances[0]
        told = f"about {format_seconds(total)}, or up to {format_seconds(latest)} where that leaves doubts"
        self.say(f"{self.prefix}{mpi_name}, {many}: {told} ({phases})")

    def begin(self, distance: str, phase: str, seconds: float) -> None:
        self._phase, self._begun, self._seconds, self._best = (
            f"{self.prefix}{distance}: {phase}", time.monotonic(), seconds, "",
        )  # fmt: skip
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(self._phase, total=seconds, best="")
        self._bar.start_task(self._task)
        if not err.is_terminal:
            err.print(escape(f"{self._phase} ({seconds:.0f} s)"))

    def tried(self, trial: Trial, best: Trial | None, count: int) -> None:
        if best and best.gains:
            self._best = f"{count} tried, best {geometric_mean(best.gains.values()).value:.2f}x"
            self._bar.update(self._task, best=self._best)
        if trial.reason and err.is_terminal:
            err.print(f"[dim]{trial.state}: {escape(trial.reason)}[/dim]")

    def end(self) -> None:
        """Nothing more is under way for this MPI."""
        self._phase = ""
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None

    def _log(self) -> None:
        while not self._ended.wait(self._every_s):
            if self._phase:
                err.print(escape(self._line(time.monotonic())))

    def _line(self, now: float) -> str:
        """Where it is, for a log."""
        best = f", {self._best}" if self._best else ""
        left = max(self._ends, self._begun + self._seconds) - now
        told = f"about {format_seconds(left)} left in all" if left >= 1 else "longer than was planned"
        return f"{self._phase}, {now - self._begun:.0f} of {self._seconds:.0f} s{best}; {told}"
