"""The store of simulated records, so that no case is simulated twice. With a journal, every finished case is appended
to a file, so that even `kill -9` loses no finished case. `simulate_missing` simulates the cases that the store
lacks."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from nearfield import _native
from nearfield.base.errors import MeasurementError
from nearfield.base.journal import Journal
from nearfield.base.progress import Progress, Report, ignore_progress
from nearfield.base.units import counted
from nearfield.machine import DescribedMachine
from nearfield.machine.quantity import facts
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import ConfigKey, SimulationCase, config_key_of
from nearfield.measure.sim.estimate import SimulationTimeEstimate
from nearfield.measure.sim.pool import CaseRunner


class _JournalRow(TypedDict):
    """A record in the journal; parameters are additional keys."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]
    scenario: str
    metric: str
    unit: str
    source: str
    distance: str | None
    value: float | None
    n: int
    stable: bool


# Fingerprint of the machine, and records.
_LINE_ADAPTER: TypeAdapter[tuple[str, list[_JournalRow]]] = TypeAdapter(tuple[str, list[_JournalRow]])
_RecordKey = tuple[str, ConfigKey]


class RecordStore:
    """Holds simulated records by machine fingerprint and configuration."""

    def __init__(self, journal: Journal | None = None) -> None:
        """Reads the records of the locked journal. Skips damaged lines, whose cases are then simulated again."""
        self._journal = journal
        self._rows: dict[_RecordKey, dict[tuple[Any, ...], Row]] = {}
        self.has_new_cases = False  # True: `add_case` was called
        for line in journal.read_lines() if journal else ():
            with suppress(ValueError):
                digest, rows = _LINE_ADAPTER.validate_json(line)
                self._insert_rows(digest, [dict(row) for row in rows])

    def add_earlier_rows(self, machine: DescribedMachine, rows: Iterable[Row]) -> None:
        """Adds the records of an earlier profile of this machine."""
        self._insert_rows(machine_fingerprint(machine), rows)

    def add_case(self, case: SimulationCase, rows: list[Row]) -> None:
        """Adds the records of a case, and appends them to the journal. Raises ProfileError if the journal cannot be
        written."""
        digest = machine_fingerprint(case.machine)
        self._insert_rows(digest, rows)
        self.has_new_cases = True
        if self._journal:
            self._journal.append_line(json.dumps([digest, rows]).encode())

    def _insert_rows(self, digest: str, rows: Iterable[Row]) -> None:
        for row in rows:
            stored = self._rows.setdefault((digest, config_key_of(row)), {})
            name = (row["metric"], row.get("side"))
            if name not in stored or stored[name]["n"] != row["n"]:  # several cases share a record: do not replace it
                stored[name] = row

    @staticmethod
    def key_of(case: SimulationCase) -> tuple[Any, ...]:
        """Returns a key that is equal for cases with equal results."""
        return machine_fingerprint(case.machine), tuple(case.config_keys()), case.repetitions

    def reduce_to_missing(self, case: SimulationCase) -> SimulationCase | None:
        """Returns the case with only those policies and memory slowdowns whose records are missing, and with the first
        policy, which determines the order of events. Returns None if no record is missing."""
        digest, axes = machine_fingerprint(case.machine), case.axes
        missing_settings = [
            (policy, slowdown)
            for policy in axes.policies or (None,)
            for slowdown in axes.slowdowns or (None,)
            if not self._has_records_of(digest, replace(case, axes=replace(axes, policies=(policy,) if policy else (),
                                                              slowdowns=(slowdown,) if slowdown else ())))
        ]  # fmt: skip
        if not missing_settings:
            return None
        policies, slowdowns = {policy for policy, _ in missing_settings}, {slowdown for _, slowdown in missing_settings}
        axes = replace(
            axes,
            policies=tuple(p for i, p in enumerate(axes.policies) if i == 0 or p in policies),
            slowdowns=tuple(s for s in axes.slowdowns if s in slowdowns),
        )
        return replace(case, axes=axes)

    def _has_records_of(self, digest: str, case: SimulationCase) -> bool:
        rows = self._rows.get((digest, case.config_keys()[0]), {}).values()
        return any(row["n"] in (case.repetitions, 0) for row in rows)

    def records_of(self, cases: Iterable[SimulationCase]) -> list[Row]:
        """Returns the stored records of these cases, in the order of the cases."""
        keys = {(machine_fingerprint(case.machine), point): None for case in cases for point in case.config_keys()}
        return [row for key in keys for row in self._rows.get(key, {}).values()]

    def records_of_other_cases(self, cases: Iterable[SimulationCase]) -> list[Row]:
        """Returns the stored records that belong to none of these cases."""
        keys = {(machine_fingerprint(case.machine), point) for case in cases for point in case.config_keys()}
        return [row for key, rows in self._rows.items() if key not in keys for row in rows.values()]


