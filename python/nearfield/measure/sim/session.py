"""Runs requests to the sim backend: `probe --on`, which creates a profile, and `nearfield simulate`, which may add
records to one. Cases are simulated in worker processes, one per usable core."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from nearfield import profile
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.progress import Report, ignore_progress
from nearfield.base.words import group_by_reason
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.native import to_native
from nearfield.measure.checkpoint import CheckpointFolder, RequestOutcome
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.request import Request
from nearfield.measure.sim import pool
from nearfield.measure.sim.axes import check_axes, select_policies, split_by_axes
from nearfield.measure.sim.cases import (
    SimulationAxes,
    SimulationCase,
    cases_of_tier,
    select_filtered_cases,
    select_simulated_scenarios,
)
from nearfield.measure.sim.places import choose_places
from nearfield.measure.sim.profile import load_profile_to_extend, profile_to_rows, save_profile
from nearfield.measure.sim.store import RecordStore, simulate_missing


def probe_on(
    out: Path, request: Request, *, resume: bool, overwrite: bool, jobs: int, report: Report
) -> RequestOutcome:
    """Simulates the scenarios of a tier on the machine `request.on`, and saves a profile at `out`. Raises
    NearfieldError."""
    out = out.resolve()
    checkpoint = CheckpointFolder(out)
    if resume:
        request = checkpoint.read_request()
    else:
        checkpoint.require_unused(overwrite=overwrite)
    session = _SimulatedProbe(out, checkpoint, request)
    profile.ensure_writable(out, overwrite=overwrite or resume)
    with checkpoint.lock_with_request(request, is_new=not resume):
        return session.run(jobs, report)


class _SimulatedProbe:
    """One session of `probe --on`, which may be one of several that complete a profile."""

    def __init__(self, out: Path, checkpoint: CheckpointFolder, request: Request) -> None:
        self.out, self.checkpoint, self.request = out, checkpoint, request
        assert request.on is not None
        self.machine = load_machine(request.on)
        to_native(self.machine)  # raises UsageError if the machine cannot be simulated
        policies = select_policies(self.machine, request.policies)
        check_axes(self.machine, policies, request.slowdowns)
        self.places = choose_places(self.machine, request.tier, request.distances)
        specs = select_simulated_scenarios(request.scenarios)
        _check_node_counts(self.machine, request)
        cases_without_axes, self.skipped = cases_of_tier(
            self.machine, specs, self.places, request.tier, request.sizes, request.nodes
        )
        if not cases_without_axes:
            reasons = group_by_reason((name, why) for name, _, why in self.skipped)
            raise MeasurementError(f"no requested scenario can be simulated on {self.machine.name}: {reasons}")
        selected_cases = select_filtered_cases(cases_without_axes, request.only)
        self.cases = list(split_by_axes(selected_cases, SimulationAxes(policies, request.slowdowns)))

    def run(self, jobs: int, report: Report) -> RequestOutcome:
        started = time.monotonic()
        earlier_s = self.checkpoint.read_spent_seconds().get("total", 0.0)
        with self.checkpoint.open_journal() as journal, InterruptGuard() as guard:
            store = RecordStore(journal)
            complete = simulate_missing(self.cases, store, pool.make_runner_on_cores(jobs, guard), report, jobs)
        seconds = earlier_s + time.monotonic() - started
        rows = store.records_of(self.cases)
        if rows:
            save_profile(
                self.out, self.machine, self.request, rows,
                skipped_scenarios=self.skipped, complete=complete, seconds=seconds,
            )  # fmt: skip
        self.checkpoint.write_spent_seconds({"total": seconds})
        if complete or not rows:
            self.checkpoint.remove_or_move_samples(None)
        return RequestOutcome(complete, bool(rows), guard.signal_number, rows=rows)


def _check_node_counts(machine: DescribedMachine, request: Request) -> None:
    """Raises UsageError if --nodes exceeds the machine's nodes, or if no requested scenario depends on the number of
    nodes."""
    if not request.nodes:
        return
    max_nodes = machine.network.max_nodes.value if machine.network else 1
    for nodes in request.nodes:
        if not 1 <= nodes <= max_nodes:
            raise UsageError(f"nodes: from 1 to {max_nodes} on machine '{machine.name}', not {nodes}")
    specs = select_simulated_scenarios(request.scenarios)
    if not any(spec.of_nodes for spec in specs):
        cluster_scenarios = ", ".join(spec.name for spec in select_simulated_scenarios(()) if spec.of_nodes)
        raise UsageError(
            f"--nodes is for scenarios of whole clusters: {cluster_scenarios}, application",
            "Pairs of ranks are at a --distance.",
        )


def add_to_profile(
    machine: DescribedMachine,
    cases: list[SimulationCase],
    runner: pool.CaseRunner,
    report: Report = ignore_progress,
    out: Path | None = None,
    command: str = "",
    num_concurrent_cases: int | None = None,
) -> RequestOutcome:
    """Simulates the cases that the profile at `out` lacks, and adds their records to the profile; without `out`, only
    simulates. After Ctrl-C, the finished cases are saved. `num_concurrent_cases` is the number of concurrently
    simulated cases. Raises ProfileError if `out` is not a profile of this machine, or cannot be written."""
    existing = load_profile_to_extend(out, machine) if out else None
    store, request = RecordStore(), Request(on=machine.name, command=command)
    skipped = [(one.scenario, one.distance, one.reason) for one in existing.run.skipped] if existing else []
    if existing:
        store.add_earlier_rows(machine, profile_to_rows(existing))
        request = replace(request, created=existing.run.created, tier=existing.run.tier)
    started, earlier_s = time.monotonic(), existing.run.seconds if existing else 0.0

    def save(*, complete: bool = False) -> None:
        if out:
            seconds = earlier_s + time.monotonic() - started
            rows = store.records_of(cases) + store.records_of_other_cases(cases)
            save_profile(out, machine, request, rows, skipped_scenarios=skipped, complete=complete, seconds=seconds)

    complete = False
    try:
        complete = simulate_missing(cases, store, runner, report, num_concurrent_cases, save)
    finally:
        if store.has_new_cases:
            save(complete=complete)
    return RequestOutcome(complete, bool(out) and bool(store.has_new_cases or existing), rows=store.records_of(cases))
