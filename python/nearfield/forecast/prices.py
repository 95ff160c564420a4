"""The costs of messages and collectives without waiting, from a rules file or a profile."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nearfield.base.estimates import interpolate
from nearfield.forecast.ranks import Calls, Category

if TYPE_CHECKING:
    from nearfield.profile import Profile
    from nearfield.rules.schema import Rules

Curve = Mapping[int, float]  # bytes -> ns

# The measured pattern that a function is priced by; MPI's names in lower case, without the i of nonblocking ones.
_PATTERNS = {
    "sendrecv": "exchange", "sendrecv_replace": "exchange", "bcast": "bcast", "reduce": "bcast", "scatter": "bcast",
    "scatterv": "bcast", "gather": "bcast", "gatherv": "bcast", "allgather": "allgather", "allgatherv": "allgather",
    "alltoall": "alltoall", "alltoallv": "alltoall", "alltoallw": "alltoall",
}  # fmt: skip
_TO_EACH = ("allgather", "alltoall")  # each rank gets data from each other one
_OF_CATEGORY = {
    Category.POINT_TO_POINT: "pingpong", Category.ONE_SIDED: "pingpong", Category.COMPLETION: "pingpong",
    Category.NEIGHBOURS: "exchange", Category.COLLECTIVE: "allreduce",
}  # fmt: skip
_STATES = ("modified", "reused")  # of buffers: programs write their data before they send them


@dataclass(frozen=True)
class Prices:
    """Times of the baseline, and of the rules if there are any, by pattern: pingpong, exchange and two-rank
    collectives."""

    source: str  # in words
    baseline: Mapping[str, Curve]
    tuned: Mapping[str, Curve] = field(default_factory=dict)
    has_rules: bool = False
    shares_heap: bool = True  # False: the rules do not use the shared heap

    def transfer(self, calls: Calls, ranks: int) -> float | None:
        """Returns the transfer time in seconds of these calls' messages, at most the time of the calls; the rest is
        waiting. Returns None if nothing similar was measured."""
        each = self._each(self.baseline, calls, ranks)
        if each is None:
            return 0.0 if calls.category in (Category.OTHER, Category.FILE) else None
        return min(calls.seconds, calls.messages * each / 1e9)

    def saved_s(self, calls: Calls, ranks: int) -> float:
        """Returns the transfer time in seconds that the rules save."""
        transfer = self.transfer(calls, ranks)
        before, after = (self._each(curves, calls, ranks) for curves in (self.baseline, self.tuned))
        if not transfer or not before or after is None:
            return 0.0
        return transfer * max(0.0, 1 - after / before)

    def _each(self, curves: Mapping[str, Curve], calls: Calls, ranks: int) -> float | None:
        """Returns the ns of a message, or of a collective, which grows with the ranks as its usual algorithm does."""
        pattern = pattern_of(calls)
        curve = curves.get(pattern) or curves.get("pingpong")
        if not pattern or not curve:
            return None
        time = interpolate(curve, calls.mean_bytes)
        if calls.category is not Category.COLLECTIVE or pattern not in curves:
            return time
        return time * (max(1, ranks - 1) if pattern in _TO_EACH else max(1.0, math.log2(max(2, ranks))))


def pattern_of(calls: Calls) -> str:
    """Returns the measured pattern most similar to these calls; empty for calls without messages."""
    name = re.sub(r"^mpi_i?|(_init)?(_c)?$", "", calls.name.lower())
    if calls.category is Category.POINT_TO_POINT and not name.startswith("sendrecv"):
        return "pingpong"
    return _PATTERNS.get(name) or _OF_CATEGORY.get(calls.category, "")


def prices_of_rules(rules: Rules, source: str) -> Prices | None:
    """Returns the times in the rules, of the slowest distance; None if they have none."""
    baseline: dict[str, dict[int, float]] = {}
    tuned: dict[str, dict[int, float]] = {}
    for rule in rules.rule:
        for point in rule.point:
            known = baseline.setdefault(point.pattern, {})
            if point.baseline_ns <= known.get(point.size_bytes, 0.0):
                continue
            known[point.size_bytes] = point.baseline_ns
            after = point.tuned_ns if rule.parameters else point.baseline_ns
            tuned.setdefault(point.pattern, {})[point.size_bytes] = after
    if "pingpong" not in baseline:
        return None
    heap = any(rules.knobs().uses_heap(rule.parameters) for rule in rules.rule)
    return Prices(source, baseline, tuned, has_rules=True, shares_heap=heap)


def prices_of_profile(profile: Profile, source: str) -> Prices | None:
    """Returns the times in a profile, of the slowest distance inside a node; None if it has no stable messages."""
    from nearfield.profile.curves import pick  # data frames are slow to import
    from nearfield.profile.records import select_deciding

    records = select_deciding(profile.records)
    baseline: dict[str, dict[int, float]] = {}
    wanted = {"scenario": ["pingpong", "collective"], "metric": ["half_round_trip", "time"]}
    for row in pick(records, None, **wanted).iter_rows(named=True):
        distance, size, value = row.get("distance") or "", row.get("size_bytes"), row.get("value")
        if distance.startswith("network") or not size or not value:
            continue
        if row["scenario"] == "pingpong" and row.get("state") in _STATES:
            pattern = "pingpong"
        elif row["scenario"] == "collective" and row.get("ranks") in (2, "2"):
            pattern = str(row.get("operation"))
        else:
            continue
        known = baseline.setdefault(pattern, {})
        known[size] = max(value, known.get(size, 0.0))
    return Prices(source, baseline) if baseline.get("pingpong") else None
