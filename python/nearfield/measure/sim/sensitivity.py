"""Computes error bars of simulated collectives and applications, and the values of the machine's file that cause them,
from simulations in each of which one uncertain value is changed (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nearfield.machine.sweep import swept_column_of, with_settings
from nearfield.machine.uncertainty import ErrorBar, Variation, error_bar_of_factor, error_bar_of_share
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import SimulationCase
from nearfield.measure.sim.operations import OperationRequest, PolicySavings, savings_of


@dataclass(frozen=True)
class VariationInfluence:
    """The effect of one variation: the factor on the time under the base policy, and the change, in percentage points,
    of the share that a policy saves. Both are the maximum over all cases."""

    variation: Variation
    time_factor: float
    saved_points: float


@dataclass(frozen=True)
class CaseSensitivity:
    """The savings of one case, with error bars of the time under the base policy and of the share that each policy
    saves."""

    savings: PolicySavings
    base_ns: ErrorBar
    saved: dict[str, ErrorBar]  # by policy


@dataclass(frozen=True)
class OperationSensitivity:
    """The cases with their error bars, and the influence of each variation, the largest first."""

    cases: list[CaseSensitivity]
    influences: list[VariationInfluence]


def cases_of_variations(operations: OperationRequest, variations: Iterable[Variation]) -> list[SimulationCase]:
    """Returns the cases on the machine as described, followed by the cases under each variation."""
    settings = [(), *(((one.key, one.other),) for one in variations)]
    return [
        replace(case, machine=operations.machine, swept_values=setting)
        for setting in settings
        for case in replace(operations, machine=with_settings(operations.machine, setting)).cases()
    ]


def sensitivity_of(rows: list[Row], variations: Sequence[Variation]) -> OperationSensitivity:
    """Computes the error bars of each case and the influence of each variation. Leaves out cases for which the record
    of a variation is missing, because the simulation was interrupted."""
    columns = {swept_column_of(one.key): one.key for one in variations}
    rows_by_setting: dict[tuple[str, object] | None, list[Row]] = defaultdict(list)
    for row in rows:
        changed = [(key, row[column]) for column, key in columns.items() if row.get(column) is not None]
        rows_by_setting[changed[0] if changed else None].append(row)
    savings = {setting: {_case_key(one): one for one in savings_of(some)} for setting, some in rows_by_setting.items()}
    cases, influences = [], dict.fromkeys(variations, (1.0, 0.0))
    for case, one in savings.get(None, {}).items():
        savings_by_setting = {
            setting: savings_by_case[case]
            for setting, savings_by_case in savings.items()
            if setting and case in savings_by_case
        }
        if any((v.key, v.other) not in savings_by_setting for v in variations):
            continue
        savings_by_variation = {v: savings_by_setting[v.key, v.other] for v in variations}
        cases.append(_add_error_bars(one, savings_by_variation))
        for variation, other in savings_by_variation.items():
            factor, points = influences[variation]
            moved = [abs(other.by_policy[name] - saved) for name, saved in one.by_policy.items()]
            influences[variation] = (_farther_from_one(factor, other.base_ns / one.base_ns), max([points, *moved]))
    ranked = [VariationInfluence(v, factor, 100 * share) for v, (factor, share) in influences.items()]
    ranked.sort(key=lambda one: -max(abs(math.log(one.time_factor)), one.saved_points / 100))
    return OperationSensitivity(cases, ranked)


def _add_error_bars(savings: PolicySavings, savings_by_variation: Mapping[Variation, PolicySavings]) -> CaseSensitivity:
    times = {variation: other.base_ns for variation, other in savings_by_variation.items()}
    shares = {
        name: error_bar_of_share(
            share, {variation: other.by_policy[name] for variation, other in savings_by_variation.items()}
        )
        for name, share in savings.by_policy.items()
    }
    return CaseSensitivity(savings, error_bar_of_factor(savings.base_ns, times), shares)


def _farther_from_one(first_factor: float, second_factor: float) -> float:
    """Returns the factor that is farther from 1 on a logarithmic scale."""
    return max(first_factor, second_factor, key=lambda one: abs(math.log(one)))


def _case_key(savings: PolicySavings) -> tuple[object, ...]:
    return savings.operation, savings.nodes, savings.ranks, savings.size_bytes, savings.slowdown
