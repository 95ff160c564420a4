"""Records of what was simulated: scenario `collective` with the parameters of a live one, and those of a described
machine: nodes, policy, memory_slowdown."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from nearfield import _native
from nearfield.profile.schema import MetricInfo, ParameterInfo, Scenario
from nearfield.simulate.case import Case, PolicyResult, Result, metrics

SCENARIO = "collective"
_PER_LEVEL = ("misses", "injected", "injected_unused", "victims_missed")

Row = dict[str, Any]


def rows_of(case: Case, result: Result) -> list[Row]:
    """Counts do not depend on how slow memory is, so their memory_slowdown is null."""
    rows = []
    for policy in result.policies:
        for factor, times_ns in policy.times_ns.items():
            rows += _times(_frame(case, policy.policy) | {"memory_slowdown": slowdown_text(factor)}, times_ns)
        rows += _counts(_frame(case, policy.policy), case, policy, result)
    return rows


def slowdown_text(factor: float) -> str:
    return f"{factor:g}"


def _frame(case: Case, policy: str) -> Row:
    return {
        "scenario": SCENARIO,
        "source": "sim",
        "n": case.repetitions,
        "stable": True,
        "operation": case.collective,
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


def described(levels: int) -> Scenario:
    """For run.toml."""
    named = {}
    for name, told in metrics().items():
        first = 1 if name == "lN_misses" else 2
        names = [name.replace("lN", f"l{n}") for n in range(first, levels + 1)] if name[:2] == "lN" else [name]
        named |= {one: (told[0], told[1].replace("level N", f"level {one[1:2]}")) for one in names}
    return Scenario(
        name=SCENARIO,
        summary="collectives over all ranks of a simulated cluster",
        parameters=[ParameterInfo(name=name, summary=text) for name, text in _PARAMETERS.items()],
        metrics=[MetricInfo(name=name, unit=unit, summary=text) for name, (unit, text) in named.items()],
    )


_PARAMETERS = {
    "operation": "which collective",
    "size_bytes": "bcast, reduce, allreduce: of the message; others: what one rank contributes (to each other rank)",
    "ranks": "how many take part",
    "nodes": "on how many nodes",
    "policy": "where the NIC puts incoming bytes",
    "memory_slowdown": "how many times as slow memory is as the machine describes",
}
