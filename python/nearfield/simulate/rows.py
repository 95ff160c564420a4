"""Records of what was simulated: scenario `collective`, which has the parameters of a live one, or `application`; both
with those of a described machine: nodes, policy, memory_slowdown."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from nearfield import _native
from nearfield.profile.schema import MetricInfo, ParameterInfo, Scenario
from nearfield.simulate.case import Case, PolicyResult, Result, is_application, metrics

COLLECTIVE, APPLICATION = "collective", "application"
_PER_LEVEL = ("misses", "injected", "injected_unused", "victims_missed")

Row = dict[str, Any]


def rows_of(case: Case, result: Result) -> list[Row]:
    """Counts do not depend on how slow memory is, so their memory_slowdown is null."""
    rows = []
    for policy in result.policies:
        for factor, times_ns in policy.times_ns.items():
            frame = _frame(case, policy.policy) | {"memory_slowdown": slowdown_text(factor)}
            rows += _times(frame, times_ns)
            rows.append(frame | {"metric": "nic_polls", "unit": "count", "value": fmean(policy.polls[factor])})
        rows += _counts(_frame(case, policy.policy), case, policy, result)
    return rows


def slowdown_text(factor: float) -> str:
    return f"{factor:g}"


def _frame(case: Case, policy: str) -> Row:
    return {
        "scenario": APPLICATION if is_application(case.operation) else COLLECTIVE,
        "source": "sim",
        "n": case.repetitions,
        "stable": True,
        "operation": case.operation,
        "size_bytes": case.size_bytes,
        "ranks": case.ranks,
        "nodes": case.nodes,
        "policy": policy,
    }


def _times(frame: Row, times_ns: list[float]) -> Iterable[Row]:
    middle = _native.median_estimate(times_ns)
    yield frame | {"metric": "time", "unit": "ns", "value": middle.value, "low": middle.low, "high": middle.high}
    yield frame | {"metric": "mean_time", "unit": "ns", "value": fmean(times_ns)}
    yield frame | {"metric": "first_time", "unit": "ns", "value": times_ns[0]}


def _counts(frame: Row, case: Case, policy: PolicyResult, result: Result) -> Iterable[Row]:
    counted = {name: [counts[name] for counts in policy.counts] for name in policy.counts[0]}
    counted |= {"network_messages": result.network_messages, "network_bytes": result.network_bytes}
    for name, numbers in counted.items():
        level, _, rest = name.partition("_")
        known = metrics().get(name) or metrics().get(f"lN_{rest}")
        wanted = name in metrics() or (rest in _PER_LEVEL and (rest == "misses" or level != "l1"))
        if wanted and known:
            yield frame | {"metric": name, "unit": known[0], "value": fmean(numbers)}


def described(scenario: str, levels: int) -> Scenario:
    """For run.toml."""
    named = {}
    for name, told in metrics().items():
        first = 1 if name == "lN_misses" else 2
        names = [name.replace("lN", f"l{n}") for n in range(first, levels + 1)] if name[:2] == "lN" else [name]
        named |= {one: (told[0], told[1].replace("level N", f"level {one[1:2]}")) for one in names}
    return Scenario(
        name=scenario,
        summary=f"{scenario}s over all ranks of a simulated cluster",
        parameters=[ParameterInfo(name=name, summary=text) for name, text in _parameters(scenario).items()],
        metrics=[MetricInfo(name=name, unit=unit, summary=text) for name, (unit, text) in named.items()],
    )


def _parameters(scenario: str) -> dict[str, str]:
    size = (
        "bcast, reduce, allreduce: of the message; others: what one rank contributes (to each other rank)"
        if scenario == COLLECTIVE
        else "of one rank's part of the problem"
    )
    return {
        "operation": f"which {scenario}",
        "size_bytes": size,
        "ranks": "how many take part",
        "nodes": "on how many nodes",
        "policy": "where the NIC puts incoming bytes",
        "memory_slowdown": "how many times as slow memory is as the machine describes",
    }
