"""Shows the progress of a probe: how many seconds of measuring are done, and a line in a log for each launch."""

from __future__ import annotations

import time

from rich.markup import escape

from nearfield.measure.live.launch import Ending, Job
from nearfield.measure.live.session import LAUNCH_OVERHEAD_S, Listener
from nearfield.ui.progress import KNOWN_FROM, Standing, WorkBar
from nearfield.ui.terminal import err


class ProbeBar(Listener):
    """Shows how many seconds of measuring are done. A start of ranks is expected to take as long as the last one did. A
    log also gets a line for each launch."""

    def __init__(self, limit_s: float | None) -> None:
        self._bar = WorkBar(err, self._standing)
        self._what = "starting"
        self._limit_s = limit_s
        self._to_start, self._starting_s = 0, LAUNCH_OVERHEAD_S
        self._total_s = self._done_s = self._now_s = self._measuring_s = 0.0
        self._first: float | None = None  # when measuring began; the limit counts from then
        self._measures = time.monotonic()

    def __enter__(self) -> ProbeBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        err.print(escape(text))

    def plan(self, jobs: list[Job]) -> None:
        self._to_start, self._total_s = len(jobs), sum(sum(job.budgets.values()) for job in jobs)
        if jobs:
            self._bar.start()

    def begin(self, job: Job) -> None:
        where = f"{job.group.distance or 'all cores'} ({job.group.pair})"
        self._label = f"{where} launch {job.number + 1}"
        self._now_s, self._measures = 0.0, time.monotonic()
        self._what = f"{self._label}: starting {len(job.group.places)} ranks"
        if not err.is_terminal:
            err.print(f"{self._label}: {', '.join(job.budgets)}")

    def progress(self, job: Job, scenario: str, share: float) -> None:
        if not self._now_s:
            self._starting_s, self._measures = time.monotonic() - self._measures, time.monotonic()
            self._first = self._first or self._measures
            self._to_start -= 1
        names = list(job.budgets)
        before = sum(job.budgets[name] for name in names[: names.index(scenario)])
        self._now_s = max(before + share * job.budgets[scenario], 1e-3)
        self._what = f"{self._label}: {scenario}"

    def end(self, job: Job, ending: Ending) -> None:
        if self._now_s:
            self._measuring_s += time.monotonic() - self._measures
        else:
            self._to_start -= 1
        self._done_s += sum(job.budgets.values())
        self._now_s = 0.0
        self._what = f"{self._label}: ending"
        if ending.state == "failed":
            err.print(f"[yellow]launch failed[/yellow] ({self._label}): {escape(ending.reason or '')}")

    def _standing(self) -> Standing:
        return Standing(self._what, (self._done_s + self._now_s) / self._total_s, self._left_s())

    def _left_s(self) -> float:
        """Returns the seconds that are left. If other programs use the cores, cases take longer than planned."""
        now, done_s = time.monotonic(), self._done_s + self._now_s
        measured_s = self._measuring_s + (now - self._measures if self._now_s else 0.0)
        pace = max(1.0, measured_s / done_s) if done_s > KNOWN_FROM * self._total_s else 1.0
        left_s = pace * (self._total_s - done_s) + self._to_start * self._starting_s
        if self._limit_s is None or self._first is None:
            return left_s
        return min(left_s, max(0.0, self._limit_s - (now - self._first)))