# id() of a machine -> machine and fingerprint. The reference to the machine prevents reuse of the id.
_FINGERPRINT_BY_ID: dict[int, tuple[DescribedMachine, str]] = {}


def machine_fingerprint(machine: DescribedMachine) -> str:
    """Returns a hash of the machine's numbers and of the extension module, since another build of the simulator may
    give other results."""
    cached = _FINGERPRINT_BY_ID.get(id(machine))
    if cached is None:
        origin_fields = {"kind", "source", "reason", "claims"}
        numbers = [machine.name, *((key, fact.model_dump(exclude=origin_fields)) for key, fact in facts(machine))]
        digest = hashlib.sha256((simulator_digest() + repr(numbers)).encode()).hexdigest()[:16]
        cached = _FINGERPRINT_BY_ID[id(machine)] = (machine, digest)
    return cached[1]


@cache
def simulator_digest() -> str:
    """Returns a SHA-256 hash of the extension module, which contains the simulator."""
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()


SAVE_INTERVAL_S = 20.0


def simulate_missing(
    cases: list[SimulationCase],
    store: RecordStore,
    runner: CaseRunner,
    report: Report = ignore_progress,
    num_concurrent_cases: int | None = None,
    save: Callable[[], None] = lambda: None,
) -> bool:
    """Simulates the cases that the store lacks, and adds their records. Returns False if Ctrl-C interrupted the
    simulation, whose unfinished cases are then lost. `num_concurrent_cases` is the number of cases that `runner`
    simulates concurrently, if known. `save` is called every SAVE_INTERVAL_S seconds. Raises MeasurementError."""
    distinct_cases = list({store.key_of(case): case for case in cases}.values())
    remaining_cases = [case for case in map(store.reduce_to_missing, distinct_cases) if case]
    concurrent = f", {num_concurrent_cases} at a time" if num_concurrent_cases else ""
    finished = (
        f", {len(distinct_cases) - len(remaining_cases)} more are there already"
        if len(remaining_cases) < len(distinct_cases)
        else ""
    )
    report(f"simulating {counted(len(remaining_cases), 'case')}{concurrent}{finished}")
    report(Progress(f"0 of {len(remaining_cases)} cases", 0.0))
    estimate, last_save_time = SimulationTimeEstimate(remaining_cases, num_concurrent_cases), time.monotonic()
    try:
        for case, rows, seconds in runner(remaining_cases):
            store.add_case(case, rows)
            report(estimate.add_finished_case(case, seconds))
            if time.monotonic() - last_save_time > SAVE_INTERVAL_S:
                save()
                last_save_time = time.monotonic()
    except KeyboardInterrupt:
        return False
    return True


def simulate_rows(
    cases: list[SimulationCase],
    runner: CaseRunner,
    report: Report = ignore_progress,
    num_concurrent_cases: int | None = None,
) -> list[Row]:
    """Simulates all cases and returns their records. Raises MeasurementError if Ctrl-C interrupted the simulation."""
    store = RecordStore()
    if not simulate_missing(cases, store, runner, report, num_concurrent_cases):
        raise MeasurementError("the simulation was stopped")
    return store.records_of(cases)
