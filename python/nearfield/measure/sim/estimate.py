"""Estimates the remaining time of a simulation from the cases that are finished."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from nearfield.base.progress import Progress
from nearfield.measure.sim.cases import SimulationCase


class SimulationTimeEstimate:
    """Estimates the remaining time as the work of the remaining cases times the seconds per unit of work of the
    finished cases, separately for each kind of case. `num_concurrent_cases` is the number of concurrently simulated
    cases; None if unknown."""

    def __init__(
        self,
        cases: list[SimulationCase],
        num_concurrent_cases: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_cases, self._num_concurrent_cases, self._clock = len(cases), num_concurrent_cases, clock
        self._num_finished, self._start_time = 0, clock()
        self._work_by_kind: dict[str, float] = defaultdict(float)  # by kind of case
        self._finished_work_by_kind: dict[str, float] = defaultdict(float)
        self._seconds_by_kind: dict[str, float] = defaultdict(float)
        for case in cases:
            self._work_by_kind[case.work_kind] += case.estimated_work

    def add_finished_case(self, case: SimulationCase, seconds: float) -> Progress:
        """Counts a finished case that took `seconds`. Returns the progress of the simulation."""
        self._num_finished += 1
        self._finished_work_by_kind[case.work_kind] += case.estimated_work
        self._seconds_by_kind[case.work_kind] += seconds
        spent_cpu_s, remaining_cpu_s = sum(self._seconds_by_kind.values()), self._remaining_cpu_s()
        share = spent_cpu_s / (spent_cpu_s + remaining_cpu_s) if spent_cpu_s + remaining_cpu_s else 0.0
        return Progress(
            f"{self._num_finished} of {self._num_cases} cases ({case})",
            share,
            self._remaining_wall_s(spent_cpu_s, remaining_cpu_s),
        )

    def _remaining_wall_s(self, spent_cpu_s: float, remaining_cpu_s: float) -> float:
        """Returns the remaining wall-clock seconds, provided that as many cases run concurrently as before.
        `spent_cpu_s` and `remaining_cpu_s` are seconds of simulation, summed over cases."""
        num_remaining_cases = self._num_cases - self._num_finished
        concurrent = self._num_concurrent_cases or max(1.0, spent_cpu_s / max(self._clock() - self._start_time, 1e-9))
        return remaining_cpu_s / min(concurrent, num_remaining_cases) if num_remaining_cases else 0.0

    def _remaining_cpu_s(self) -> float:
        """Returns the expected sum of the seconds of the remaining cases. A kind without a finished case is expected to
        take the mean time per unit of work."""
        finished_work = sum(self._finished_work_by_kind.values())
        mean_s_per_work = sum(self._seconds_by_kind.values()) / finished_work if finished_work else 1.0
        return sum(
            max(0.0, self._work_by_kind[kind] - self._finished_work_by_kind[kind])
            * self._seconds_per_work(kind, mean_s_per_work)
            for kind in self._work_by_kind
        )

    def _seconds_per_work(self, kind: str, default_s_per_work: float) -> float:
        return (
            self._seconds_by_kind[kind] / self._finished_work_by_kind[kind]
            if self._finished_work_by_kind[kind]
            else default_s_per_work
        )
