"""Reports the progress of a probe as the share of the planned measuring time."""

from __future__ import annotations

import time

from nearfield.base.progress import Progress, Report
from nearfield.measure.live.launch import LaunchJob, LaunchResult


class ProbeProgress:
    """Reports the progress of jobs that run one after the other. `limit_s` is the probe's time limit, counted from the
    first report of a share."""

    def __init__(self, report: Report, jobs: list[LaunchJob], limit_s: float | None) -> None:
        self._report, self._limit_s = report, limit_s
        self._total_s, self._finished_s = sum(map(_planned_measuring_s, jobs)), 0.0
        self._first_share_time: float | None = None  # monotonic time of the first report of a share

    def report_start(self, job: LaunchJob) -> None:
        """Reports that the ranks of a launch are being started."""
        self._report_progress(
            job, f"starting {len(job.group.places)} ranks for {', '.join(job.budget_s_by_scenario)}", 0.0
        )

    def report_share(self, job: LaunchJob, scenario: str, share: float) -> None:
        """Reports the elapsed share of a scenario's time."""
        self._first_share_time = self._first_share_time or time.monotonic()
        names = list(job.budget_s_by_scenario)
        before_s = sum(job.budget_s_by_scenario[name] for name in names[: names.index(scenario)])
        self._report_progress(job, scenario, before_s + share * job.budget_s_by_scenario[scenario])

    def report_end(self, job: LaunchJob, result: LaunchResult) -> None:
        """Reports the end of a launch, with the reason if the launch failed."""
        self._finished_s += _planned_measuring_s(job)
        self._report_progress(job, "ending", 0.0)
        if result.state == "failed":
            self._report(f"launch failed ({_format_launch_name(job)}): {result.reason or ''}")

    def _report_progress(self, job: LaunchJob, text: str, measured_s: float) -> None:
        elapsed_s = time.monotonic() - self._first_share_time if self._first_share_time else 0.0
        max_left_s = None if self._limit_s is None else max(0.0, self._limit_s - elapsed_s)
        share = (self._finished_s + measured_s) / self._total_s
        self._report(Progress(text, share, max_remaining_s=max_left_s, phase=_format_launch_name(job)))


def _planned_measuring_s(job: LaunchJob) -> float:
    return sum(job.budget_s_by_scenario.values())


def _format_launch_name(job: LaunchJob) -> str:
    return f"{job.group.distance or 'all cores'} ({job.group.pair}) launch {job.launch_index + 1}"
