"""Runs requests to the sim backend: `probe --on`, which creates a profile, and `simulate`, which may add records to
one. Cases are simulated in worker processes, one per usable core."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from nearfield import profile
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.progress import Report, ignore
from nearfield.base.words import group_by_reason
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.native import to_native
from nearfield.measure.checkpoint import CheckpointFolder, Outcome
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.request import Request
from nearfield.measure.sim import pool
from nearfield.measure.sim.axes import check_axes, select_policies, with_axes
from nearfield.measure.sim.cases import Axes, Case, cases_of_tier, select_scenarios
from nearfield.measure.sim.places import choose_places
from nearfield.measure.sim.profile import earlier_profile, rows_of, save_profile
from nearfield.measure.sim.store import RecordStore, simulate


def probe_on(out: Path, request: Request, *, resume: bool, overwrite: bool, jobs: int, report: Report) -> Outcome:
    """Simulates the scenarios of a tier on the machine `request.on`, and saves a profile at `out`. Raises
    NearfieldError."""
    out = out.resolve()
    checkpoint = CheckpointFolder(out)
    if resume:
        request = checkpoint.read_request()
    else:
        checkpoint.require_unused(overwrite=overwrite)
    session = _Session(out, checkpoint, request)
    profile.ensure_writable(out, overwrite=overwrite or resume)
    with checkpoint.lock_for(request, fresh=not resume):
        return session.run(jobs, report)


class _Session:
    """One session of `probe --on`, which may be one of several that complete a profile."""

    def __init__(self, out: Path, checkpoint: CheckpointFolder, request: Request) -> None:
        self.out, self.checkpoint, self.request = out, checkpoint, request
        assert request.on is not None
        self.machine = load_machine(request.on)
        to_native(self.machine)  # raises UsageError if the machine cannot be simulated
        policies = select_policies(self.machine, request.policies)
        check_axes(self.machine, policies, request.slowdowns)
        self.places = choose_places(self.machine, request.tier, request.distances)
        specs = select_scenarios(request.scenarios)
        _check_nodes(self.machine, request)
        plain, self.skipped = cases_of_tier(
            self.machine, specs, self.places, request.tier, request.sizes, request.nodes
        )
        if not plain:
            reasons = group_by_reason((name, why) for name, _, why in self.skipped)
            raise MeasurementError(f"nothing of this can be simulated on {self.machine.name}: {reasons}")
        self.cases = list(with_axes(plain, Axes(policies, request.slowdowns)))

    def run(self, jobs: int, report: Report) -> Outcome:
        started = time.monotonic()
        earlier = self.checkpoint.read_spent().get("total", 0.0)
        with self.checkpoint.journal() as journal, InterruptGuard() as stop:
            store = RecordStore(journal)
            complete = simulate(self.cases, store, pool.runner_on_cores(jobs, stop), report, jobs)
        seconds = earlier + time.monotonic() - started
        rows = store.records_of(self.cases)
        if rows:
            save_profile(
                self.out, self.machine, self.request, rows,
                skipped=self.skipped, complete=complete, seconds=seconds,
            )  # fmt: skip
        self.checkpoint.write_spent({"total": seconds})
        if complete or not rows:
            self.checkpoint.remove_or_keep_samples(None)
        return Outcome(complete, bool(rows), stop.signal_number, rows=rows)


def _check_nodes(machine: DescribedMachine, request: Request) -> None:
    """Raises UsageError if --nodes exceeds the machine's nodes, or if no wanted scenario depends on the number of
    nodes."""
    if not request.nodes:
        return
    max_nodes = machine.network.max_nodes.value if machine.network else 1
    for nodes in request.nodes:
        if not 1 <= nodes <= max_nodes:
            raise UsageError(f"nodes: from 1 to {max_nodes} on machine '{machine.name}', not {nodes}")
    wanted = select_scenarios(request.scenarios)
    if not any(spec.of_nodes for spec in wanted):
        takes = ", ".join(spec.name for spec in select_scenarios(()) if spec.of_nodes)
        raise UsageError(
            f"--nodes is for scenarios of whole clusters: {takes}, application",
            "Pairs of ranks are at a --distance.",
        )


def add_to_profile(
    machine: DescribedMachine,
    cases: list[Case],
    runner: pool.Runner,
    report: Report = ignore,
    out: Path | None = None,
    command: str = "",
    at_once: int | None = None,
) -> Outcome:
    """Simulates the cases that the profile at `out` lacks, and adds their records to the profile; without `out`, only
    simulates. After Ctrl-C, the finished cases are saved. `at_once` is the number of concurrently simulated cases.
    Raises ProfileError if `out` is not a profile of this machine, or cannot be written."""
    existing = earlier_profile(out, machine) if out else None
    store, request = RecordStore(), Request(on=machine.name, command=command)
    skipped = [(one.scenario, one.distance, one.reason) for one in existing.run.skipped] if existing else []
    if existing:
        store.add_earlier_rows(machine, rows_of(existing))
        request = replace(request, created=existing.run.created, tier=existing.run.tier)
    started, earlier = time.monotonic(), existing.run.seconds if existing else 0.0

    def save(*, complete: bool = False) -> None:
        if out:
            seconds = earlier + time.monotonic() - started
            rows = store.records_of(cases) + store.records_outside(cases)
            save_profile(out, machine, request, rows, skipped=skipped, complete=complete, seconds=seconds)

    complete = False
    try:
        complete = simulate(cases, store, runner, report, at_once, save)
    finally:
        if store.has_new_cases:
            save(complete=complete)
    return Outcome(complete, bool(out) and bool(store.has_new_cases or existing), rows=store.records_of(cases))
