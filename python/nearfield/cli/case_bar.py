"""Shows the progress of a simulation: the number of cases, and a bar or lines for those that are done."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from rich.console import Console

from nearfield.base.units import counted
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.store import Listener
from nearfield.ui.progress import Standing, WorkBar


class CaseBar(WorkBar, Listener):
    """Shows the progress of cases. The time left is the expected cost of the remaining cases, from the seconds per unit
    of work of the finished cases of the same kind. `at_once` is the number of cases that are simulated concurrently,
    if it is known."""

    def __init__(
        self, console: Console, at_once: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, self.standing)
        self._at_once, self._clock = at_once, clock
        self._cases = self._cases_done = 0
        self._begun = self._ended_last = 0.0
        self._work: dict[str, float] = defaultdict(float)  # by kind
        self._work_done: dict[str, float] = defaultdict(float)
        self._seconds: dict[str, float] = defaultdict(float)
        self._latest = ""

    def plan(self, cases: list[Case], kept: int) -> None:
        """Prints how many cases will be simulated, and starts the bar."""
        at_once = f", {self._at_once} at a time" if self._at_once else ""
        finished = f", {kept} more are there already" if kept else ""
        self._console.print(f"simulating {counted(len(cases), 'case')}{at_once}{finished}")
        self._cases, self._begun = len(cases), self._clock()
        for case in cases:
            self._work[case.kind] += case.work
        self.start()

    def done(self, case: Case, seconds: float) -> None:
        """Notes that a case is done."""
        self._cases_done += 1
        self._work_done[case.kind] += case.work
        self._seconds[case.kind] += seconds
        self._ended_last, self._latest = self._clock(), f" ({case})"

    def standing(self) -> Standing:
        """Returns the current progress. While no case ends, the time left falls, down to "longer than was planned"."""
        spent, left = sum(self._seconds.values()), self._seconds_left()
        share = spent / (spent + left) if spent + left else 0.0
        what = f"{self._cases_done} of {self._cases} cases{self._latest}"
        return Standing(what, share, self._left_s(spent, left) if spent else None)

    def _left_s(self, spent: float, left: float) -> float:
        """Returns the seconds until the end, counted from the end of the last finished case, if as many cases run
        concurrently as until then."""
        cases_left = self._cases - self._cases_done
        if not cases_left:
            return 0.0
        usual = max(1.0, spent / max(self._ended_last - self._begun, 1e-9))
        return left / min(self._at_once or usual, cases_left) - (self._clock() - self._ended_last)

    def _seconds_left(self) -> float:
        """Returns the expected seconds to simulate the remaining cases one after the other. A kind without a finished
        case is taken to be as fast as the others."""
        done = sum(self._work_done.values())
        usual = sum(self._seconds.values()) / done if done else 1.0
        return sum(max(0.0, self._work[kind] - self._work_done[kind]) * self._rate(kind, usual) for kind in self._work)

    def _rate(self, kind: str, usual: float) -> float:
        return self._seconds[kind] / self._work_done[kind] if self._work_done[kind] else usual
