"""Shows how far a simulation is: how many cases there are, and a bar or lines for those that are done."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console

from nearfield.cli.work_bar import Standing, WorkBar
from nearfield.measure.sim import Case, Listener
from nearfield.units import counted


class CaseBar(WorkBar, Listener):
    """Shows the progress of cases, and expects the rest to go as fast as those that are done. `at_once` is the number
    of cases that are simulated at a time, if it is known."""

    def __init__(
        self, console: Console, at_once: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, self.standing)
        self._at_once, self._clock = at_once, clock
        self._cases = self._cases_done = 0
        self._work = self._work_done = self._begun = 0.0
        self._latest = ""

    def plan(self, cases: list[Case], kept: int) -> None:
        """Says which cases will be simulated, and starts the bar."""
        at_once = f", {self._at_once} at a time" if self._at_once else ""
        there = f", {kept} more are there already" if kept else ""
        self._console.print(f"simulating {counted(len(cases), 'case')}{at_once}{there}")
        self._cases, self._work, self._begun = len(cases), sum(case.work for case in cases), self._clock()
        self.start()

    def done(self, case: Case) -> None:
        """Notes that a case is done."""
        self._cases_done += 1
        self._work_done += case.work
        self._latest = f" ({case})"

    def standing(self) -> Standing:
        """Returns how far it is now."""
        done, rest = self._work_done, max(0.0, self._work - self._work_done)
        left_s = (self._clock() - self._begun) / done * rest if done else None
        what = f"{self._cases_done} of {self._cases} cases{self._latest}"
        return Standing(what, done / self._work if self._work else 0.0, left_s)
