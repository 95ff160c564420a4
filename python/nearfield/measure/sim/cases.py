"""Cases of a simulation: one set of parameters of a scenario on one pair of ranks (or all ranks) of a described
machine, with several NIC policies and memory slowdowns. Worker processes receive cases and return records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

from nearfield._native import simulation
from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.words import suggest_name
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.machine.sweep import SweepSetting, swept_column_of, with_settings
from nearfield.measure.request import format_filter
from nearfield.measure.row import Row, identity_columns, missing_value_columns, parameters_of, value_columns
from nearfield.measure.sim.places import ALL_CORES, SimulatedPair

BASE_POLICY = "memory"  # the baseline NIC policy: incoming bytes go to memory
# Scenarios on all ranks of a cluster; their cases have an `operation`.
OPERATION_SCENARIOS = ("collective", "application")
SLOWDOWN_COLUMN, POLICY_COLUMN = "memory_slowdown", "policy"
# For the scheduling estimate: set-up cost of a case on one node, and per node of several, in bytes of traffic.
_SETUP_BYTES, _SETUP_BYTES_PER_NODE = 64e3, 500e3
_MAX_NODES_UNDER_LOAD = 48  # src/sim/run/scenarios/load.cpp
# The simulation of a cache line of a collective takes as long as that of this number of bytes of a pair scenario.
_BYTES_PER_COLLECTIVE_LINE = 8
_ACCESSES_PER_APPLICATION_LINE = 150  # simulated line accesses per cache line of a rank's data
# Collectives inside a node: the calls that are simulated, for two models of fetches, and the simulation of a wait for
# another rank, in units of that of a line.
_CALLS_PER_NODE_COLLECTIVE, _WORK_PER_WAIT = 2 * 3, 3

# Identifies the configuration of records: scenario, distance, and parameters including policy and memory slowdown.
ConfigKey = tuple[str, str | None, frozenset[tuple[str, int | float | str]]]


@cache
def scenarios() -> dict[str, simulation.Scenario]:
    """Returns scenario name -> scenario, for all scenarios that can be simulated."""
    return {spec.name: spec for spec in simulation.scenarios()}


@cache
def collectives() -> dict[str, simulation.Collective]:
    """Returns collective name -> collective, for all collectives that can be simulated."""
    return {spec.name: spec for spec in simulation.collectives()}


@cache
def applications() -> dict[str, simulation.Application]:
    """Returns application name -> application, for all applications that can be simulated."""
    return {spec.name: spec for spec in simulation.applications()}


@dataclass(frozen=True)
class SimulationAxes:
    """The settings of a simulation that are not parameters of the case. If an axis is empty, the machine's own value
    applies, and the records have no column for the axis."""

    policies: tuple[str, ...] = ()  # the order of simulated events is that under the first policy
    slowdowns: tuple[float, ...] = ()  # memory slowdown factors
    repetitions: int | None = None  # None: the scenario's default


@dataclass(frozen=True)
class SimulationCase:
    """One simulation: a scenario with its parameters at a place of a machine, over some axes. `swept_values` are values
    that replace those of the machine's file; each becomes a column of the records."""

    machine: DescribedMachine
    scenario: str
    place: SimulatedPair
    parameters: tuple[tuple[str, int | str], ...]
    axes: SimulationAxes = SimulationAxes()
    swept_values: SweepSetting = ()

    @cached_property
    def value_by_parameter(self) -> dict[str, int | str]:
        """Returns the parameters: name -> value."""
        return dict(self.parameters)

    @property
    def repetitions(self) -> int:
        return self.axes.repetitions or scenarios()[self.scenario].repetitions

    @property
    def work_kind(self) -> str:
        """Returns the operation, or the scenario if the case has none. Cases of equal kind take equally long per unit
        of `estimated_work`."""
        return str(self.value_by_parameter["operation"]) if self.scenario in OPERATION_SCENARIOS else self.scenario

    def __str__(self) -> str:
        if self.scenario == "node-collective":
            values = self.value_by_parameter
            return (
                f"{values['operation']} of {values['size_bytes']} B by {values['algorithm']}, {values['ranks']} ranks"
            )
        if self.scenario in OPERATION_SCENARIOS:
            where = "".join(f", {key} {value}" for key, value in self.swept_values)
            values = self.value_by_parameter
            return f"{values['operation']} of {values['size_bytes']} B on {values.get('nodes', 1)} nodes{where}"
        return f"{self.scenario}, {self.place.distance or 'all cores'}"

    @property
    def _swept_columns(self) -> dict[str, int | float | str]:
        return {swept_column_of(key): value for key, value in self.swept_values}

    def config_keys(self) -> list[ConfigKey]:
        """Returns the configuration keys of all records of this case: for each policy, one per memory slowdown, and one
        for records that do not depend on the slowdown."""
        keys = []
        for policy in self.axes.policies or (None,):
            for slowdown in (*self.axes.slowdowns, None):
                axis_columns = {POLICY_COLUMN: policy, SLOWDOWN_COLUMN: slowdown}
                keys.append(
                    _config_key(
                        self.scenario,
                        self.place.distance or None,
                        {**self.value_by_parameter, **self._swept_columns, **axis_columns},
                    )
                )
        return keys

    def run(self) -> list[Row]:
        """Simulates the case and returns its records. Raises MeasurementError if the simulator rejects the case."""
        axes = self.axes
        repetitions = self.repetitions if scenarios()[self.scenario].of_nodes else None
        try:
            results = simulation.run(
                self.scenario,
                to_native(with_settings(self.machine, self.swept_values)),
                self.place.to_native_place(),
                list(self.parameters),
                list(axes.policies),
                list(axes.slowdowns or (1.0,)),
                repetitions,
            )
        except (ValueError, RuntimeError) as error:
            raise MeasurementError(f"{self} on {self.machine.name} cannot be simulated: {error}") from error
        return [self._to_row(result) for result in results]

    def _to_row(self, result: simulation.Result) -> Row:
        axis_columns: dict[str, int | float | str] = {}
        if self.axes.policies:
            axis_columns[POLICY_COLUMN] = self.axes.policies[result.variant]
        if self.axes.slowdowns and result.speed >= 0:
            axis_columns[SLOWDOWN_COLUMN] = self.axes.slowdowns[result.speed]
        identity = identity_columns(
            self.scenario,
            result.metric,
            result.unit,
            "sim",
            distance=self.place.distance or None,
            pair=self.place.pair if self.place.distance else None,
            side=result.side or None,
            parameters=self.value_by_parameter | self._swept_columns | axis_columns,
        )
        return identity | (
            missing_value_columns(result.reason)
            if result.value is None
            else value_columns(result.value, result.low, result.high, result.n)
        )

    @property
    def estimated_work(self) -> float:
        """Returns an estimate of the simulation time, in units of the time to simulate the access of one cache line."""
        policies = max(1, len(self.axes.policies))
        if self.scenario in OPERATION_SCENARIOS:
            return self._estimate_operation_work() * policies
        if self.scenario == "node-collective":
            return self._estimate_node_collective_work()
        return self._estimate_moved_bytes() * policies / _BYTES_PER_COLLECTIVE_LINE

    def _estimate_operation_work(self) -> float:
        operation, size, ranks = (
            str(self.value_by_parameter["operation"]),
            int(self.value_by_parameter["size_bytes"]),
            int(self.value_by_parameter["ranks"]),
        )
        if operation in applications():
            lines = size / 128 * _ACCESSES_PER_APPLICATION_LINE
        else:
            lines = collectives()[operation].whole_bytes(size, ranks) / 128
        return self.repetitions * ranks * (20 + lines)

    def _estimate_node_collective_work(self) -> float:
        """Returns the work of a collective inside a node: each rank waits for others, and reads lines of theirs."""
        values = self.value_by_parameter
        size, ranks, algorithm = int(values["size_bytes"]), int(values["ranks"]), values["algorithm"]
        num_awaited = {"doubling": math.log2(ranks), "grouped": 8.0}.get(str(algorithm), float(ranks))
        reads_from_all = values["operation"] in ("allgather", "alltoall", "reduce") or algorithm == "whole"
        num_lines = (ranks if reads_from_all and algorithm != "doubling" else 2) * size / 64
        return _CALLS_PER_NODE_COLLECTIVE * ranks * (_WORK_PER_WAIT * num_awaited + num_lines)

    def _estimate_moved_bytes(self) -> float:
        """Returns an estimate of the bytes that all ranks read and write in all repetitions."""
        size, nodes = float(self.value_by_parameter.get("size_bytes", 0)), 2 if self.place.is_between_nodes else 1
        cores = self.machine.cores.value if self.machine.cores else 1
        num_passes = min(max((1 << 20) / max(size, 1), 2), 20)  # as in src/sim/run/scenarios/pair.cpp
        if self.scenario == "stencil":
            moved_bytes = 24 * 32 * size / 2
        elif self.scenario == "pages":
            moved_bytes = cores * size / 2
        elif self.scenario == "load":
            max_nodes = self.machine.network.max_nodes.value if self.machine.network else 1
            ranks = (
                min(max_nodes, int(self.value_by_parameter.get("nodes", _MAX_NODES_UNDER_LOAD))) if nodes > 1 else cores
            )
            nodes = ranks if nodes > 1 else 1
            moved_bytes = num_passes * size + 4 * ranks * float(self.value_by_parameter.get("load_bytes", 0))
        else:
            strided = 4 if int(self.value_by_parameter.get("stride", 1)) > 1 else 1
            moved_bytes = num_passes * size * strided + 3 * float(self.value_by_parameter.get("cells", 0)) ** 3
        return _SETUP_BYTES + (nodes > 1) * nodes * _SETUP_BYTES_PER_NODE + moved_bytes


