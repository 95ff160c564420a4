"""Computes error bars of simulated collectives and applications, and which values of the machine's file cause them,
from simulations in which one uncertain value at a time is changed (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nearfield.machine.sweep import column_of, with_settings
from nearfield.machine.uncertainty import Range, Variation, range_of_factor, range_of_share
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import Case
from nearfield.measure.sim.operations import Operations, Savings, savings_of


@dataclass(frozen=True)
class Influence:
    """The effect of one variation: the factor on the time under the base policy, and the change, in percentage points,
    of the share that a policy saves. Both are the maximum over all cases."""

    variation: Variation
    time_factor: float
    saved_points: float


@dataclass(frozen=True)
class CaseSensitivity:
    """The savings of one case, with error bars of the time under the base policy and of the share that each policy
    saves."""

    savings: Savings
    base_ns: Range
    saved: dict[str, Range]  # by policy


@dataclass(frozen=True)
class Sensitivity:
    """The cases with their error bars, and the influence of each variation, the largest first."""

    cases: list[CaseSensitivity]
    influences: list[Influence]


def varied_cases(operations: Operations, variations: Iterable[Variation]) -> list[Case]:
    """Returns the cases on the machine as described, followed by the cases under each variation."""
    settings = [(), *(((one.key, one.other),) for one in variations)]
    return [
        replace(case, machine=operations.machine, swept=setting)
        for setting in settings
        for case in replace(operations, machine=with_settings(operations.machine, setting)).cases()
    ]


def sensitivity_of(rows: list[Row], variations: Sequence[Variation]) -> Sensitivity:
    """Computes the error bars of each case and the influence of each variation. Leaves out cases for which the record
    of a variation is missing, because the simulation was interrupted."""
    columns = {column_of(one.key): one.key for one in variations}
    rows_by_setting: dict[tuple[str, object] | None, list[Row]] = defaultdict(list)
    for row in rows:
        changed = [(key, row[column]) for column, key in columns.items() if row.get(column) is not None]
        rows_by_setting[changed[0] if changed else None].append(row)
    savings = {setting: {_case_key(one): one for one in savings_of(some)} for setting, some in rows_by_setting.items()}
    cases, influences = [], dict.fromkeys(variations, (1.0, 0.0))
    for case, one in savings.get(None, {}).items():
        varied = {setting: found[case] for setting, found in savings.items() if setting and case in found}
        if any((v.key, v.other) not in varied for v in variations):
            continue
        others = {v: varied[v.key, v.other] for v in variations}
        cases.append(_with_error_bars(one, others))
        for variation, other in others.items():
            factor, points = influences[variation]
            moved = [abs(other.by_policy[name] - saved) for name, saved in one.by_policy.items()]
            influences[variation] = (_farther_from_one(factor, other.base_ns / one.base_ns), max([points, *moved]))
    ranked = [Influence(v, factor, 100 * share) for v, (factor, share) in influences.items()]
    ranked.sort(key=lambda one: -max(abs(math.log(one.time_factor)), one.saved_points / 100))
    return Sensitivity(cases, ranked)


def _with_error_bars(one: Savings, others: Mapping[Variation, Savings]) -> CaseSensitivity:
    times = {variation: other.base_ns for variation, other in others.items()}
    shares = {
        name: range_of_share(share, {variation: other.by_policy[name] for variation, other in others.items()})
        for name, share in one.by_policy.items()
    }
    return CaseSensitivity(one, range_of_factor(one.base_ns, times), shares)


def _farther_from_one(factor: float, other: float) -> float:
    """Returns the factor that is farther from 1 on a logarithmic scale."""
    return max(factor, other, key=lambda one: abs(math.log(one)))


def _case_key(one: Savings) -> tuple[object, ...]:
    return one.operation, one.nodes, one.ranks, one.size_bytes, one.slowdown
