"""Lists the cases to simulate for claims: those of every profile that a statement reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nearfield.errors import UsageError
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.frequency import at_frequency
from nearfield.measure.sim.cases import Case, cases_of_values
from nearfield.measure.sim.operations import Operations
from nearfield.measure.sim.places import NOWHERE, all_places
from nearfield.reproduce.schema import ClusterRun, ProfileRun, ScenarioRun


def machine_of(run: ProfileRun) -> DescribedMachine:
    """Returns the described machine with the run's settings and frequency."""
    machine = load_machine(run.on).model_copy(deep=True)
    for setting in run.set:
        table: Any = machine
        for name in setting.key.split("."):
            table = getattr(table, name, None)
        if table is None:
            raise UsageError(f"{run.on} has no '{setting.key}' to set", "Set a key that its file has.")
        table.value = setting.value
    return machine if run.clock_ghz is None else at_frequency(machine, run.clock_ghz)


def cases_of(run: ProfileRun, *, quick: bool) -> list[Case]:
    """Returns the cases of a profile; with `quick`, fewer."""
    machine = machine_of(run)
    cases = [case for scenario in run.scenario for case in _scenario_cases(machine, scenario, quick)]
    for on_cluster in run.on_cluster:
        if not (quick and on_cluster.slow):
            cases += _operations(machine, on_cluster, quick).cases()
    return cases


def _scenario_cases(machine: DescribedMachine, run: ScenarioRun, quick: bool) -> Iterator[Case]:
    places = {place.distance: place for place in all_places(machine)}
    here = [places[distance] for distance in run.distance] or [NOWHERE]
    return cases_of_values(machine, run.name, here, {**run.parameters, **(run.quick if quick else {})})


def _operations(machine: DescribedMachine, run: ClusterRun, quick: bool) -> Operations:
    return Operations(
        machine=machine,
        names=tuple(run.name),
        sizes=tuple(run.quick if quick and run.quick else run.bytes),
        nodes=tuple(run.nodes),
        policies=tuple(run.policy),
        slowdowns=tuple(run.memory_slowdown),
        repetitions=run.repetitions,
        whole=run.whole,
    )
