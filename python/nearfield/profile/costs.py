"""Looks up the costs of MPI calls and copies on a machine in its profile: a cost is the value of a record, or
interpolated between two neighbouring records.

Times are interpolated between two sizes on a log-log scale. Beyond the largest size they grow proportionally to the
size. A cost is None if the profile has no stable records for it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nearfield.base.estimates import Estimate, interpolate_by_size
from nearfield.base.frames import pl
from nearfield.profile.curves import (
    Curve,
    Place,
    curve,
    is_network_distance,
    one_place_per_distance,
    restrict_to_one_machine,
    select_records,
)
from nearfield.profile.store import Profile

# Cache states of the send buffer, the most representative one first: programs usually write data just before they
# send it.
SEND_BUFFER_STATES = ("modified", "reused", "exclusive", "invalid")


@dataclass(frozen=True)
class CacheLevel:
    """A cache level as one rank has it: its name, and the bytes available to the rank."""

    name: str
    size_bytes: int


class Costs:
    """Times in ns between the ranks of one node, or between nodes."""

    def __init__(self, profile: Profile, *, network: bool = False) -> None:
        """Selects the most distant pair that the profile measured inside a node, or with `network` between nodes,
        because the slowest neighbour determines the time of an exchange."""
        self.profile = restrict_to_one_machine(profile)
        self.network = network
        places = [
            p
            for p in one_place_per_distance(self.profile.records, "pingpong")
            if is_network_distance(p.distance) == network
        ]
        self.place: Place | None = places[-1] if places else None
        self._curves: dict[tuple[Any, ...], Curve] = {}
        self._strides_by_method: dict[str, list[int]] = _measured_strides_by_method(self.profile.records)
        self.unanswered_scenarios: set[str] = set()  # scenarios that were queried but have no stable records

    def copy_for_messages(self) -> Costs:
        """Returns a copy with its own, empty set `unanswered_scenarios`, for the queries of some messages."""
        copied = copy.copy(self)
        copied.unanswered_scenarios = set()
        return copied

    @property
    def source(self) -> str:
        """Returns 'measured' or 'simulated'."""
        return "simulated" if self.profile.run.backend == "sim" else "measured"

    # ---- messages

    def message_time(self, size_bytes: int) -> Estimate | None:
        """Returns the time of one message in ns, from the first of SEND_BUFFER_STATES that has stable records."""
        answers = (
            self.interpolated_time(size_bytes, "pingpong", "half_round_trip", state=state)
            for state in SEND_BUFFER_STATES
        )
        return self._record_unanswered("pingpong", next(filter(None, answers), None))

    def send_time(self, size_bytes: int, state: str) -> Estimate | None:
        """Returns the time of MPI_Send in ns, with its buffer in the given state."""
        return self._record_unanswered(
            "pingpong", self.interpolated_time(size_bytes, "pingpong", "send", side="sender", state=state)
        )

    def traverse_time(self, size_bytes: int, state: str) -> Estimate | None:
        """Returns the time in ns in which the receiver reads its buffer: in state `invalid` right after the receive, in
        state `base-invalid` from memory."""
        time = self.interpolated_time(size_bytes, "pollution", "traverse", side="receiver", state=state)
        return self._record_unanswered("pollution", time)

    def half_round_trip_time(self, size_bytes: int, state: str) -> Estimate | None:
        """Returns the half round trip in ns with both buffers in the given state."""
        return self.interpolated_time(size_bytes, "pingpong", "half_round_trip", state=state)

    def strided_message_time(self, size_bytes: int, stride_doubles: int, method: str) -> Estimate | None:
        """Returns the time in ns of a message of doubles at a stride of `stride_doubles`, sent by `method`: as a
        datatype, packed by hand, or contiguous. Uses the nearest stride with stable records within a factor of two."""
        strides = sorted(
            self._strides_by_method.get(method, []), key=lambda one: (abs(math.log(one / stride_doubles)), -one)
        )
        for stride in (one for one in strides if stride_doubles <= 2 * one and one <= 2 * stride_doubles):
            time = self.interpolated_time(
                size_bytes, "stride", "half_round_trip", method=method, mode="standard", stride=stride
            )
            if time:
                return time
        return self._record_unanswered("stride", None)

    def whole_and_chunked_times(self, size_bytes: int) -> tuple[Estimate, Estimate, int] | None:
        """Returns the time in ns of a message sent as a whole, the time if sent in chunks of the best size, and that
        chunk size in bytes."""
        if cut := self._whole_and_chunked_times_of_cut(size_bytes):
            return cut
        whole = self.half_round_trip_time(size_bytes, "modified")
        points = self.times_by_size("pingpong", "half_round_trip", state="modified")
        pieces = {p: time * (size_bytes / p) for p, time in points.items() if (4 << 10) <= p < size_bytes}
        if not whole or not pieces:
            return None
        best = min(pieces, key=lambda one: pieces[one].value)
        return whole, pieces[best], best

    def remote_copy_time(self, size_bytes: int) -> Estimate | None:
        """Returns the time in ns in which a rank copies data that another core has just written."""
        return self.interpolated_time(size_bytes, "floor", "time", kind="copy-remote")

    def collective_times(self, operation: str, ranks: int) -> Curve:
        """Returns size -> time of a collective on `ranks` ranks."""
        return self.times_by_size("collective", "time", on_all_ranks=True, operation=operation, ranks=ranks)

    # ---- capacities and latencies of caches

    def cache_levels(self, ranks_on_node: int) -> list[CacheLevel]:
        """Returns the cache levels as each of `ranks_on_node` ranks has them: the capacity of a shared cache is divided
        among the ranks."""
        return [
            CacheLevel(f"L{cache.level}", cache.size_bytes // max(1, min(ranks_on_node, cache.shared_by)))
            for cache in self.profile.machine.data_caches
        ]

    def relative_latency_of_level(self, level: int, warm_level: int) -> float | None:
        """Returns the additional latency of a cache level as a share of memory's additional latency, both relative to
        level `warm_level` (levels count from 0): 0 for levels up to `warm_level`, 1 for memory. Returns None if the
        profile lacks calibrated latencies."""
        num_levels = len(self.profile.machine.data_caches)
        if level <= warm_level:
            return 0.0
        if level >= num_levels:
            return 1.0
        calibration = self.profile.run.calibration
        if not calibration or not calibration.level_latency_ns or len(calibration.level_latency_ns) < num_levels:
            return None
        near, latency = calibration.level_latency_ns[warm_level], calibration.level_latency_ns[level]
        far = calibration.memory_latency_ns - near
        return min(1.0, max(0.0, (latency - near) / far)) if far > 0 else None

    # ---- look-up in records

    def interpolated_time(self, size_bytes: int, scenario: str, metric: str, **fixed: Any) -> Estimate | None:
        """Returns the time at a size in ns, interpolated."""
        return time_at_size(self.times_by_size(scenario, metric, **fixed), size_bytes)

    def times_by_size(self, scenario: str, metric: str, *, on_all_ranks: bool = False, **fixed: Any) -> Curve:
        """Returns size -> time of the stable records at the selected pair; with `on_all_ranks`, of records on all
        ranks."""
        key = scenario, metric, on_all_ranks, *sorted(fixed.items())
        if key not in self._curves:
            place = None if on_all_ranks else self.place
            is_measured = place or on_all_ranks
            self._curves[key] = (
                curve(self.profile.records, scenario, metric, place=place, **fixed) if is_measured else {}
            )
        return self._curves[key]

    def chunked_message_times(self, size_bytes: int) -> tuple[int, Curve]:
        """Returns the message size in scenario `cut` that is nearest to `size_bytes`, and bytes of a chunk -> time of
        such a message, where 0 bytes stand for the unchunked message. Returns 0 and {} without records."""
        records = self.profile.records
        sizes = select_records(records, self.place, scenario="cut", metric="time")["size_bytes"].drop_nulls()
        nearest = min(sizes, key=lambda one: size_ratio(one, size_bytes), default=0)
        return nearest, curve(records, "cut", "time", place=self.place, x="piece_bytes", size_bytes=nearest)

    def _record_unanswered(self, scenario: str, answer: Estimate | None) -> Estimate | None:
        if answer is None:
            self.unanswered_scenarios.add(scenario)
        return answer

    def _whole_and_chunked_times_of_cut(self, size_bytes: int) -> tuple[Estimate, Estimate, int] | None:
        """Returns the same as whole_and_chunked_times, from records of scenario `cut`; None without records."""
        nearest, times = self.chunked_message_times(size_bytes)
        pieces = {piece: point.value for piece, point in times.items() if piece}
        if 0 not in times or not pieces:
            return None
        best = min(pieces, key=lambda one: pieces[one])
        factor = size_bytes / nearest
        return times[0] * factor, times[best] * factor, best


def _measured_strides_by_method(records: pl.DataFrame) -> dict[str, list[int]]:
    """Returns method -> measured strides."""
    if "stride" not in records.columns:
        return {}
    rows = records.filter(records["scenario"] == "stride").select("method", "stride").drop_nulls().unique()
    strides_by_method: dict[str, list[int]] = {}
    for method, stride in rows.iter_rows():
        strides_by_method.setdefault(method, []).append(stride)
    return strides_by_method


def size_ratio(first: int, second: int) -> float:
    """Returns the ratio of the larger to the smaller size."""
    return max(first, second, 1) / max(min(first, second), 1)


def time_at_size(points: Mapping[int, Estimate], size_bytes: int) -> Estimate | None:
    """Returns the time at a size, interpolated or extrapolated. With fewer than two points, returns None, except at the
    size of the single point."""
    sizes = sorted(points)
    if len(sizes) < 2:
        return points[sizes[0]] if sizes and sizes[0] == size_bytes else None
    if size_bytes >= sizes[-1]:
        return points[sizes[-1]] * (size_bytes / sizes[-1])
    parts = ({size: getattr(points[size], name) for size in sizes} for name in ("value", "low", "high"))
    return Estimate(*(interpolate_by_size(part, size_bytes) for part in parts))
