"""Reports the progress of a probe as the share of the planned measuring time."""

from __future__ import annotations

import time

from nearfield.base.progress import Progress, Report
from nearfield.measure.live.launch import Job, LaunchResult


class ProbeProgress:
    """Reports the progress of jobs that run one after the other. `limit_s` is the probe's time limit, counted from the
    first report of a share."""

    def __init__(self, report: Report, jobs: list[Job], limit_s: float | None) -> None:
        self._report, self._limit_s = report, limit_s
        self._total_s, self._done_s = sum(map(_planned_s, jobs)), 0.0
        self._first: float | None = None  # monotonic time of the first report of a share

    def report_start(self, job: Job) -> None:
        """Reports that the ranks of a launch are being started."""
        self._report_progress(job, f"starting {len(job.group.places)} ranks for {', '.join(job.budgets)}", 0.0)

    def report_share(self, job: Job, scenario: str, share: float) -> None:
        """Reports the elapsed share of a scenario's time."""
        self._first = self._first or time.monotonic()
        names = list(job.budgets)
        before_s = sum(job.budgets[name] for name in names[: names.index(scenario)])
        self._report_progress(job, scenario, before_s + share * job.budgets[scenario])

    def report_end(self, job: Job, ending: LaunchResult) -> None:
        """Reports the end of a launch, with the reason if the launch failed."""
        self._done_s += _planned_s(job)
        self._report_progress(job, "ending", 0.0)
        if ending.state == "failed":
            self._report(f"launch failed ({_launch_name(job)}): {ending.reason or ''}")

    def _report_progress(self, job: Job, text: str, measured_s: float) -> None:
        elapsed_s = time.monotonic() - self._first if self._first else 0.0
        max_left_s = None if self._limit_s is None else max(0.0, self._limit_s - elapsed_s)
        share = (self._done_s + measured_s) / self._total_s
        self._report(Progress(text, share, max_left_s=max_left_s, phase=_launch_name(job)))


def _planned_s(job: Job) -> float:
    return sum(job.budgets.values())


def _launch_name(job: Job) -> str:
    return f"{job.group.distance or 'all cores'} ({job.group.pair}) launch {job.number + 1}"
