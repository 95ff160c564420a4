"""What there is to simulate: every case of every scenario at every place; and what came of it, kept case by case so
that an interrupted probe goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from nearfield._native import simulated
from nearfield.errors import MeasurementError, UsageError
from nearfield.machine import DescribedMachine
from nearfield.machine.native import native
from nearfield.probe.simulated.places import Place
from nearfield.profile.words import suggestion

Values = list[tuple[str, str, str, float | None, str]]  # metric, unit, side, value or why not
_LINE = TypeAdapter(tuple[str, Values])  # a case's key and what came of it
_NOWHERE = Place("", 0, 1)  # of scenarios in which all cores take part
# Bytes that ranks read and write which take as long to simulate as setting up a case: on one node, and for each node.
_SETTING_UP, _A_NODE = 64e3, 500e3
_MOST_LOADED_NODES = 48  # src/sim/scenarios/load.cpp


@dataclass(frozen=True)
class Case:
    scenario: str
    place: Place
    parameters: tuple[tuple[str, int | str], ...]

    @property
    def key(self) -> str:
        return json.dumps([self.scenario, self.place.distance, *self.parameters])

    def __str__(self) -> str:
        return f"{self.scenario}, {self.place.distance or 'all cores'}"

    def work(self, machine: DescribedMachine) -> float:
        """Returns an estimate of how long the case takes, relative to others: the bytes that all its ranks read and
        write in all repetitions."""
        given = dict(self.parameters)
        size, nodes = float(given.get("size_bytes", 0)), 2 if self.place.between_nodes else 1
        cores = machine.cores.value if machine.cores else 1
        again = min(max((1 << 20) / max(size, 1), 2), 20)  # as in src/sim/scenarios/pair.cpp
        if self.scenario == "stencil":
            moved = 24 * 32 * size / 2
        elif self.scenario == "pages":
            moved = cores * size / 2
        elif self.scenario == "collective":
            moved = 6 * cores * size * (cores if given["operation"] in ("allgather", "alltoall") else 1)
        elif self.scenario == "load":
            ranks = min(machine.network.max_nodes.value, _MOST_LOADED_NODES) if nodes > 1 and machine.network else cores
            nodes = ranks if nodes > 1 else 1
            moved = again * size + 4 * ranks * float(given.get("load_bytes", 0))
        else:
            moved = again * size * (4 if int(given.get("stride", 1)) > 1 else 1) + 3 * float(given.get("cells", 0)) ** 3
        return _SETTING_UP + (nodes > 1) * nodes * _A_NODE + moved

    def run(self, machine: Any) -> Values:
        results = simulated.run(self.scenario, machine, self.place.native(), list(self.parameters))
        return [(r.metric, r.unit, r.side, r.value, r.reason) for r in results]


@dataclass(frozen=True)
class Job:
    """A case, for a process of a pool."""

    machine: DescribedMachine
    case: Case

    @property
    def work(self) -> float:
        return self.case.work(self.machine)


def run_job(job: Job) -> Values:
    """Simulates a case and returns its values. Raises MeasurementError if the simulator refuses it."""
    try:
        return job.case.run(native(job.machine))
    except (ValueError, RuntimeError) as error:
        what = f"{job.case.scenario} {dict(job.case.parameters)} on {job.machine.name}"
        raise MeasurementError(f"{what} cannot be simulated: {error}") from error


def chosen_scenarios(wanted: tuple[str, ...]) -> list[Any]:
    """Returns the wanted scenarios, or all. Raises UsageError for an unknown one."""
    known = {spec.name: spec for spec in simulated.scenarios()}
    for name in wanted:
        if name not in known:
            raise UsageError(f"there is no simulated scenario '{name}'", suggestion(name, known))
    return [spec for name, spec in known.items() if not wanted or name in wanted]


def all_cases(
    machine: DescribedMachine, specs: list[Any], places: list[Place], tier: str, sizes: tuple[int, ...]
) -> tuple[list[Case], list[tuple[str, str | None, str]]]:
    """Returns the cases, and for everything that this machine cannot do the scenario, the distance and the reason."""
    cases, skipped = [], []
    struct = native(machine)
    for spec in specs:
        if spec.of_pair and not places:
            skipped.append((spec.name, None, "the machine's description has one core and no network: there is no pair"))
        for place in places if spec.of_pair else [_NOWHERE]:
            if reason := simulated.unable(spec.name, struct, place.native()):
                skipped.append((spec.name, place.distance or None, reason))
                continue
            found = simulated.cases(spec.name, struct, place.native(), tier, list(sizes))
            mine = [Case(spec.name, place, tuple(map(tuple, parameters))) for parameters in found]
            cases += [case for case in mine if _has_mode(machine, case)]
    return cases, skipped


def _has_mode(machine: DescribedMachine, case: Case) -> bool:
    """Other ways to send than its standard one are those that the description tells of."""
    modes = {mode.name for mode in machine.communication.mode} if machine.communication else set()
    return dict(case.parameters).get("mode", "standard") in {"standard", *modes}


class Kept:
    """What was simulated so far, a line per case in `<out>.launches`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "simulated.jsonl"
        self.values: dict[str, Values] = {}
        if self._path.exists():
            self.values = dict(self._whole_lines())

    def _whole_lines(self) -> Iterator[tuple[str, Values]]:
        """Up to the first line that is not whole: a crash cuts the last one short."""
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield _LINE.validate_json(line, strict=True)
            except ValueError:
                return

    def add(self, case: Case, values: Values) -> None:
        self.values[case.key] = values
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([case.key, values]) + "\n")


def to_rows(cases: Iterable[Case], kept: Kept) -> list[dict[str, Any]]:
    """Records of the cases that are done, smallest first within a scenario and place."""
    done = [case for case in cases if case.key in kept.values]
    order = {(case.scenario, case.place.distance): i for i, case in reversed(list(enumerate(done)))}
    done.sort(key=lambda c: (order[c.scenario, c.place.distance], dict(c.parameters).get("size_bytes", 0)))
    return [row for case in done for row in case_rows(case, kept.values[case.key])]


def case_rows(case: Case, values: Values) -> list[dict[str, Any]]:
    return [_row(case, *one) for one in values]


def _row(case: Case, metric: str, unit: str, side: str, value: float | None, reason: str) -> dict[str, Any]:
    everywhere = not case.place.distance
    row = {"scenario": case.scenario, "metric": metric, "unit": unit, "source": "sim", "side": side or None}
    row |= (
        {"distance": None, "pair": None} if everywhere else {"distance": case.place.distance, "pair": case.place.pair}
    )
    exact = {"value": value, "low": value, "high": value, "n": 1, "stable": True}
    return row | (exact if value is not None else {"n": 0, "stable": False, "note": reason}) | dict(case.parameters)
