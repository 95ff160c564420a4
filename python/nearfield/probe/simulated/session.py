"""A simulated probe from request to profile: cases run in processes of their own, as many at a time as there are cores
to use; what there is is saved at any end."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from nearfield import profile
from nearfield._native import simulated
from nearfield.errors import MeasurementError
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.native import native
from nearfield.machine.profiled import describe_machine
from nearfield.probe.interrupt import Interrupt
from nearfield.probe.reasons import by_reason
from nearfield.probe.request import Request
from nearfield.probe.simulated.cases import Case, Kept, Values, all_cases, chosen_scenarios, to_rows
from nearfield.probe.simulated.describe import describe_run
from nearfield.probe.simulated.places import choose_places, topology_xml
from nearfield.probe.work import Work
from nearfield.profile import records


class Watcher:
    """What a simulated probe tells while it runs; the base class keeps quiet."""

    def say(self, text: str) -> None: ...
    def plan(self, cases: list[Case], at_once: int) -> None: ...
    def done(self, case: Case) -> None: ...


@dataclass
class Outcome:
    complete: bool  # False: the user stopped it
    saved: bool  # False: before anything was simulated


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
        left = [case for case in self.cases if case.key not in kept.values]
        self.watcher.plan(left, jobs)
        with Interrupt(self.work.stop_file, self.watcher.say) as interrupt, Pool(self.machine, jobs) as pool:
            interrupt.wait_for(lambda: self._run_all(pool, left, kept, interrupt))
        complete = all(case.key in kept.values for case in self.cases)
        seconds = earlier + time.monotonic() - started
        saved = self._save(kept, complete=complete, seconds=seconds)
        self.work.write_spent({"total": seconds})
        if complete or not saved:
            self.work.end(None)
        return Outcome(complete, saved)

    def _run_all(self, pool: Pool, cases: list[Case], kept: Kept, interrupt: Interrupt) -> dict[str, Any]:
        """After the first Ctrl-C what is under way is finished."""
        left = iter(cases)
        running: dict[Future[Values], Case] = {}
        while True:
            while not interrupt.asked and len(running) < 2 * pool.jobs and (case := next(left, None)):
                running[pool.submit(case)] = case
            if not running:
                return {}
            done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                case = running.pop(future)
                kept.add(case, _result(future, case, self.machine))
                self.watcher.done(case)

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


def _result(future: Future[Values], case: Case, machine: DescribedMachine) -> Values:
    what = f"{case.scenario} {dict(case.parameters)} on {machine.name}"
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise MeasurementError(f"a process of the simulation ended: {what}", "is there enough memory?") from error
    except (ValueError, RuntimeError) as error:
        raise MeasurementError(f"{what} cannot be simulated: {error}") from error


@dataclass
class Pool:
    """Processes that simulate. They leave Ctrl-C to this one, and are ended with the block, at once if it failed."""

    machine: DescribedMachine
    jobs: int
    _executor: ProcessPoolExecutor = field(init=False)

    def __enter__(self) -> Pool:
        self._executor = ProcessPoolExecutor(
            self.jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(self.machine,)
        )
        return self

    def submit(self, case: Case) -> Future[Values]:
        return self._executor.submit(_run, case)

    def __exit__(self, *_: object) -> None:
        processes = list((self._executor._processes or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            with suppress(OSError, ValueError):
                process.terminate()  # idle, or in C++ that nothing else interrupts


_machine: Any = None  # of a simulating process


def _begin(machine: DescribedMachine) -> None:
    global _machine
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _machine = native(machine)


def _run(case: Case) -> Values:
    return case.run(_machine)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))
