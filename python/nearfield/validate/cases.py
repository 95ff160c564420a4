"""Simulates the benchmark case of each measured record, and pairs the measured time with the simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from nearfield._native import simulation
from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.progress import Progress, Report, ignore_progress
from nearfield.machine import DescribedMachine, facts
from nearfield.machine.native import to_native
from nearfield.measure.row import identity_columns, value_columns
from nearfield.profile.compare import declared_metrics
from nearfield.profile.records import STANDARD_COLUMNS, VERDICT_COLUMN, estimate_of_record
from nearfield.profile.schema import Run

# Scenario -> parameters that only simulated records have, with the values that all measured records implicitly have.
IMPLIED_PARAMETERS: dict[str, dict[str, Any]] = {"stride": {"mode": "standard"}}
RecordKey = tuple[Any, ...]


@dataclass(frozen=True)
class TimePair:
    """A measured time and the simulated one, in ns."""

    measured_row: dict[str, Any]
    measured: Estimate
    simulated_ns: float
    is_stable: bool

    @property
    def ratio(self) -> float:
        return self.simulated_ns / self.measured.value

    @property
    def record_key(self) -> RecordKey:
        """Returns the key of the measured record, which is the same in another profile of the machine."""
        return record_key(self.measured_row)


@dataclass
class SimulatedCases:
    """The pairs of measured and simulated times, and by scenario the number of records that were not compared."""

    pairs: list[TimePair] = field(default_factory=list)
    # Scenario -> number of records to which values of the machine's description were fitted.
    num_fitted_by_scenario: dict[str, int] = field(default_factory=dict)
    skipped_by_scenario: dict[str, tuple[int, str]] = field(default_factory=dict)


def record_key(row: dict[str, Any]) -> RecordKey:
    """Returns the scenario, metric, side and parameters of a record, which identify it in any profile of a machine."""
    parameters = tuple(sorted((k, v) for k, v in _parameters(row).items()))
    return row["scenario"], row["metric"], row.get("side"), parameters


def simulate_records(
    machine: DescribedMachine, records: pl.DataFrame, run: Run | None, report: Report = ignore_progress
) -> SimulatedCases:
    """Simulates the case of every measured time, and pairs both times. Records to which a value of the machine's
    description was fitted are counted but not compared."""
    simulated, native_machine = SimulatedCases(), to_native(machine)
    was_fitted = _fitted_record_predicate(machine)
    time_rows = [row for row in records.iter_rows(named=True) if _is_declared_time(row, run)]
    groups: dict[RecordKey, list[dict[str, Any]]] = {}
    for row in time_rows:
        groups.setdefault(_case_key(row), []).append(row)
    for group_number, rows in enumerate(groups.values()):
        report(Progress(f"{rows[0]['scenario']}", share=group_number / len(groups), phase="simulating"))
        scenario = rows[0]["scenario"]
        results = _simulated_times(native_machine, rows[0], machine.cores.value if machine.cores else 1)
        if isinstance(results, str):
            count, _ = simulated.skipped_by_scenario.get(scenario, (0, ""))
            simulated.skipped_by_scenario[scenario] = count + len(rows), results
            continue
        for row in rows:
            if was_fitted(row):
                simulated.num_fitted_by_scenario[scenario] = simulated.num_fitted_by_scenario.get(scenario, 0) + 1
            elif (ns := results.get((row["metric"], row.get("side") or ""))) and ns > 0:
                estimate = estimate_of_record(row)
                assert estimate
                simulated.pairs.append(TimePair(row, estimate, ns, bool(row["stable"])))
    return simulated


def simulated_rows(pairs: list[TimePair]) -> list[dict[str, Any]]:
    """Returns the simulated times as records. They have the distance, pair and side of the measured records, so that
    both can be drawn in the same plots."""
    rows = []
    for pair in pairs:
        row = pair.measured_row
        place_columns = {name: row.get(name) for name in ("distance", "pair", "side")}
        identity = identity_columns(
            row["scenario"], row["metric"], "ns", "sim", parameters=_parameters(row), **place_columns
        )
        rows.append(identity | value_columns(pair.simulated_ns, None, None, 1))
    return rows


def _is_declared_time(row: dict[str, Any], run: Run | None) -> bool:
    declared = declared_metrics(run) if run else set()
    is_declared = not declared or (row["scenario"], row["metric"]) in declared
    return is_declared and row["unit"] == "ns" and (row["value"] or 0) > 0 and row.get(VERDICT_COLUMN) != "refuted"


def _parameters(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: one
        for name, one in row.items()
        if name not in STANDARD_COLUMNS and name != VERDICT_COLUMN and one is not None
    }


def _case_key(row: dict[str, Any]) -> RecordKey:
    return row["scenario"], row.get("distance"), row.get("pair"), tuple(sorted(_parameters(row).items(), key=str))


def _simulated_times(native_machine: Any, row: dict[str, Any], cores: int) -> dict[tuple[str, str], float] | str:
    """Simulates a record's case. Returns (metric, side) -> simulated time in ns, or the reason why the case cannot be
    simulated."""
    scenario = row["scenario"]
    if scenario not in {spec.name for spec in simulation.scenarios()}:
        return "it is not simulated"
    if (row.get("distance") or "").startswith("network"):
        return "pairs on two nodes are not compared"
    place = simulation.Place(False, 0, 1 if cores > 1 else 0)
    if reason := simulation.unable(scenario, native_machine, place):
        return str(reason)
    parameters_ = _parameters(row)
    implied = IMPLIED_PARAMETERS.get(scenario, {})
    if any(parameters_.get(name, one) != one for name, one in implied.items()):
        return "only the standard mode is simulated within a node"
    parameters = list((parameters_ | implied).items())
    try:
        results = simulation.run(scenario, native_machine, place, parameters)
    except (ValueError, RuntimeError, IndexError) as error:
        return f"it cannot be simulated with these parameters: {error}"
    return {(one.metric, one.side or ""): one.value for one in results if one.value is not None and one.speed <= 0}


def _fitted_record_predicate(machine: DescribedMachine) -> Callable[[dict[str, Any]], bool]:
    """Returns a predicate on records: whether a value of the machine's description was fitted to the record. Fitted
    values name these records in the form scenario:metric:parameter=value,..."""
    selectors = [_parse_selector(name) for _, one in facts(machine) for name in one.fitted_to if name.count(":") == 2]

    def matches(row: dict[str, Any]) -> bool:
        return any(
            row["scenario"] == scenario
            and row["metric"] == metric
            and all(str(row.get(key)) == wanted for key, wanted in parameters)
            for scenario, metric, parameters in selectors
        )

    return matches


def _parse_selector(selector: str) -> tuple[str, str, list[tuple[str, str]]]:
    scenario, metric, parameters_text = selector.split(":")
    return (
        scenario,
        metric,
        [(key, wanted) for key, _, wanted in (part.partition("=") for part in parameters_text.split(","))],
    )


def iterate_curves(
    pairs: list[TimePair], scenario: str, metric: str
) -> Iterator[tuple[RecordKey, dict[int, TimePair]]]:
    """Yields the curves of a metric as (key, size in bytes -> pair), with sizes in ascending order. The key consists of
    the side and the parameters other than the size."""
    curves: dict[RecordKey, dict[int, TimePair]] = {}
    for pair in pairs:
        row = pair.measured_row
        if row["scenario"] != scenario or row["metric"] != metric or row.get("size_bytes") is None:
            continue
        other_parameters = tuple(sorted((k, v) for k, v in _parameters(row).items() if k != "size_bytes"))
        curves.setdefault((row.get("side"), other_parameters), {})[row["size_bytes"]] = pair
    for key, curve in curves.items():
        yield key, dict(sorted(curve.items()))
