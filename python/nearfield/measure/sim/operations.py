"""Expands requested collectives and applications to cases: every operation at every size on every number of nodes,
under several policies and memory slowdowns. Computes from the records the share of time that each policy saves relative
to the base policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from nearfield._native import simulation
from nearfield.base.errors import UsageError
from nearfield.base.words import as_sentence, suggest_name
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native
from nearfield.machine.sweep import Sweep, SweepValue, setting_combinations, with_settings
from nearfield.measure.request import MAX_MESSAGE_BYTES
from nearfield.measure.row import Row
from nearfield.measure.sim.axes import (
    ALL_POLICIES_OPTION,
    check_axes,
    policy_sort_key,
    select_policies,
    split_by_axes,
    split_into_chunks,
    to_usage_error,
)
from nearfield.measure.sim.cases import BASE_POLICY, SimulationAxes, SimulationCase, applications, collectives
from nearfield.measure.sim.places import ALL_CORES

DEFAULT_COLLECTIVE_SIZES_BYTES = tuple(1 << exponent for exponent in range(10, 21))
MAX_REPETITIONS = 10_000


@dataclass(frozen=True)
class OperationRequest:
    """The requested collectives and applications with their axes. Raises UsageError if one of them cannot be
    simulated."""

    machine: DescribedMachine
    names: tuple[str, ...]  # collectives and applications
    # Bytes per rank, or with `uses_total_sizes` of a collective's whole buffer; empty: the default sizes of each
    # operation.
    sizes: tuple[int, ...]
    nodes: tuple[int, ...]
    policies: tuple[str, ...]  # empty: all that the machine has cache levels for; the base policy is added
    slowdowns: tuple[float, ...] = (1.0,)
    ranks_per_node: int = 1
    repetitions: int | None = None  # None: the default of each operation
    uses_total_sizes: bool = False  # sizes of collectives are those of the whole buffer, not of a rank's block
    # Simulates each policy in a separate run, so that no policy determines the message order of another.
    uses_independent_runs: bool = False

    def __post_init__(self) -> None:
        self._check_names()
        self._check_numbers()
        policies = select_policies(self.machine, self.policies or ALL_POLICIES_OPTION)
        object.__setattr__(self, "policies", tuple(dict.fromkeys((BASE_POLICY, *policies))))
        check_axes(self.machine, self.policies, self.slowdowns)
        for name, nodes in product(self.names, self.nodes):
            self._check_by_simulator(name, nodes)

    def cases(self) -> list[SimulationCase]:
        """Returns the cases of every combination. A case contains as many policies and slowdowns as one simulation run
        supports; with `uses_independent_runs`, a single policy."""
        cases = list(
            split_by_axes(self._cases_without_axes(), SimulationAxes(self.policies, self.slowdowns, self.repetitions))
        )
        if not self.uses_independent_runs:
            return cases
        return [
            replace(case, axes=replace(case.axes, policies=some))
            for case in cases
            for some in split_into_chunks(list(case.axes.policies), 1) or [()]
        ]

    def _cases_without_axes(self) -> Iterator[SimulationCase]:
        for name, nodes in product(self.names, self.nodes):
            for size in self._sizes_of(name, nodes):
                yield self._make_case(name, size, nodes)

    def _make_case(self, name: str, size: int, nodes: int) -> SimulationCase:
        scenario = "application" if name in applications() else "collective"
        ranks = nodes * self.ranks_per_node
        parameters = (("operation", name), ("size_bytes", size), ("ranks", ranks), ("nodes", nodes))
        return SimulationCase(self.machine, scenario, ALL_CORES, parameters)

    def _sizes_of(self, name: str, nodes: int) -> list[int]:
        """Returns the sizes to pass to a call, in bytes; [0] for a barrier."""
        if name in applications():
            return sorted(set(self.sizes or applications()[name].usual_bytes))
        ranks = nodes * self.ranks_per_node
        unit = collectives()[name].whole_bytes(1, ranks)  # bytes of the whole buffer per byte of the size argument
        if unit == 0:
            return [0]
        return sorted(
            {
                max(1, size // unit) if self.uses_total_sizes else size
                for size in self.sizes or DEFAULT_COLLECTIVE_SIZES_BYTES
            }
        )

    def _check_names(self) -> None:
        specs = {**collectives(), **applications()}
        for name in self.names:
            if name not in specs:
                raise UsageError(
                    f"there is no collective or application '{name}'", as_sentence(suggest_name(name, specs))
                )
        if not self.names:
            raise UsageError("there is no collective or application to simulate", as_sentence(suggest_name("", specs)))

    def _check_numbers(self) -> None:
        for size in self.sizes:
            if not 0 <= size <= MAX_MESSAGE_BYTES:
                raise UsageError(f"{size} B is not a size of 0 B to {MAX_MESSAGE_BYTES} B", "An MPI count is an int.")
        if self.repetitions is not None and not 1 <= self.repetitions <= MAX_REPETITIONS:
            raise UsageError(f"{self.repetitions} repetitions: from 1 to {MAX_REPETITIONS}")
        some_collective = any(name in collectives() for name in self.names)
        if some_collective and min(self.nodes, default=2) * self.ranks_per_node < 2:
            raise UsageError(
                f"a collective needs at least two ranks, and there is one (on 1 node of {self.machine.name})",
                "Give it more: --ranks-per-node 2, or --nodes 2 where the machine has a network.",
            )
        if not (self.nodes and self.slowdowns):
            raise UsageError("nodes and memory slowdowns: at least one of each")

    def _check_by_simulator(self, name: str, nodes: int) -> None:
        """Raises UsageError if the simulator rejects the number of nodes or an application's decomposition. Sets up the
        cluster without caches and with 0 repetitions."""
        for size in self._sizes_of(name, nodes) if name in applications() else [0]:
            case = self._make_case(name, size, nodes)
            try:
                simulation.run(case.scenario, to_native(self.machine), ALL_CORES.to_native_place(),
                               list(case.parameters), repetitions=0, memory_effects=False)  # fmt: skip
            except ValueError as error:
                raise to_usage_error(error) from error


def swept_cases(operations: OperationRequest, sweeps: Iterable[Sweep]) -> list[SimulationCase]:
    """Returns the cases of every combination of the values of the sweeps. Raises UsageError if the machine cannot have
    a combination."""
    return [
        replace(case, machine=operations.machine, swept_values=setting)
        for setting in setting_combinations(sweeps)
        for case in replace(operations, machine=with_settings(operations.machine, setting)).cases()
    ]


_CaseKey = tuple[Any, ...]  # operation, nodes, ranks, bytes, slowdown, values of the sweeps
TIME_METRIC = "mean_time"  # paper S4 (papers/S4/README.md), section 4.4, averages over the runs


@dataclass
class PolicySavings:
    """The share of time that each policy saves relative to the base policy, for one operation at one size and memory
    slowdown."""

    operation: str
    nodes: int
    ranks: int
    size_bytes: int
    slowdown: float
    base_ns: float
    swept: dict[str, SweepValue] = field(default_factory=dict)  # swept key of the machine's file -> value
    by_policy: dict[str, float] = field(default_factory=dict)  # policy -> saved share of the base policy's time


def savings_of(rows: list[Row], sweeps: Iterable[Sweep] = ()) -> list[PolicySavings]:
    """Returns the savings for each operation, number of nodes, size, memory slowdown and swept value. Omits cases
    without a record of the base policy."""
    key_by_column = {sweep.column: sweep.key for sweep in sweeps}
    time_by_case_and_policy: dict[tuple[_CaseKey, str], float] = {}
    for row in rows:
        if row["metric"] == TIME_METRIC:
            names = ("operation", "nodes", "ranks", "size_bytes", "memory_slowdown", *key_by_column)
            case = tuple(row.get(name) for name in names)
            # records of a run on one node, which has no NIC, have no policy
            time_by_case_and_policy[case, row.get("policy", BASE_POLICY)] = row["value"]
    savings_by_case: dict[_CaseKey, PolicySavings] = {}
    for key in sorted(time_by_case_and_policy, key=lambda key: (key[0], policy_sort_key(key[1]))):
        case, policy = key
        base_ns = time_by_case_and_policy.get((case, BASE_POLICY))
        if base_ns is None:
            continue
        operation, nodes, ranks, size, slowdown, *values = case
        swept = dict(zip(key_by_column.values(), values, strict=True))
        savings = savings_by_case.setdefault(
            case, PolicySavings(operation, nodes, ranks, size, slowdown, base_ns, swept)
        )
        if policy != BASE_POLICY:
            savings.by_policy[policy] = 1 - time_by_case_and_policy[key] / base_ns if base_ns else 0.0
    return list(savings_by_case.values())
