"""Simulates the cases of measured records one by one, and pairs each measured time with the simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nearfield._native import simulation
from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.progress import Progress, Report, ignore
from nearfield.machine import DescribedMachine, facts
from nearfield.machine.native import to_native
from nearfield.measure.row import identity_columns, value_columns
from nearfield.profile.compare import declared_metrics
from nearfield.profile.records import CORE_COLUMNS, VERDICT, estimate_of
from nearfield.profile.schema import Run

# Scenario -> parameters that only the simulation has, with the value that measured records imply.
IMPLIED_PARAMETERS: dict[str, dict[str, Any]] = {"stride": {"mode": "standard"}}
RecordKey = tuple[Any, ...]


@dataclass(frozen=True)
class TimePair:
    """A measured time and the simulated one, in ns."""

    row: dict[str, Any]
    measured: Estimate
    simulated: float
    stable: bool

    @property
    def ratio(self) -> float:
        return self.simulated / self.measured.value

    @property
    def key(self) -> RecordKey:
        """Returns the key of the record, which is equal in another profile."""
        return record_key(self.row)


@dataclass
class SimulatedCases:
    """The pairs of times, and the records that were not compared, with their number and reason by scenario."""

    pairs: list[TimePair] = field(default_factory=list)
    # Scenario -> number of records to which the description was fitted.
    fitted: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, tuple[int, str]] = field(default_factory=dict)


def record_key(row: dict[str, Any]) -> RecordKey:
    """Returns scenario, metric, side and parameters of a record."""
    more = tuple(sorted((k, v) for k, v in _parameters(row).items()))
    return row["scenario"], row["metric"], row.get("side"), more


def simulate_records(
    machine: DescribedMachine, records: pl.DataFrame, run: Run | None, report: Report = ignore
) -> SimulatedCases:
    """Simulates the case of every measured time. Records to which a value of the description was fitted are counted but
    not compared."""
    found, made = SimulatedCases(), to_native(machine)
    was_fitted = _fitted_record_predicate(machine)
    times = [row for row in records.iter_rows(named=True) if _is_time(row, run)]
    groups: dict[RecordKey, list[dict[str, Any]]] = {}
    for row in times:
        groups.setdefault(_case_key(row), []).append(row)
    for number, rows in enumerate(groups.values()):
        report(Progress(f"{rows[0]['scenario']}", share=number / len(groups), phase="simulating"))
        scenario = rows[0]["scenario"]
        results = _simulated_times(made, rows[0], machine.cores.value if machine.cores else 1)
        if isinstance(results, str):
            count, _ = found.skipped.get(scenario, (0, ""))
            found.skipped[scenario] = count + len(rows), results
            continue
        for row in rows:
            if was_fitted(row):
                found.fitted[scenario] = found.fitted.get(scenario, 0) + 1
            elif (ns := results.get((row["metric"], row.get("side") or ""))) and ns > 0:
                estimate = estimate_of(row)
                assert estimate
                found.pairs.append(TimePair(row, estimate, ns, bool(row["stable"])))
    return found


def simulated_rows(pairs: list[TimePair]) -> list[dict[str, Any]]:
    """Returns the simulated times as records with distance and pair of the measured ones, for drawing in the same
    plots."""
    rows = []
    for pair in pairs:
        row = pair.row
        named = {name: row.get(name) for name in ("distance", "pair", "side")}
        of = identity_columns(row["scenario"], row["metric"], "ns", "sim", parameters=_parameters(row), **named)
        rows.append(of | value_columns(pair.simulated, None, None, 1))
    return rows


def _is_time(row: dict[str, Any], run: Run | None) -> bool:
    declared = declared_metrics(run) if run else set()
    known = not declared or (row["scenario"], row["metric"]) in declared
    return known and row["unit"] == "ns" and (row["value"] or 0) > 0 and row.get(VERDICT) != "refuted"


def _parameters(row: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in row.items() if name not in CORE_COLUMNS and name != VERDICT and one is not None}


def _case_key(row: dict[str, Any]) -> RecordKey:
    return row["scenario"], row.get("distance"), row.get("pair"), tuple(sorted(_parameters(row).items(), key=str))


def _simulated_times(made: Any, row: dict[str, Any], cores: int) -> dict[tuple[str, str], float] | str:
    """Returns (metric, side) -> simulated time in ns of a record's case, or the reason why it cannot be simulated."""
    scenario = row["scenario"]
    if scenario not in {spec.name for spec in simulation.scenarios()}:
        return "it is not simulated"
    if (row.get("distance") or "").startswith("network"):
        return "pairs on two nodes are not compared"
    place = simulation.Place(False, 0, 1 if cores > 1 else 0)
    if why := simulation.unable(scenario, made, place):
        return str(why)
    known = _parameters(row)
    implied = IMPLIED_PARAMETERS.get(scenario, {})
    if any(known.get(name, one) != one for name, one in implied.items()):
        return "only the standard mode is simulated within a node"
    parameters = list((known | implied).items())
    try:
        results = simulation.run(scenario, made, place, parameters)
    except (ValueError, RuntimeError, IndexError) as error:
        return f"it cannot be simulated with these parameters: {error}"
    return {(one.metric, one.side or ""): one.value for one in results if one.value is not None and one.speed <= 0}


def _fitted_record_predicate(machine: DescribedMachine) -> Callable[[dict[str, Any]], bool]:
    """Returns a function that says whether a value of the machine was fitted to a record. Fitted values name their
    records as scenario:metric:parameter=value,..."""
    chosen = [_parse_selector(name) for _, one in facts(machine) for name in one.fitted_to if name.count(":") == 2]

    def matches(row: dict[str, Any]) -> bool:
        return any(
            row["scenario"] == scenario
            and row["metric"] == metric
            and all(str(row.get(key)) == wanted for key, wanted in parameters)
            for scenario, metric, parameters in chosen
        )

    return matches


def _parse_selector(name: str) -> tuple[str, str, list[tuple[str, str]]]:
    scenario, metric, rest = name.split(":")
    return scenario, metric, [(key, wanted) for key, _, wanted in (part.partition("=") for part in rest.split(","))]


def iterate_curves(
    pairs: list[TimePair], scenario: str, metric: str
) -> Iterator[tuple[RecordKey, dict[int, TimePair]]]:
    """Yields (side and parameters other than the size, size -> pair), with sizes in ascending order."""
    curves: dict[RecordKey, dict[int, TimePair]] = {}
    for pair in pairs:
        row = pair.row
        if row["scenario"] != scenario or row["metric"] != metric or row.get("size_bytes") is None:
            continue
        rest = tuple(sorted((k, v) for k, v in _parameters(row).items() if k != "size_bytes"))
        curves.setdefault((row.get("side"), rest), {})[row["size_bytes"]] = pair
    for key, curve in curves.items():
        yield key, dict(sorted(curve.items()))