def config_key_of(row: Row) -> ConfigKey:
    """Returns the configuration key of a record."""
    return _config_key(row["scenario"], row.get("distance"), parameters_of(row))


def _config_key(scenario: str, distance: str | None, parameters: Mapping[str, int | float | str | None]) -> ConfigKey:
    return scenario, distance, frozenset((name, one) for name, one in parameters.items() if one is not None)


# ---- cases of a request


def select_simulated_scenarios(requested: Iterable[str]) -> list[simulation.Scenario]:
    """Returns the requested scenarios; the default ones if none are requested. Raises UsageError for an unknown
    scenario."""
    names = tuple(requested)
    for name in names:
        if name not in scenarios():
            raise UsageError(f"there is no simulated scenario '{name}'", suggest_name(name, scenarios()))
    return [spec for name, spec in scenarios().items() if (name in names if names else spec.usual)]


def cases_of_tier(
    machine: DescribedMachine,
    specs: Iterable[simulation.Scenario],
    places: list[SimulatedPair],
    tier: str,
    sizes: tuple[int, ...] = (),
    nodes: tuple[int, ...] = (),
) -> tuple[list[SimulationCase], list[tuple[str, str | None, str]]]:
    """Returns the cases of a tier, for each scenario and place in ascending order of size, and a list of (scenario,
    distance, reason) for scenarios that the machine cannot run."""
    cases: list[SimulationCase] = []
    skipped: list[tuple[str, str | None, str]] = []
    native_machine = to_native(machine)
    for spec in specs:
        if spec.of_pair and not places:
            skipped.append((spec.name, None, "the machine's description has one core and no network: there is no pair"))
        for place in places if spec.of_pair else [ALL_CORES]:
            if reason := simulation.unable(spec.name, native_machine, place.to_native_place()):
                skipped.append((spec.name, place.distance or None, reason))
                continue
            parameter_sets = simulation.cases(
                spec.name, native_machine, place.to_native_place(), tier, list(sizes), list(nodes)
            )
            cases_at_place = [
                SimulationCase(machine, spec.name, place, tuple(parameters)) for parameters in parameter_sets
            ]
            cases += sorted(
                filter(_has_send_mode, cases_at_place), key=lambda case: case.value_by_parameter.get("size_bytes", 0)
            )
    return cases, skipped


