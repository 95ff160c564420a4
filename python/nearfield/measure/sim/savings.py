"""Computes from records what every policy saves against the base."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from nearfield.measure.row import Row
from nearfield.measure.sim.axes import policy_order
from nearfield.measure.sim.cases import BASE

_Key = tuple[str, int, int, int, float]  # operation, nodes, ranks, bytes, slowdown
METRIC = "mean_time"  # S4, section 4.4: the average of the runs


@dataclass
class Savings:
    """The savings of the policies in one collective or application at one size and memory speed."""

    operation: str
    nodes: int
    ranks: int
    size_bytes: int
    slowdown: float
    base_ns: float
    by_policy: dict[str, float] = field(default_factory=dict)  # share of the base's time that is saved

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def savings_of(rows: list[Row]) -> list[Savings]:
    """Returns the savings of each collective, number of nodes, size and memory speed. Cases without the base are left
    out."""
    times = {(_case(row), row["policy"]): row["value"] for row in rows if row["metric"] == METRIC}
    found: dict[_Key, Savings] = {}
    for key in sorted(times, key=lambda key: (key[0], policy_order(key[1]))):
        case, policy = key
        base_ns = times.get((case, BASE))
        if base_ns is None:
            continue
        one = found.setdefault(case, Savings(*case, base_ns))
        if policy != BASE:
            one.by_policy[policy] = 1 - times[key] / base_ns if base_ns else 0.0
    return list(found.values())


def _case(row: Row) -> _Key:
    return (row["operation"], row["nodes"], row["ranks"], row["size_bytes"], float(row["memory_slowdown"]))
