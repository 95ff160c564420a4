"""Displays the progress of `nearfield tune`: first how long it will take, then how much is done."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.markup import escape

from nearfield.base.units import format_seconds
from nearfield.rules.gains import geometric_mean
from nearfield.tune.search import Trial
from nearfield.tune.tuning import Listener
from nearfield.ui.progress import EVERY_S, Standing, WorkBar
from nearfield.ui.terminal import err

LATE_EVERY_S = 10.0


class Display(Listener):
    """The progress display; use it as a context manager. `prefix` starts all lines of one MPI among several."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self.prefix = ""
        self._bar = WorkBar(err, self.standing, every_s)
        self._phase = self._best = ""
        self._begun = self._ends = self._latest = 0.0  # times of this MPI on the monotonic clock; the end is a guess
        self._next_late = 0.0  # when to log next that it takes longer, on the monotonic clock

    def __enter__(self) -> Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        err.print(escape(text))

    def plan(self, mpi_name: str, distances: list[str], seconds: Mapping[str, float], max_s: float) -> None:
        total = sum(seconds.values())
        self._begun = time.monotonic()
        self._ends, self._latest, self._next_late = self._begun + total, self._begun + max_s, 0.0
        phases = ", ".join(f"{name} {format_seconds(taken)}" for name, taken in seconds.items())
        many = f"{len(distances)} distances ({', '.join(distances)})" if len(distances) > 1 else distances[0]
        duration = f"about {format_seconds(total)}, at most {format_seconds(max_s)}"
        self.say(f"{self.prefix}{mpi_name}, {many}: {duration} ({phases})")

    def begin(self, distance: str, phase: str, seconds: float) -> None:
        self._phase, self._best = f"{self.prefix}{distance}: {phase}", ""
        self._ends = max(self._ends, time.monotonic() + seconds)
        if not err.is_terminal:
            self.say(f"{self._phase} ({seconds:.0f} s)")

    def tried(self, trial: Trial, best: Trial | None, count: int) -> None:
        if best and best.gains:
            self._best = f", {count} tried, best {geometric_mean(best.gains.values()).value:.2f}x"
        if trial.reason and err.is_terminal:
            err.print(f"[dim]{trial.state}: {escape(trial.reason)}[/dim]")

    def end(self) -> None:
        """Marks this MPI as finished."""
        self._phase = ""

    def standing(self) -> Standing | None:
        if not self._phase:
            return None
        now, whole_s = time.monotonic(), self._ends - self._begun
        if now > self._ends:
            return self._is_late(now)
        share = min(1.0, (now - self._begun) / whole_s) if whole_s else 0.0
        return Standing(self._phase + self._best, share, self._ends - now)

    def _is_late(self, now: float) -> Standing | None:
        """Returns the progress of a tune that takes longer than planned; for a log only every LATE_EVERY_S, else
        None."""
        if now < self._next_late and not err.is_terminal:
            return None
        self._next_late = now + LATE_EVERY_S
        left = format_seconds(max(0.0, self._latest - now))
        return Standing(f"{self._phase}{self._best}: longer than was planned, at most {left} more", None, None)