def select_filtered_cases(cases: list[SimulationCase], filters: Iterable[str]) -> list[SimulationCase]:
    """Returns the cases that all filters select. A filter ('SCENARIO PARAMETER VALUE...', as parse_filter returns it)
    restricts the cases of its scenario to values of a parameter. Raises UsageError for a filter whose scenario,
    parameter or value no case has."""
    for one in filters:
        scenario, parameter, *values = one.split()
        value_texts = _values_of_parameter(cases, scenario, parameter)
        if unknown := [value for value in values if value not in value_texts]:
            raise UsageError(
                f"--filter {format_filter(one)}: no case of {scenario} has {parameter} {unknown[0]}",
                f"It has {', '.join(value_texts)}.",
            )
        cases = [
            case for case in cases if case.scenario != scenario or str(case.value_by_parameter.get(parameter)) in values
        ]
    return cases


def _values_of_parameter(cases: list[SimulationCase], scenario: str, parameter: str) -> list[str]:
    """Returns the values of a parameter in the cases of a scenario, as texts. Raises UsageError if there are none."""
    parameters = [case.value_by_parameter for case in cases if case.scenario == scenario]
    if not parameters:
        raise UsageError(
            f"--filter {scenario}: it is not among what is simulated",
            suggest_name(scenario, sorted({case.scenario for case in cases})),
        )
    value_texts = list(dict.fromkeys(str(one[parameter]) for one in parameters if parameter in one))
    if not value_texts:
        names = list(dict.fromkeys(name for one in parameters for name in one))
        raise UsageError(f"--filter {scenario}: it has no parameter '{parameter}'", suggest_name(parameter, names))
    return value_texts


def cases_of_values(
    machine: DescribedMachine, scenario: str, places: Iterable[SimulatedPair], parameters: dict[str, list[int | str]]
) -> Iterator[SimulationCase]:
    """Yields a case for every combination of the parameter values at every place."""
    for place in places:
        for values in product(*parameters.values()):
            yield SimulationCase(machine, scenario, place, tuple(zip(parameters, values, strict=True)))


def _has_send_mode(case: SimulationCase) -> bool:
    """Returns whether the machine's description has the case's send mode. Every machine has the standard mode."""
    communication = case.machine.communication
    modes = {mode.name for mode in communication.mode} if communication else set()
    return case.value_by_parameter.get("mode", "standard") in {"standard", *modes}
