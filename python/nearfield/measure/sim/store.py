"""The store of simulated records, which are not simulated again. It can keep a journal, a file to which every
case is appended when it is done, so that not even `kill -9` loses one. `simulate` simulates what a store lacks."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from nearfield import _native
from nearfield.base.errors import MeasurementError
from nearfield.base.files import read_file
from nearfield.machine import DescribedMachine
from nearfield.machine.quantity import facts
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import Case, Point, point_of
from nearfield.measure.sim.pool import Runner


class _Kept(TypedDict):
    """A row as the journal has it; parameters are further keys."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]
    scenario: str
    metric: str
    unit: str
    source: str
    distance: str | None
    value: float | None
    n: int
    stable: bool


_LINE: TypeAdapter[tuple[str, list[_Kept]]] = TypeAdapter(tuple[str, list[_Kept]])  # the machine's mark, rows
_Key = tuple[str, Point]


class Store:
    """Holds records by their machine and point."""

    def __init__(self, journal: Path | None = None) -> None:
        self._journal = journal
        self._rows: dict[_Key, dict[tuple[Any, ...], Row]] = {}
        self.grown = False  # by a case
        if journal and journal.exists():
            for mark, rows in _whole_lines(journal):
                self._put(mark, rows)

    def seed(self, machine: DescribedMachine, rows: Iterable[Row]) -> None:
        """Takes rows of an earlier profile of this machine."""
        self._put(fingerprint(machine), rows)

    def add(self, case: Case, rows: list[Row]) -> None:
        """Stores the records of a case. Raises OSError if the journal cannot be written."""
        mark = fingerprint(case.machine)
        self._put(mark, rows)
        self.grown = True
        if self._journal:
            with self._journal.open("a", encoding="utf-8") as file:
                file.write(json.dumps([mark, rows]) + "\n")

    def _put(self, mark: str, rows: Iterable[Row]) -> None:
        for row in rows:
            there = self._rows.setdefault((mark, point_of(row)), {})
            name = (row["metric"], row.get("side"))
            if name not in there or there[name]["n"] != row["n"]:  # what several cases have in common stays as it was
                there[name] = row

    @staticmethod
    def key(case: Case) -> tuple[Any, ...]:
        """Returns a key that is equal for two equal cases."""
        return fingerprint(case.machine), tuple(case.points()), case.repetitions

    def missing(self, case: Case) -> Case | None:
        """Returns the case with those policies and memory speeds that are not there; the first policy stays. Returns
        None if all is there."""
        mark, axes = fingerprint(case.machine), case.axes
        lacking = [
            (policy, slowdown)
            for policy in axes.policies or (None,)
            for slowdown in axes.slowdowns or (None,)
            if not self._has(mark, replace(case, axes=replace(axes, policies=(policy,) if policy else (),
                                                              slowdowns=(slowdown,) if slowdown else ())))
        ]  # fmt: skip
        if not lacking:
            return None
        policies, slowdowns = {policy for policy, _ in lacking}, {slowdown for _, slowdown in lacking}
        kept = tuple(p for i, p in enumerate(axes.policies) if i == 0 or p in policies)
        return replace(
            case, axes=replace(axes, policies=kept, slowdowns=tuple(s for s in axes.slowdowns if s in slowdowns))
        )

    def _has(self, mark: str, case: Case) -> bool:
        rows = self._rows.get((mark, case.points()[0]), {}).values()
        return any(row["n"] in (case.repetitions, 0) for row in rows)

    def rows(self, cases: Iterable[Case]) -> list[Row]:
        """Returns the records of these cases that are there, in the order of the cases."""
        keys = {(fingerprint(case.machine), point): None for case in cases for point in case.points()}
        return [row for key in keys for row in self._rows.get(key, {}).values()]

    def others(self, cases: Iterable[Case]) -> list[Row]:
        """Returns the records that are of none of these cases."""
        keys = {(fingerprint(case.machine), point) for case in cases for point in case.points()}
        return [row for key, rows in self._rows.items() if key not in keys for row in rows.values()]


def _whole_lines(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yields the lines up to the first that is not whole, which a crash has cut short; the rest is removed, so that
    what is appended later can be read."""
    text = read_file(path).decode("utf-8", "replace")
    whole = ""
    for line in text.splitlines(keepends=True):
        try:
            mark, rows = _LINE.validate_json(line)
        except ValueError:
            break
        if not line.endswith("\n"):
            break
        whole += line
        yield mark, [dict(row) for row in rows]
    if whole != text:
        path.write_text(whole, encoding="utf-8")


_MARKS: dict[int, tuple[DescribedMachine, str]] = {}  # by identity; machines are kept so that none takes its place


def fingerprint(machine: DescribedMachine) -> str:
    """Returns a mark of the machine's numbers and of the simulator: another build of it may give others."""
    known = _MARKS.get(id(machine))
    if known is None:
        words = {"kind", "source", "reason", "claims"}
        numbers = [machine.name, *((key, fact.model_dump(exclude=words)) for key, fact in facts(machine))]
        mark = hashlib.sha256((simulator_digest() + repr(numbers)).encode()).hexdigest()[:16]
        known = _MARKS[id(machine)] = (machine, mark)
    return known[1]


@cache
def simulator_digest() -> str:
    """Returns a hash of the extension module: another build of the simulator may give other numbers."""
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()


KEEP_EVERY_S = 20.0


class Listener:
    """Is told how a simulation gets on; the base class prints nothing."""

    def plan(self, cases: list[Case], kept: int) -> None:
        """Says which cases will be simulated. `kept` more are there from an interrupted run."""

    def done(self, case: Case, seconds: float) -> None:
        """Says that a case is done, and how long simulating it took."""


def simulate(
    cases: list[Case], store: Store, runner: Runner, listener: Listener, keep: Callable[[], None] | None = None
) -> bool:
    """Simulates the cases that the store lacks. Returns False if Ctrl-C ended it: then cases under way are lost. `keep`
    is called now and then to save the records so far. Raises MeasurementError."""
    different = list({store.key(case): case for case in cases}.values())
    left = [case for case in map(store.missing, different) if case]
    listener.plan(left, len(different) - len(left))
    saved = time.monotonic()
    try:
        for case, rows, seconds in runner(left):
            store.add(case, rows)
            listener.done(case, seconds)
            if keep and time.monotonic() - saved > KEEP_EVERY_S:
                keep()
                saved = time.monotonic()
    except KeyboardInterrupt:
        return False
    return True


def rows_now(cases: list[Case], runner: Runner, listener: Listener) -> list[Row]:
    """Simulates all cases and returns their records. Raises MeasurementError if it was stopped."""
    store = Store()
    if not simulate(cases, store, runner, listener):
        raise MeasurementError("the simulation was stopped")
    return store.rows(cases)
