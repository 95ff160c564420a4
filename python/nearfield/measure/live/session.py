"""Runs a probe from request to profile: plans the launches, runs them one after the other, and saves the results, even
after an error or Ctrl-C.

The engine's output stays in `<out>.launches` until the profile is complete, so that an interrupted probe can be
resumed. A scenario that a launch has finished is not measured again."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from nearfield import mpi, profile
from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, NearfieldError, NodeLostError, UsageError
from nearfield.base.progress import Report, ignore_progress
from nearfield.base.topology import Topology
from nearfield.base.words import group_by_reason, suggest_name
from nearfield.measure.checkpoint import CheckpointFolder, RequestOutcome
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.live.collect import collect_launches, finished_scenarios, output_to_rows
from nearfield.measure.live.describe import RunContext, run_metadata
from nearfield.measure.live.facts import capture_machine
from nearfield.measure.live.launch import LaunchJob, LaunchResult, format_plan, query_scenarios, run_job
from nearfield.measure.live.layout import RankGroup, plan_groups, read_hostfile
from nearfield.measure.live.limit import TimeLimit
from nearfield.measure.live.lines import find_damaged_line
from nearfield.measure.live.progress import ProbeProgress
from nearfield.measure.request import Request
from nearfield.measure.row import make_run
from nearfield.profile import records, schema

LAUNCH_OVERHEAD_S = 6.0  # start-up of ranks, calibration and sanity checks; measured with the Open MPI wheel
MIN_SCENARIO_BUDGET_S = 0.3


def probe(
    out: Path, request: Request, *, resume: bool, overwrite: bool, keep_samples: bool, report: Report = ignore_progress
) -> RequestOutcome:
    """Measures a profile, saves it at `out`, and returns the outcome. With `resume`, takes the request of the
    interrupted probe, except for the budget, which is that of `request`; without a budget there is no time limit.
    Raises NearfieldError. If a launch fails, the results of the others are saved before the error is raised."""
    out = out.resolve()
    checkpoint = CheckpointFolder(out)
    limit = TimeLimit(request.budget_s)
    if resume:
        request = checkpoint.read_request()
    else:
        checkpoint.require_unused(overwrite=overwrite)
    profile.ensure_writable(out, overwrite=overwrite or resume)
    session = ProbeSession(out, checkpoint, request, report, limit)
    session.prepare()
    with checkpoint.lock_with_request(session.request, is_new=not resume):
        return session.run(keep_samples)


class ProbeSession:
    """One session of a probe, which may be one of several that complete a profile. Launches run one after the other,
    because concurrent ones would disturb each other."""

    def __init__(
        self, out: Path, checkpoint: CheckpointFolder, request: Request, report: Report, limit: TimeLimit
    ) -> None:
        self.out, self.checkpoint, self.report, self.time_limit = out, checkpoint, report, limit
        self.tier = request.effective_tier
        self.topology = Topology.of_this_machine()
        self.default_mpi = None if request.mpi else mpi.choose_default_mpi()
        self.inst = self.default_mpi.installation if self.default_mpi else mpi.choose_mpi(request.mpi)
        self.request = replace(request, mpi=request.mpi or self.inst.name)  # saved, so that --resume uses the same MPI
        self.launches: list[schema.Launch] = []
        self.spent_s_by_launch: dict[str, float] = {}
        self.stop_signal: int | None = None
        self.num_missed_cases = self.num_skipped_launches = 0

    def prepare(self) -> None:
        """Builds the engine if needed, and plans the jobs. Raises MeasurementError if no scenario can be measured."""
        if self.default_mpi:
            self.report(f"MPI: {self.default_mpi.reason}")
        self.engine = mpi.build_target(self.inst, progress=self.report)
        self.scenarios = query_scenarios(self.inst, self.engine)
        self.rank_kind_by_scenario: dict[str, str] = {s.name: s.ranks for s in self.scenarios}
        usual = tuple(s.name for s in self.scenarios if s.weight > 0)
        self.requested_scenarios = self.request.scenarios or usual
        for name in self.requested_scenarios:
            if name not in self.rank_kind_by_scenario:
                raise UsageError(f"unknown scenario '{name}'", suggest_name(name, list(self.rank_kind_by_scenario)))
        self.jobs, self.skip_reason_by_scenario = self._plan_jobs()
        if not self.jobs:
            raise MeasurementError(
                "nothing can be measured here: " + group_by_reason(self.skip_reason_by_scenario.items()),
                "let this process use more cores (taskset, cgroup, batch system)",
            )
        self.transport = mpi.transport_or_reason(self.inst)

    def _plan_jobs(self) -> tuple[list[LaunchJob], dict[str, str]]:
        """Returns the jobs, and a dict from each requested scenario that cannot run to the reason."""
        first_pus = tuple(core[0] for core in self.topology.cores)
        nodes = read_hostfile(Path(self.request.hostfile), first_pus) if self.request.hostfile else None
        groups, reason_by_kind = plan_groups(
            self.topology,
            set(self.rank_kind_by_scenario.values()),
            nodes=nodes,
            all_pairs=self.request.all_pairs,
            ranks=self.request.ranks,
        )
        seconds_per_weight = self._seconds_per_weight(groups)
        jobs = [
            self._make_job(group, number, seconds_per_weight)
            for number in range(self.tier.num_launches)
            for group in groups
        ]
        skipped = {
            name: reason_by_kind[self.rank_kind_by_scenario[name]]
            for name in self.requested_scenarios
            if self.rank_kind_by_scenario[name] in reason_by_kind
        }
        return [job for job in jobs if job.budget_s_by_scenario], skipped

    def _seconds_per_weight(self, groups: list[RankGroup]) -> float:
        """Returns the seconds per launch for a scenario of weight 1. The tier's budget is divided among all its
        scenarios, so that one scenario measured alone takes no longer. A budget given by the user is divided among the
        requested scenarios only."""
        user_budget_s = self.request.budget_s or self.request.target_s
        counted_scenarios = self.requested_scenarios if user_budget_s else self.rank_kind_by_scenario
        scenarios = [s for s in self.scenarios if s.name in counted_scenarios]
        weights = [s.weight for group in groups for s in scenarios if s.ranks in group.scenario_kinds]
        measuring_s = self.tier.budget_s - LAUNCH_OVERHEAD_S * len(groups) * self.tier.num_launches
        return max(measuring_s, self.tier.budget_s / 4) / self.tier.num_launches / max(sum(weights), 1e-9)

    def _make_job(self, group: RankGroup, launch_index: int, seconds_per_weight: float) -> LaunchJob:
        """Returns a job whose scenarios are in order of descending weight, so that an early stop loses the least
        important ones."""
        scenarios = [
            s for s in self.scenarios if s.ranks in group.scenario_kinds and s.name in self.requested_scenarios
        ]
        scenarios.sort(key=lambda s: -s.weight)
        return LaunchJob(
            group, launch_index, {s.name: max(MIN_SCENARIO_BUDGET_S, seconds_per_weight * s.weight) for s in scenarios}
        )

    def run(self, keep_samples: bool) -> RequestOutcome:
        """Runs the remaining launches and saves the profile. Raises the error of a failed launch afterwards."""
        started = time.monotonic()
        self.spent_s_by_launch = self.checkpoint.read_spent_seconds()
        earlier_s = self.spent_s_by_launch.get("total", 0.0)
        failure = self._measure()
        complete = all(launch.state == "complete" for launch in self.launches)
        self.spent_s_by_launch["total"] = earlier_s + time.monotonic() - started
        saved = self._save_profile(complete)
        self.checkpoint.write_spent_seconds(self.spent_s_by_launch)
        if complete or not saved:
            self.checkpoint.remove_or_move_samples(self.out / "samples" if keep_samples and saved else None)
        if isinstance(failure, NodeLostError) and saved:
            failure.message += f"; the measurements are in {self.out}"
            failure.remedy = f"when the node is available again: {self._resume_command()}"
        if failure:
            raise failure
        self._raise_failed_launch(saved)
        return RequestOutcome(complete, saved, self.stop_signal, self.num_missed_cases, self.num_skipped_launches)

    def _measure(self) -> NearfieldError | None:
        """Runs the jobs until Ctrl-C, or until a job raises an error that all later jobs would raise, too. Returns that
        error, or None."""
        remaining_jobs = [self._remove_finished(job) for job in self.jobs]
        self.progress = ProbeProgress(
            self.report, [job for job in remaining_jobs if job.budget_s_by_scenario], self.time_limit.limit_s
        )
        failure: NearfieldError | None = None
        with InterruptGuard(self._request_engine_end) as stop:
            for index, (job, remaining_job) in enumerate(zip(self.jobs, remaining_jobs, strict=True)):
                result = LaunchResult("pending")
                if not remaining_job.budget_s_by_scenario:
                    result = LaunchResult("complete")
                elif not failure and not stop.signal_number:
                    limit_s = self.time_limit.budget_s_of_next_launch(
                        sum(
                            bool(o.budget_s_by_scenario) and o.launch_index == job.launch_index
                            for o in remaining_jobs[index:]
                        )
                    )
                    try:
                        result = stop.run(lambda: self._run_launch(remaining_job, limit_s))  # noqa: B023
                    except KeyboardInterrupt:
                        result = LaunchResult("stopped")
                    except NearfieldError as error:
                        failure = error
                        result = LaunchResult("failed", error.message)
                self._record_launch(job, result)
            self.stop_signal = stop.signal_number
        return failure

    def _request_engine_end(self) -> bool:
        """Asks the engine, by a stop file, to end soon and to report its results. Returns False if the file cannot be
        written."""
        with suppress(OSError):  # stdout may be a pipe that was closed
            self.report("stopping: saving the measurements (again to stop at once)")
        try:
            self.checkpoint.stop_file.touch()
        except OSError:
            return False
        return True

    def _remove_finished(self, job: LaunchJob) -> LaunchJob:
        """Returns the job without the scenarios that earlier sessions have finished. Reports damaged output files."""
        for path in job.attempt_files(self.checkpoint.folder):
            if number := find_damaged_line(path, job.budget_s_by_scenario):
                self.report(f"{path}: line {number} is damaged; it and the lines after it are measured again")
        done = finished_scenarios(job, self.checkpoint.folder)
        return replace(
            job,
            budget_s_by_scenario={
                name: budget for name, budget in job.budget_s_by_scenario.items() if name not in done
            },
        )

    def _run_launch(self, job: LaunchJob, limit_s: float | None) -> LaunchResult:
        """Runs a launch that measures for at most `limit_s` seconds; None: without a limit."""
        if limit_s == 0.0:
            self.num_skipped_launches += 1
            return LaunchResult("pending", "the time was over")
        self.progress.report_start(job)
        extra = {"sizes": " ".join(map(str, self.request.sizes))} if self.request.sizes else {}
        extra |= {"time_limit_s": f"{limit_s:.3f}"} if limit_s else {}
        result = run_job(
            job,
            self.inst,
            self.engine,
            self.checkpoint.folder,
            lambda output: format_plan(job, self.request, self.topology, output, self.checkpoint.stop_file, extra),
            launcher=self.request.launcher,
            on_progress=partial(self.progress.report_share, job),
        )
        self.time_limit.subtract_launch(result)
        self.num_missed_cases += result.num_missed_cases
        self.progress.report_end(job, result)
        return result

    def _record_launch(self, job: LaunchJob, result: LaunchResult) -> None:
        """Appends the launch and its result to the [[launch]] tables of run.toml."""
        places = job.group.places
        name = f"{job.group.name}.{job.launch_index}"
        self.spent_s_by_launch[name] = self.spent_s_by_launch.get(name, 0.0) + result.duration_s
        self.launches.append(
            schema.Launch(
                ranks=len(places),
                cpus=[place.cpu for place in places],
                hosts=[place.host for place in places] if job.group.hosts else [],
                scenarios=list(job.budget_s_by_scenario),
                distance=job.group.distance,
                seconds=self.spent_s_by_launch[name],
                state=result.state,
                reason=result.reason,
            )
        )

    def _raise_failed_launch(self, is_saved: bool) -> None:
        """Raises MeasurementError if a launch failed."""
        failed = [launch for launch in self.launches if launch.state == "failed"]
        if not failed:
            return
        cause = f"{len(failed)} of {len(self.launches)} launches failed ({failed[0].reason})"
        if not is_saved:
            raise MeasurementError(
                f"{cause}; nothing was measured", f"see whether this MPI works: {own_command.command_line('mpi')}"
            )
        raise MeasurementError(
            f"{cause}; the measurements are in {self.out}",
            f"complete it with: {self._resume_command()}",
        )

    def _resume_command(self) -> str:
        return own_command.command_line("probe", "--resume", "--out", self.out)

    def _save_profile(self, complete: bool) -> bool:
        """Saves the profile. Returns False if no launch produced output."""
        preferred = self.request.preferred_latencies_ns
        output = collect_launches(self.jobs, self.checkpoint.folder, self.rank_kind_by_scenario, preferred)
        if not output.launch_lines:
            return False
        header = output.launch_lines[0]
        rows = output_to_rows(output, self.tier, header.clock_resolution_ns)
        context = RunContext(self.request, self.inst, self.transport, self.topology, self.scenarios, self.launches)
        metadata = run_metadata(context, output, rows, self.skip_reason_by_scenario)
        run = make_run(self.request, rows, complete=complete, seconds=self.spent_s_by_launch["total"], **metadata)
        profile.save(
            self.out,
            machine=capture_machine(self.topology, header.ticks_per_ns),
            topology_xml=self.topology.to_xml(),
            run=run,
            records=records.from_rows(rows),
            overwrite=True,
        )
        shutil.rmtree(self.out / "samples", ignore_errors=True)  # left over from an overwritten profile
        return True
