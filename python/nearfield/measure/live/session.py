"""Runs a probe from request to profile: plans the launches, runs them one after the other, and saves the results, also
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
from nearfield.base.progress import Report, ignore
from nearfield.base.topology import Topology
from nearfield.base.words import group_by_reason, suggest
from nearfield.measure.checkpoint import CheckpointFolder, Outcome
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.live.collect import collect_launches, finished_scenarios, to_rows
from nearfield.measure.live.describe import RunContext, run_metadata
from nearfield.measure.live.facts import capture_machine
from nearfield.measure.live.launch import Job, LaunchResult, describe_scenarios, plan_text, run_job
from nearfield.measure.live.layout import Group, plan_groups, read_hostfile
from nearfield.measure.live.limit import TimeLimit
from nearfield.measure.live.lines import damaged_line
from nearfield.measure.live.progress import ProbeProgress
from nearfield.measure.request import Request
from nearfield.measure.row import make_run
from nearfield.profile import records, schema

LAUNCH_OVERHEAD_S = 6.0  # start-up of ranks, calibration and sanity checks; measured with the Open MPI wheel
SHORTEST_BUDGET_S = 0.3


def probe(
    out: Path, request: Request, *, resume: bool, overwrite: bool, keep_samples: bool, report: Report = ignore
) -> Outcome:
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
    session = Session(out, checkpoint, request, report, limit)
    session.prepare()
    with checkpoint.lock_for(session.request, fresh=not resume):
        return session.run(keep_samples)


class Session:
    """One session of a probe, which may be one of several that complete a profile. Launches run one after the other,
    because concurrent ones would disturb each other."""

    def __init__(
        self, out: Path, checkpoint: CheckpointFolder, request: Request, report: Report, limit: TimeLimit
    ) -> None:
        self.out, self.checkpoint, self.report, self.limit = out, checkpoint, report, limit
        self.tier = request.thoroughness
        self.topology = Topology.live()
        self.default = None if request.mpi else mpi.default()
        self.inst = self.default.installation if self.default else mpi.choose(request.mpi)
        self.request = replace(request, mpi=request.mpi or self.inst.name)  # saved, so that --resume uses the same MPI
        self.launches: list[schema.Launch] = []
        self.spent: dict[str, float] = {}
        self.stopped_by: int | None = None
        self.missed = self.not_begun = 0

    def prepare(self) -> None:
        """Builds the engine if needed, and plans the jobs. Raises MeasurementError if no scenario can be measured."""
        if self.default:
            self.report(f"MPI: {self.default.why}")
        self.engine = mpi.program(self.inst, progress=self.report)
        self.scenarios = describe_scenarios(self.inst, self.engine)
        self.kind_of: dict[str, str] = {s.name: s.ranks for s in self.scenarios}
        usual = tuple(s.name for s in self.scenarios if s.weight > 0)
        self.wanted = self.request.scenarios or usual
        for name in self.wanted:
            if name not in self.kind_of:
                raise UsageError(f"unknown scenario '{name}'", suggest(name, list(self.kind_of)))
        self.jobs, self.skipped = self._plan_jobs()
        if not self.jobs:
            raise MeasurementError(
                "nothing can be measured here: " + group_by_reason(self.skipped.items()),
                "let this process use more cores (taskset, cgroup, batch system)",
            )
        self.transport = mpi.transport_or_reason(self.inst)

    def _plan_jobs(self) -> tuple[list[Job], dict[str, str]]:
        """Returns the jobs, and for each wanted scenario that cannot run the reason."""
        first_pus = tuple(core[0] for core in self.topology.cores)
        nodes = read_hostfile(Path(self.request.hostfile), first_pus) if self.request.hostfile else None
        groups, missing = plan_groups(
            self.topology,
            set(self.kind_of.values()),
            nodes=nodes,
            all_pairs=self.request.all_pairs,
            ranks=self.request.ranks,
        )
        unit = self._seconds_per_weight(groups)
        jobs = [self._make_job(group, number, unit) for number in range(self.tier.launches) for group in groups]
        skipped = {name: missing[self.kind_of[name]] for name in self.wanted if self.kind_of[name] in missing}
        return [job for job in jobs if job.budgets], skipped

    def _seconds_per_weight(self, groups: list[Group]) -> float:
        """Returns the seconds per launch for a scenario of weight 1. The tier's budget is divided among all its
        scenarios, so that one scenario measured alone takes no longer. A budget given by the user is divided among the
        wanted scenarios only."""
        given = self.request.budget_s or self.request.target_s
        counted = self.wanted if given else self.kind_of
        scenarios = [s for s in self.scenarios if s.name in counted]
        weights = [s.weight for group in groups for s in scenarios if s.ranks in group.kinds]
        left = self.tier.budget_s - LAUNCH_OVERHEAD_S * len(groups) * self.tier.launches
        return max(left, self.tier.budget_s / 4) / self.tier.launches / max(sum(weights), 1e-9)

    def _make_job(self, group: Group, number: int, unit: float) -> Job:
        """Returns a job whose scenarios are in order of descending weight, so that an early stop loses the least
        important ones."""
        mine = [s for s in self.scenarios if s.ranks in group.kinds and s.name in self.wanted]
        mine.sort(key=lambda s: -s.weight)
        return Job(group, number, {s.name: max(SHORTEST_BUDGET_S, unit * s.weight) for s in mine})

    def run(self, keep_samples: bool) -> Outcome:
        """Runs the remaining launches and saves the profile. Raises the error of a failed launch afterwards."""
        started = time.monotonic()
        self.spent = self.checkpoint.read_spent()
        earlier = self.spent.get("total", 0.0)
        failure = self._measure()
        complete = all(launch.state == "complete" for launch in self.launches)
        self.spent["total"] = earlier + time.monotonic() - started
        saved = self._save_profile(complete)
        self.checkpoint.write_spent(self.spent)
        if complete or not saved:
            self.checkpoint.remove_or_keep_samples(self.out / "samples" if keep_samples and saved else None)
        if isinstance(failure, NodeLostError) and saved:
            failure.message += f"; what was measured is in {self.out}"
            failure.remedy = f"when the node is there again: {self._resuming()}"
        if failure:
            raise failure
        self._raise_failed_launch(saved)
        return Outcome(complete, saved, self.stopped_by, self.missed, self.not_begun)

    def _measure(self) -> NearfieldError | None:
        """Runs the jobs until Ctrl-C, or until one fails in a way in which the others would fail, too. Returns that
        error, or None."""
        left = [self._remove_finished(job) for job in self.jobs]
        self.progress = ProbeProgress(self.report, [job for job in left if job.budgets], self.limit.seconds)
        failure: NearfieldError | None = None
        with InterruptGuard(self._request_engine_end) as stop:
            for index, (job, rest) in enumerate(zip(self.jobs, left, strict=True)):
                ending = LaunchResult("pending")
                if not rest.budgets:
                    ending = LaunchResult("complete")
                elif not failure and not stop.signal_number:
                    time_s = self.limit.seconds_for_next(
                        sum(bool(o.budgets) and o.number == job.number for o in left[index:])
                    )
                    try:
                        ending = stop.run(lambda: self._run_launch(rest, time_s))  # noqa: B023
                    except KeyboardInterrupt:
                        ending = LaunchResult("stopped")
                    except NearfieldError as error:
                        failure = error
                        ending = LaunchResult("failed", error.message)
                self._record_launch(job, ending)
            self.stopped_by = stop.signal_number
        return failure

    def _request_engine_end(self) -> bool:
        """Asks the engine, by a stop file, to end soon and to report its results. Returns False if the file cannot be
        written."""
        with suppress(OSError):  # stdout may be a pipe that was closed
            self.report("stopping: saving what was measured (again to stop at once)")
        try:
            self.checkpoint.stop_file.touch()
        except OSError:
            return False
        return True

    def _remove_finished(self, job: Job) -> Job:
        """Returns the job without the scenarios that earlier sessions have finished. Reports damaged output files."""
        for path in job.attempt_files(self.checkpoint.folder):
            if number := damaged_line(path, job.budgets):
                self.report(f"{path}: line {number} is damaged; it and the lines after it are measured again")
        done = finished_scenarios(job, self.checkpoint.folder)
        return replace(job, budgets={name: budget for name, budget in job.budgets.items() if name not in done})

    def _run_launch(self, job: Job, time_s: float | None) -> LaunchResult:
        """Runs a launch that measures for at most `time_s` seconds; None: without a limit."""
        if time_s == 0.0:
            self.not_begun += 1
            return LaunchResult("pending", "the time was over")
        self.progress.report_start(job)
        extra = {"sizes": " ".join(map(str, self.request.sizes))} if self.request.sizes else {}
        extra |= {"time_limit_s": f"{time_s:.3f}"} if time_s else {}
        ending = run_job(
            job,
            self.inst,
            self.engine,
            self.checkpoint.folder,
            lambda output: plan_text(job, self.request, self.topology, output, self.checkpoint.stop_file, extra),
            launcher=self.request.launcher,
            on_progress=partial(self.progress.report_share, job),
        )
        self.limit.subtract(ending)
        self.missed += ending.missed
        self.progress.report_end(job, ending)
        return ending

    def _record_launch(self, job: Job, ending: LaunchResult) -> None:
        """Appends the launch and its result to the [[launch]] tables of run.toml."""
        places = job.group.places
        name = f"{job.group.name}.{job.number}"
        self.spent[name] = self.spent.get(name, 0.0) + ending.seconds
        self.launches.append(
            schema.Launch(
                ranks=len(places),
                cpus=[place.cpu for place in places],
                hosts=[place.host for place in places] if job.group.hosts else [],
                scenarios=list(job.budgets),
                distance=job.group.distance,
                seconds=self.spent[name],
                state=ending.state,
                reason=ending.reason,
            )
        )

    def _raise_failed_launch(self, saved: bool) -> None:
        """Raises MeasurementError if a launch failed."""
        failed = [launch for launch in self.launches if launch.state == "failed"]
        if not failed:
            return
        cause = f"{len(failed)} of {len(self.launches)} launches failed ({failed[0].reason})"
        if not saved:
            raise MeasurementError(
                f"{cause}; nothing was measured", f"see whether this MPI works: {own_command.line('mpi')}"
            )
        raise MeasurementError(
            f"{cause}; what was measured is in {self.out}",
            f"complete it with: {self._resuming()}",
        )

    def _resuming(self) -> str:
        return own_command.line("probe", "--resume", "--out", self.out)

    def _save_profile(self, complete: bool) -> bool:
        """Saves the profile. Returns False if no launch produced output."""
        preferred = self.request.preferred_latencies_ns
        found = collect_launches(self.jobs, self.checkpoint.folder, self.kind_of, preferred)
        if not found.headers:
            return False
        header = found.headers[0]
        rows = to_rows(found, self.tier, header.clock_resolution_ns)
        context = RunContext(self.request, self.inst, self.transport, self.topology, self.scenarios, self.launches)
        metadata = run_metadata(context, found, rows, self.skipped)
        run = make_run(self.request, rows, complete=complete, seconds=self.spent["total"], **metadata)
        profile.save(
            self.out,
            machine=capture_machine(self.topology, header.ticks_per_ns),
            topology_xml=self.topology.xml(),
            run=run,
            records=records.from_rows(rows),
            overwrite=True,
        )
        shutil.rmtree(self.out / "samples", ignore_errors=True)  # left over from an overwritten profile
        return True
