"""What every policy saves against the base, from records."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearfield.measure.row import Row
from nearfield.measure.sim.axes import policy_order
from nearfield.measure.sim.cases import BASE

_Key = tuple[str, int, int, int, float]  # operation, nodes, ranks, bytes, slowdown
METRIC = "mean_time"  # S4, section 4.4: the average of the runs


@dataclass
class Savings:
    """What the policies save in one collective or application at one size and memory speed."""

    operation: str
    nodes: int
    ranks: int
    size_bytes: int
    slowdown: float
    base_ns: float
    by_policy: dict[str, float] = field(default_factory=dict)  # share of the base's time that is saved


def savings_of(rows: list[Row]) -> list[Savings]:
    """Returns the savings of each collective, number of nodes, size and memory speed. Cases without the base are left
    out."""
    times: dict[tuple[_Key, str], float] = {}
    for row in rows:
        if row["metric"] == METRIC:
            case = (row["operation"], row["nodes"], row["ranks"], row["size_bytes"], float(row["memory_slowdown"]))
            times[case, row["policy"]] = row["value"]
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
