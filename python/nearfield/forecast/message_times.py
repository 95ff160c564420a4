"""The times of messages and collectives without waiting, from a rules file or a profile."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nearfield.base.estimates import interpolate_by_size
from nearfield.forecast.ranks import CallCategory, CallGroup

if TYPE_CHECKING:
    from nearfield.profile import Profile
    from nearfield.rules.schema import Rules

Curve = Mapping[int, float]  # bytes -> ns

# MPI function -> measured pattern whose time stands for it. Names are in lower case, without MPI_ and MPI_I.
_PATTERN_BY_FUNCTION = {
    "sendrecv": "exchange", "sendrecv_replace": "exchange", "bcast": "bcast", "reduce": "bcast", "scatter": "bcast",
    "scatterv": "bcast", "gather": "bcast", "gatherv": "bcast", "allgather": "allgather", "allgatherv": "allgather",
    "alltoall": "alltoall", "alltoallv": "alltoall", "alltoallw": "alltoall",
}  # fmt: skip
_PATTERNS_TO_EACH_RANK = ("allgather", "alltoall")  # collectives in which each rank gets data from each other rank
_PATTERN_BY_CATEGORY = {
    CallCategory.POINT_TO_POINT: "pingpong", CallCategory.ONE_SIDED: "pingpong", CallCategory.COMPLETION: "pingpong",
    CallCategory.NEIGHBORS: "exchange", CallCategory.COLLECTIVE: "allreduce",
}  # fmt: skip
_SEND_BUFFER_STATES = ("modified", "reused")  # cache states of send buffers, which programs write before they send them


@dataclass(frozen=True)
class MeasuredMessageTimes:
    """Measured times of messages and collectives, by pattern (pingpong, exchange and collectives of two ranks): without
    rules (`baseline_curves`), and with rules if there are any (`tuned_curves`)."""

    origin: str  # origin of the times, for messages to the user
    baseline_curves: Mapping[str, Curve]
    tuned_curves: Mapping[str, Curve] = field(default_factory=dict)
    has_rules: bool = False
    uses_shared_heap: bool = True  # whether the rules use the shared heap

    def transfer_s(self, calls: CallGroup, ranks: int) -> float | None:
        """Returns the transfer time in s of the messages of a group of calls, at most the time of the calls, the rest
        of which is waiting. Returns None if no similar pattern was measured."""
        ns_per_message = self._ns_per_message(self.baseline_curves, calls, ranks)
        if ns_per_message is None:
            return 0.0 if calls.category in (CallCategory.OTHER, CallCategory.FILE) else None
        return min(calls.duration_s, calls.num_messages * ns_per_message / 1e9)

    def saved_s(self, calls: CallGroup, ranks: int) -> float:
        """Returns the transfer time in s that the rules save in a group of calls."""
        transfer = self.transfer_s(calls, ranks)
        before, after = (
            self._ns_per_message(curves, calls, ranks) for curves in (self.baseline_curves, self.tuned_curves)
        )
        if not transfer or not before or after is None:
            return 0.0
        return transfer * max(0.0, 1 - after / before)

    def _ns_per_message(self, curves: Mapping[str, Curve], calls: CallGroup, ranks: int) -> float | None:
        """Returns the time in ns of one message, or of one collective, which grows with the number of ranks as in its
        usual algorithm; None if no similar pattern was measured."""
        pattern = pattern_of(calls)
        curve = curves.get(pattern) or curves.get("pingpong")
        if not pattern or not curve:
            return None
        time = interpolate_by_size(curve, calls.mean_bytes)
        if calls.category is not CallCategory.COLLECTIVE or pattern not in curves:
            return time
        return time * (max(1, ranks - 1) if pattern in _PATTERNS_TO_EACH_RANK else max(1.0, math.log2(max(2, ranks))))


def pattern_of(calls: CallGroup) -> str:
    """Returns the measured pattern that is most similar to a group of calls; '' for calls without messages."""
    name = re.sub(r"^mpi_i?|(_init)?(_c)?$", "", calls.name.lower())
    if calls.category is CallCategory.POINT_TO_POINT and not name.startswith("sendrecv"):
        return "pingpong"
    return _PATTERN_BY_FUNCTION.get(name) or _PATTERN_BY_CATEGORY.get(calls.category, "")


def message_times_of_rules(rules: Rules, source: str) -> MeasuredMessageTimes | None:
    """Returns the message times in a rules file, for the slowest distance between ranks; None if it has none."""
    baseline_curves: dict[str, dict[int, float]] = {}
    tuned_curves: dict[str, dict[int, float]] = {}
    for rule in rules.rule:
        for point in rule.point:
            baseline_by_size = baseline_curves.setdefault(point.pattern, {})
            if point.baseline_ns <= baseline_by_size.get(point.size_bytes, 0.0):
                continue
            baseline_by_size[point.size_bytes] = point.baseline_ns
            tuned_ns = point.tuned_ns if rule.parameters else point.baseline_ns
            tuned_curves.setdefault(point.pattern, {})[point.size_bytes] = tuned_ns
    if "pingpong" not in baseline_curves:
        return None
    uses_shared_heap = any(rules.find_knob_file().uses_heap(rule.parameters) for rule in rules.rule)
    return MeasuredMessageTimes(
        source, baseline_curves, tuned_curves, has_rules=True, uses_shared_heap=uses_shared_heap
    )


def message_times_of_profile(profile: Profile, source: str) -> MeasuredMessageTimes | None:
    """Returns the message times in a profile, for the slowest distance inside a node; None if the profile has no stable
    ones."""
    from nearfield.profile.curves import select_records  # data frames are slow to import
    from nearfield.profile.records import select_reliable_records

    records = select_reliable_records(profile.records)
    baseline_curves: dict[str, dict[int, float]] = {}
    conditions = {"scenario": ["pingpong", "collective"], "metric": ["half_round_trip", "time"]}
    for row in select_records(records, None, **conditions).iter_rows(named=True):
        distance, size, value = row.get("distance") or "", row.get("size_bytes"), row.get("value")
        if distance.startswith("network") or not size or not value:
            continue
        if row["scenario"] == "pingpong" and row.get("state") in _SEND_BUFFER_STATES:
            pattern = "pingpong"
        elif row["scenario"] == "collective" and row.get("ranks") in (2, "2"):
            pattern = str(row.get("operation"))
        else:
            continue
        time_by_size = baseline_curves.setdefault(pattern, {})
        time_by_size[size] = max(value, time_by_size.get(size, 0.0))
    return MeasuredMessageTimes(source, baseline_curves) if baseline_curves.get("pingpong") else None
