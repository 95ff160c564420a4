"""A probe from request to profile: plans the launches, runs them one by one, and saves what there is at any end.

What the engine writes lies in `<out>.launches` until the profile is complete, so that an interrupted probe can be
resumed; each launch's finished scenarios are not measured again.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import nearfield
from nearfield import mpi, profile
from nearfield.errors import MeasurementError, NearfieldError, ProfileError, UsageError
from nearfield.probe.collect import Collection, collect, finished_scenarios, to_rows
from nearfield.probe.facts import capture_host, capture_machine
from nearfield.probe.launch import Job, OnProgress, describe_scenarios, plan_text, run_job
from nearfield.probe.layout import Group, plan_groups, read_hostfile
from nearfield.probe.switches import add_steps, name_switches
from nearfield.probe.tiers import TIERS, Tier
from nearfield.profile import records, schema
from nearfield.topology import Topology
from nearfield.profile.words import suggestion

LAUNCH_OVERHEAD_S = 6.0  # starting ranks, calibration, sanity checks; measured with the Open MPI wheel
SHORTEST_BUDGET_S = 0.3


@dataclass(frozen=True)
class Request:
    """What the user asked for; kept beside an unfinished profile so that it can be resumed."""

    tier: str = "default"
    scenarios: tuple[str, ...] = ()  # empty: all
    sizes: tuple[int, ...] = ()  # empty: the tier's
    mpi: str | None = None
    ranks: int | None = None
    all_pairs: bool = False
    hostfile: str | None = None
    launcher: str | None = None
    command: str = ""
    created: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat())


class Listener:
    """What a probe tells while it runs; the base class keeps quiet."""

    def say(self, text: str) -> None: ...
    def plan(self, jobs: list[Job]) -> None: ...
    def begin(self, job: Job) -> None: ...
    def progress(self, job: Job, scenario: str, share: float) -> None: ...
    def end(self, job: Job, ending: dict[str, Any]) -> None: ...


def probe(out: Path, request: Request, *, resume: bool, overwrite: bool, keep_samples: bool, listener: Listener) -> bool:
    """Measures and saves a profile at `out`. True if it is complete, False if the user stopped it.

    Raises NearfieldError; when a launch failed, after saving what the others measured.
    """
    work = out.with_name(out.name + ".launches")
    if resume:
        request = _read_request(work)
    profile.ensure_writable(out, overwrite=overwrite or resume)
    session = Session(out, work, request, listener)
    session.prepare(fresh=not resume)
    return session.run(keep_samples)


def _read_request(work: Path) -> Request:
    try:
        values = json.loads((work / "request.json").read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(f"there is nothing to resume at {work}", "start a new probe without --resume") from error
    return Request(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


class Session:
    """One sitting. Not reentrant; launches run one after the other, they would disturb each other."""

    def __init__(self, out: Path, work: Path, request: Request, listener: Listener) -> None:
        self.out, self.work, self.request, self.listener = out, work, request, listener
        self.tier: Tier = TIERS[request.tier]
        self.topology = Topology.live()
        self.inst = mpi.choose(request.mpi)
        self.stop_file = work / "stop"
        self.launches: list[schema.Launch] = []
        self.missing: dict[str, str] = {}

    def prepare(self, *, fresh: bool) -> None:
        """Builds the engine if need be, plans the jobs, makes the work folder."""
        self.engine = mpi.program(self.inst, progress=self.listener.say)
        self.scenarios = describe_scenarios(self.inst, self.engine)
        self.kind_of = {s["name"]: s["ranks"] for s in self.scenarios}
        self.jobs = self._plan_jobs()
        try:
            if fresh:
                shutil.rmtree(self.work, ignore_errors=True)
            self.work.mkdir(parents=True, exist_ok=True)
            self.stop_file.unlink(missing_ok=True)
            (self.work / "request.json").write_text(json.dumps(asdict(self.request)))
        except OSError as error:
            cause = error.strerror or str(error)
            raise ProfileError(f"cannot write {self.work}: {cause}", "choose another folder with --out") from error

    def _plan_jobs(self) -> list[Job]:
        wanted = self.request.scenarios or tuple(self.kind_of)
        for name in wanted:
            if name not in self.kind_of:
                raise UsageError(f"unknown scenario '{name}'", suggestion(name, list(self.kind_of)))
        first_pus = tuple(core[0] for core in self.topology.cores)
        nodes = read_hostfile(Path(self.request.hostfile), first_pus) if self.request.hostfile else None
        kinds = {self.kind_of[name] for name in self.kind_of}
        groups, self.missing = plan_groups(
            self.topology, kinds, nodes=nodes, all_pairs=self.request.all_pairs, ranks=self.request.ranks
        )
        unit = self._seconds_per_weight(groups)
        jobs = [self._job(group, number, unit, wanted) for number in range(self.tier.launches) for group in groups]
        return [job for job in jobs if job.budgets]

    def _seconds_per_weight(self, groups: list[Group]) -> float:
        """The tier's time over all its work, so that a scenario alone takes no longer than it would among all."""
        weights = [s["weight"] for group in groups for s in self.scenarios if s["ranks"] in group.kinds]
        left = self.tier.budget_s - LAUNCH_OVERHEAD_S * len(groups) * self.tier.launches
        return max(left, self.tier.budget_s / 4) / self.tier.launches / max(sum(weights), 1e-9)

    def _job(self, group: Group, number: int, unit: float, wanted: tuple[str, ...]) -> Job:
        mine = [s for s in self.scenarios if s["ranks"] in group.kinds and s["name"] in wanted]
        return Job(group, number, {s["name"]: max(SHORTEST_BUDGET_S, unit * s["weight"]) for s in mine})

    def run(self, keep_samples: bool) -> bool:
        started = time.monotonic()
        self.listener.plan(self.jobs)
        failure: NearfieldError | None = None
        with self._interruptible() as interrupted:
            try:
                for job in self.jobs:
                    if not interrupted():
                        self._run(job)
                    else:
                        self._note(job, {"seconds": 0.0, "state": "pending", "reason": None})
            except NearfieldError as error:
                failure = error
        complete = failure is None and all(launch.state == "complete" for launch in self.launches)
        seconds = self._seconds_so_far() + time.monotonic() - started
        self._save(complete, seconds)
        if failure:
            raise failure
        self._raise_failed_launch()
        if complete:
            self._tidy(keep_samples)
        return complete

    def _run(self, job: Job) -> None:
        done = finished_scenarios(job, self.work)
        left = {name: budget for name, budget in job.budgets.items() if name not in done}
        if not left:
            return self._note(job, {"seconds": 0.0, "state": "complete", "reason": None})
        job_left = Job(job.group, job.number, left)
        self.listener.begin(job_left)
        extra = {"sizes": " ".join(map(str, self.request.sizes))} if self.request.sizes else {}
        on_progress: OnProgress = lambda scenario, share: self.listener.progress(job_left, scenario, share)  # noqa: E731
        ending = run_job(
            job_left,
            self.inst,
            self.engine,
            self.work,
            lambda output: plan_text(job_left, self.tier, self.topology, output, self.stop_file, extra),
            launcher=self.request.launcher,
            on_progress=on_progress,
        )
        self._note(job, ending)
        self.listener.end(job_left, ending)
        return None

    def _note(self, job: Job, ending: dict[str, Any]) -> None:
        places = job.group.places
        hosts = [place.host for place in places] if job.group.hosts else []
        self.launches.append(
            schema.Launch(
                ranks=len(places),
                cpus=[place.cpu for place in places],
                hosts=hosts,
                scenarios=list(job.budgets),
                distance=job.group.distance,
                **ending,
            )
        )

    def _raise_failed_launch(self) -> None:
        failed = [launch for launch in self.launches if launch.state == "failed"]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.launches)} launches failed ({failed[0].reason}); "
                f"what the others measured is in {self.out}",
                "complete it with: nearfield probe --resume --out " + str(self.out),
            )

    @contextmanager
    def _interruptible(self) -> Iterator[Callable[[], bool]]:
        """The first Ctrl-C (or SIGTERM) asks the engine to end the scenario under way; the second ends the ranks."""
        count = 0

        def on_signal(number: int, frame: Any) -> None:
            nonlocal count
            count += 1
            if count > 1:
                raise KeyboardInterrupt
            self.stop_file.touch()
            self.listener.say("stopping: saving what was measured (again to stop at once)")

        old = {s: signal.signal(s, on_signal) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield lambda: count > 0
        except KeyboardInterrupt:
            pass
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _seconds_so_far(self) -> float:
        try:
            return json.loads((self.work / "seconds.json").read_text())
        except (OSError, json.JSONDecodeError):
            return 0.0

    def _save(self, complete: bool, seconds: float) -> None:
        found = collect(self.jobs, self.work, self.kind_of)
        if not found.headers:
            return  # nothing was measured: the reason is on its way to the user
        header = found.headers[0]
        rows = to_rows(found, self.tier, header["clock_resolution_ns"])
        run = self._describe_run(found, rows, header, complete, seconds)
        machine = capture_machine(self.topology, header["ticks_per_ns"])
        table = records.from_rows(rows)
        profile.save(
            self.out, machine=machine, topology_xml=self.topology.xml(), run=run, records=table, overwrite=True
        )
        (self.work / "seconds.json").write_text(json.dumps(seconds))

    def _describe_run(
        self, found: Collection, rows: list[dict[str, Any]], header: dict[str, Any], complete: bool, seconds: float
    ) -> schema.Run:
        variables = header["variables"]
        transport, reason = mpi.transport_or_reason(self.inst)
        missing = {r["metric"]: r["note"] for r in rows if r["value"] is None and r["unit"] == "count"}
        counters = {name: missing.get(name, "available") for name in _COUNTERS}
        return schema.Run(
            schema_version=1,
            nearfield=nearfield.__version__,
            created=self.request.created,
            tier=self.request.tier,
            command=self.request.command,
            seconds=seconds,
            complete=complete,
            mpi=schema.Mpi(
                name=self.inst.name,
                family=self.inst.family,
                version=self.inst.version,
                library=header["library"],
                transport=transport,
                transport_reason=reason or None,
                launcher=str(self.inst.launcher),
                variables=variables,
            ),
            host=capture_host(self.topology),
            clock=schema.RunClock(
                resolution_ns=header["clock_resolution_ns"],
                overhead_ns=header["clock_overhead_ns"],
                ticks_per_ns=header["ticks_per_ns"],
            ),
            launch=self.launches,
            switch=add_steps(name_switches(found.switches, variables), rows, variables),
            skipped=self._skipped(found),
            counters=counters,
            scenario=[_described(s) for s in self.scenarios if any(r["scenario"] == s["name"] for r in rows)],
        )

    def _skipped(self, found: Collection) -> list[schema.Skipped]:
        wanted = self.request.scenarios or tuple(self.kind_of)
        skipped = {
            (line["scenario"], line["reason"], line["distance"]): None for line in found.skipped
        } | {(name, self.missing[self.kind_of[name]], None): None for name in wanted if self.kind_of[name] in self.missing}
        return [schema.Skipped(scenario=s, reason=reason, distance=distance) for s, reason, distance in skipped]

    def _tidy(self, keep_samples: bool) -> None:
        if keep_samples:
            shutil.move(self.work, self.out / "samples")
        else:
            shutil.rmtree(self.work, ignore_errors=True)


_COUNTERS = ("page_faults", "context_switches", "l1d_misses", "llc_accesses", "llc_misses", "dtlb_misses")


def _described(scenario: dict[str, Any]) -> schema.Scenario:
    return schema.Scenario(
        name=scenario["name"],
        summary=scenario["summary"],
        parameters=[schema.ParameterInfo(**p) for p in scenario["parameters"]],
        metrics=[schema.MetricInfo(**m) for m in scenario["metrics"]],
    )
