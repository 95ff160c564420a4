"""What there is to simulate for claims: cases of scenarios, collectives and applications, each with a key that says
everything its numbers depend on, so that what was simulated once is not simulated again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from nearfield import _native
from nearfield.errors import UsageError
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.frequency import at_frequency
from nearfield.machine.native import native
from nearfield.machine.quantity import facts
from nearfield.probe.simulated.cases import Case as ScenarioCase
from nearfield.probe.simulated.cases import case_rows
from nearfield.probe.simulated.places import Place, all_places
from nearfield.reproduce.schema import ClusterRun, ProfileRun, ScenarioRun
from nearfield.simulate.case import Case as ClusterCase
from nearfield.simulate.case import run_case
from nearfield.simulate.request import Request
from nearfield.simulate.rows import rows_of

Row = dict[str, Any]
_BYTES_OF_A_LINE = 8  # that take as long to simulate in a scenario as a line's way in a collective
_WHOLE_NODE = Place("", 0, 1)


@dataclass(frozen=True)
class Job:
    """One case, for a process of a pool."""

    key: str
    what: str
    work: float  # about how long it takes, relative to others
    machine: DescribedMachine
    case: ScenarioCase | ClusterCase

    def __str__(self) -> str:
        return self.what


def run_job(job: Job) -> list[Row]:
    if isinstance(job.case, ClusterCase):
        return list(rows_of(job.case, run_case(job.case)))
    return case_rows(job.case, job.case.run(native(job.machine)))


def machine_of(run: ProfileRun) -> DescribedMachine:
    """As described, with what the run sets, at its frequency."""
    machine = load_machine(run.on).model_copy(deep=True)
    for setting in run.set:
        table: Any = machine
        for name in setting.key.split("."):
            table = getattr(table, name, None)
        if table is None:
            raise UsageError(f"{run.on} has no '{setting.key}' to set", "Set a key that its file has.")
        table.value = setting.value
    return machine if run.clock_ghz is None else at_frequency(machine, run.clock_ghz)


def jobs_of(name: str, run: ProfileRun, *, quick: bool) -> list[Job]:
    machine = machine_of(run)
    mark = fingerprint(machine)
    cases: list[ScenarioCase | ClusterCase] = []
    for scenario in run.scenario:
        cases += _scenario_cases(machine, scenario, quick)
    for on_cluster in run.on_cluster:
        if not (quick and on_cluster.slow):
            cases += _cluster_cases(machine, on_cluster, quick)
    return [Job(_key(mark, case), f"{name}: {_what(case)}", _work(machine, case), machine, case) for case in cases]


def _scenario_cases(machine: DescribedMachine, run: ScenarioRun, quick: bool) -> list[ScenarioCase]:
    places = {place.distance: place for place in all_places(machine)}
    here = [places[distance] for distance in run.distance] or [_WHOLE_NODE]
    parameters = {**run.parameters, **(run.quick if quick else {})}
    return [
        ScenarioCase(run.name, place, tuple(zip(parameters, values, strict=True)))
        for place in here
        for values in product(*parameters.values())
    ]


def _cluster_cases(machine: DescribedMachine, run: ClusterRun, quick: bool) -> list[ClusterCase]:
    request = Request(
        machine=machine,
        collectives=tuple(run.name),
        sizes=tuple(run.quick if quick and run.quick else run.bytes),
        nodes=tuple(run.nodes),
        policies=tuple(run.policy),
        slowdowns=tuple(run.memory_slowdown),
        repetitions=run.repetitions,
        whole=run.whole,
    )
    return list(request.cases())


def _work(machine: DescribedMachine, case: ScenarioCase | ClusterCase) -> float:
    """Returns an estimate of the time, in the unit in which cases of collectives are estimated."""
    return case.work if isinstance(case, ClusterCase) else case.work(machine) / _BYTES_OF_A_LINE


def _what(case: ScenarioCase | ClusterCase) -> str:
    return str(case) if isinstance(case, ClusterCase) else f"{case.scenario} {case.place.distance}".strip()


# ---- keys


def fingerprint(machine: DescribedMachine) -> str:
    """Of the machine's numbers and of the simulator: another build of it may give others."""
    words = {"kind", "source", "reason", "claims"}
    numbers = [machine.name, *((key, fact.model_dump(exclude=words)) for key, fact in facts(machine))]
    return hashlib.sha256((simulator_digest() + repr(numbers)).encode()).hexdigest()[:16]


@cache
def simulator_digest() -> str:
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()


def _key(mark: str, case: ScenarioCase | ClusterCase) -> str:
    if isinstance(case, ScenarioCase):
        return f"{mark} {case.key}"
    return f"{mark} {[getattr(case, field.name) for field in fields(case) if field.name != 'machine']}"
