"""A simulated probe from request to profile: cases run in processes of their own, as many at a time as there are cores
to use; what there is is saved at any end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfield import profile
from nearfield._native import simulated
from nearfield.errors import MeasurementError
from nearfield.machine import load_machine
from nearfield.machine.native import native
from nearfield.machine.profiled import describe_machine
from nearfield.probe.reasons import by_reason
from nearfield.probe.request import Request
from nearfield.probe.simulated.cases import Job, Kept, all_cases, chosen_scenarios, run_job, to_rows
from nearfield.probe.simulated.describe import describe_run
from nearfield.probe.simulated.places import choose_places, topology_xml
from nearfield.probe.work import Work
from nearfield.profile import records
from nearfield.simulate import pool
from nearfield.simulate.stop import Stop


class Watcher:
    """What a simulated probe tells while it runs; the base class keeps quiet."""

    def plan(self, jobs: list[Job], kept: int, at_once: int) -> None:
        """Says which cases will be simulated. `kept` more are there from an interrupted run."""

    def done(self, job: Job) -> None: ...


@dataclass
class Outcome:
    complete: bool  # False: the user stopped it
    saved: bool  # False: before anything was simulated
    stopped_by: int | None = None  # the signal


def scenarios() -> list[Any]:
    """All that can be simulated, as the simulator describes them."""
    return simulated.scenarios()


def simulate(out: Path, request: Request, *, resume: bool, overwrite: bool, jobs: int, watcher: Watcher) -> Outcome:
    """Simulates `request.on` and saves a profile at `out`. NearfieldError."""
    out = out.resolve()
    work = Work(out)
    if resume:
        request = work.read_request()
    else:
        work.require_free(overwrite=overwrite)
    session = Session(out, work, request, watcher)
    profile.ensure_writable(out, overwrite=overwrite or resume)
    with work.held(request, fresh=not resume):
        return session.run(jobs)


class Session:
    """One sitting."""

    def __init__(self, out: Path, work: Work, request: Request, watcher: Watcher) -> None:
        self.out, self.work, self.request, self.watcher = out, work, request, watcher
        self.machine = load_machine(request.on)
        native(self.machine)  # UsageError if it cannot be simulated
        self.places = choose_places(self.machine, request.tier, request.distances)
        self.specs = chosen_scenarios(request.scenarios)
        self.cases, self.skipped = all_cases(self.machine, self.specs, self.places, request.tier, request.sizes)
        if not self.cases:
            reasons = by_reason((name, why) for name, _, why in self.skipped)
            raise MeasurementError(f"nothing of this can be simulated on {self.machine.name}: {reasons}")

    def run(self, jobs: int) -> Outcome:
        """Simulates what is left to simulate, and saves."""
        started = time.monotonic()
        earlier = self.work.read_spent().get("total", 0.0)
        kept = Kept(self.work.folder)
        left = [Job(self.machine, case) for case in self.cases if case.key not in kept.values]
        self.watcher.plan(left, len(self.cases) - len(left), jobs)
        with Stop() as stop:
            self._run_all(left, kept, pool.on_cores(jobs, stop, run_job))
        complete = all(case.key in kept.values for case in self.cases)
        seconds = earlier + time.monotonic() - started
        saved = self._save(kept, complete=complete, seconds=seconds)
        self.work.write_spent({"total": seconds})
        if complete or not saved:
            self.work.end(None)
        return Outcome(complete, saved, stop.asked)

    def _run_all(self, jobs: list[Job], kept: Kept, runner: pool.Runner) -> None:
        try:
            for job, values in runner(jobs):
                kept.add(job.case, values)
                self.watcher.done(job)
        except KeyboardInterrupt:  # cases under way are lost
            pass

    def _save(self, kept: Kept, *, complete: bool, seconds: float) -> bool:
        """False if there is nothing to save."""
        rows = to_rows(self.cases, kept)
        if not rows:
            return False
        run = describe_run(
            self.machine, self.request, self.specs, self.places, rows, self.skipped, complete=complete, seconds=seconds
        )
        profile.save(
            self.out,
            machine=describe_machine(self.machine),
            topology_xml=topology_xml(self.machine),
            run=run,
            records=records.from_rows(rows),
            overwrite=True,
        )
        return True
