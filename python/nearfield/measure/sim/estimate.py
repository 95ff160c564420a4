"""Estimates the remaining time of a simulation from the cases that are finished."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from nearfield.base.progress import Progress
from nearfield.measure.sim.cases import Case


class CaseEstimate:
    """Estimates the remaining time: the seconds per unit of work of finished cases, separately for each kind of case,
    times the work of the remaining cases. `at_once` is the number of concurrently simulated cases; None if unknown."""

    def __init__(
        self, cases: list[Case], at_once: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cases, self._at_once, self._clock = len(cases), at_once, clock
        self._finished, self._begun = 0, clock()
        self._work: dict[str, float] = defaultdict(float)  # by kind of case
        self._work_done: dict[str, float] = defaultdict(float)
        self._seconds: dict[str, float] = defaultdict(float)
        for case in cases:
            self._work[case.kind] += case.estimated_work

    def add(self, case: Case, seconds: float) -> Progress:
        """Counts a finished case that took `seconds`. Returns the progress of the simulation."""
        self._finished += 1
        self._work_done[case.kind] += case.estimated_work
        self._seconds[case.kind] += seconds
        spent, left = sum(self._seconds.values()), self._seconds_left()
        share = spent / (spent + left) if spent + left else 0.0
        return Progress(f"{self._finished} of {self._cases} cases ({case})", share, self._left_s(spent, left))

    def _left_s(self, spent: float, left: float) -> float:
        """Returns the remaining wall-clock seconds, if as many cases run concurrently as until now. `spent` and `left`
        are seconds of simulation summed over cases."""
        cases_left = self._cases - self._finished
        concurrent = self._at_once or max(1.0, spent / max(self._clock() - self._begun, 1e-9))
        return left / min(concurrent, cases_left) if cases_left else 0.0

    def _seconds_left(self) -> float:
        """Returns the expected sum of the seconds of the remaining cases. A kind without a finished case is expected to
        take the mean time per unit of work."""
        done = sum(self._work_done.values())
        mean = sum(self._seconds.values()) / done if done else 1.0
        return sum(
            max(0.0, self._work[kind] - self._work_done[kind]) * self._seconds_per_work(kind, mean)
            for kind in self._work
        )

    def _seconds_per_work(self, kind: str, mean: float) -> float:
        return self._seconds[kind] / self._work_done[kind] if self._work_done[kind] else mean
