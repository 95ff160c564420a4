"""Derives message costs from the stable records of a profile. Missing costs are defaults, and notes list them.

The latency of a message is half a round trip of the smallest size. The costs of bytes and strides are those at 256 KiB,
since faces have about that size. Inside a node, the most distant pair of cores is used, since the slowest neighbour
determines the time of an exchange.
"""

from __future__ import annotations

from typing import Any

from nearfield._native import Costs, Link, default_costs
from nearfield.base.frames import pl
from nearfield.base.topology import CORE_DISTANCES
from nearfield.profile.costs import SEND_BUFFER_STATES, size_ratio
from nearfield.profile.curves import curve
from nearfield.profile.records import select_reliable_records

FACE_BYTES = 256 << 10
DOUBLE_BYTES = 8
_MAX_SMALL_MESSAGE_BYTES = 64
_MIN_LARGE_MESSAGE_BYTES = 64 << 10
_MIN_LOAD_FACTOR = 1.1  # a smaller slowdown by load is ignored

TimeByKey = dict[int, float]  # size in bytes, or stride -> time in ns


def costs_from_records(records: pl.DataFrame, line_bytes: int) -> tuple[Costs, list[str]]:
    """Returns the costs, and notes on costs that do not come from these records. `line_bytes`: size of a cache line."""
    costs = default_costs()
    notes: list[str] = []
    # Several pairs of cores may have the same distance. The fastest pair counts: of several records with the same size,
    # `curve` uses the last.
    stable_records = select_reliable_records(records).sort("value", descending=True)
    measured = sorted(
        stable_records["distance"].drop_nulls().unique(), key=lambda d: (len(d), d)
    )  # network-10 after network-9
    linked = [d for d in measured if d.startswith("routers")]
    near = [d for d in (*CORE_DISTANCES, *linked) if _message_time_by_size(stable_records, d)]
    far = [d for d in measured if d.startswith("network") and _message_time_by_size(stable_records, d)]
    if near:
        costs.same_node = _derive_link(stable_records, near[-1], costs.same_node, notes)
        costs.same_node = _with_load_factor(stable_records, costs.same_node)
        costs.in_place = _derive_in_place_link(stable_records, near[-1], costs.in_place or Link(), line_bytes, notes)
        costs.copy_ns_per_byte = _derive_copy_cost(stable_records, near[-1], costs.copy_ns_per_byte, notes)
    else:
        notes.append("It has no stable messages inside a node: those are nearfield's default.")
    if far:
        costs.network = _derive_link(stable_records, far[-1], costs.network, notes)
    else:
        notes.append("It has no messages between nodes: those are nearfield's default, a guess at a 100 Gb/s network.")
    return costs, notes


def _derive_link(stable_records: pl.DataFrame, distance: str, default: Link, notes: list[str]) -> Link:
    times = _message_time_by_size(stable_records, distance)
    size = _nearest_size(times, FACE_BYTES)
    link = Link()
    link.latency_ns = times[min(times)]
    bytes_ns = times[size] - link.latency_ns
    link.ns_per_byte = (bytes_ns if bytes_ns > 0 else times[size]) / size  # a time per byte must not be 0
    strided = _added_ns_per_byte_by_stride(stable_records, distance)
    if not strided:
        strided = {stride: rate - default.ns_per_byte for stride, rate in default.strided.items()}
        notes.append(f"It has no stable strides at distance {distance}: their added time is nearfield's default.")
    link.strided = {
        stride: link.ns_per_byte + max(0.0, more) for stride, more in {DOUBLE_BYTES: 0.0, **strided}.items()
    }
    return link


def _message_time_by_size(stable_records: pl.DataFrame, distance: str) -> TimeByKey:
    """Returns size -> half a round trip in ns, for the first of SEND_BUFFER_STATES with records of both small and large
    messages; {} if there is none."""
    for state in SEND_BUFFER_STATES:
        times = _fastest_times(stable_records, "pingpong", "half_round_trip", distance=distance, state=state)
        if times and min(times) <= _MAX_SMALL_MESSAGE_BYTES and max(times) >= _MIN_LARGE_MESSAGE_BYTES:
            return times
    return {}


def _added_ns_per_byte_by_stride(stable_records: pl.DataFrame, distance: str) -> TimeByKey:
    """Returns stride in bytes -> additional ns per byte relative to contiguous data, by the faster packing method."""
    fixed: dict[str, Any] = {"distance": distance, "mode": "standard"}
    plain = _fastest_times(stable_records, "stride", "half_round_trip", **fixed, method="contiguous")
    if not plain:
        return {}
    size = _nearest_size(plain, FACE_BYTES)
    fixed |= {"size_bytes": size, "method": ["datatype", "manual-pack"]}
    times = _fastest_times(stable_records, "stride", "half_round_trip", "stride", **fixed)
    return {s * DOUBLE_BYTES: (time - plain[size]) / size for s, time in times.items() if s > 1}


def _derive_in_place_link(
    stable_records: pl.DataFrame, distance: str, default: Link, line_bytes: int, notes: list[str]
) -> Link:
    """Returns the costs of reading in place: two core-to-core latencies per exchange, and a whole cache line for an
    isolated double."""
    flags = _fastest_times(stable_records, "floor", "time", distance=distance, kind="flag")
    reads = _fastest_times(stable_records, "floor", "time", distance=distance, kind=["read-remote", "copy-remote"])
    link = Link(default)
    if flags:
        link.latency_ns = 2 * min(flags.values())
    if reads:
        size = _nearest_size(reads, FACE_BYTES)
        link.ns_per_byte = reads[size] / size
        link.strided = {
            DOUBLE_BYTES: link.ns_per_byte,
            line_bytes: link.ns_per_byte * line_bytes / DOUBLE_BYTES,
        }
    missing = [
        what for what, found in (("flag", flags), ("reading of data that another core wrote", reads)) if not found
    ]
    if missing:
        notes.append(f"It has no stable {' and no stable '.join(missing)}: nearfield's default.")
    return link


def _derive_copy_cost(stable_records: pl.DataFrame, distance: str, default: float, notes: list[str]) -> float:
    copies = _fastest_times(stable_records, "floor", "time", distance=distance, kind="copy-remote")
    if not copies:
        notes.append("It has no stable time of copying data that another core wrote: nearfield's default.")
        return default
    size = _nearest_size(copies, FACE_BYTES)
    return copies[size] / size


def _with_load_factor(stable_records: pl.DataFrame, link: Link) -> Link:
    """Returns the link with the slowdown that the largest background all-to-all causes: `load_factor` is that of the
    largest message that is slowed down, and `load_from_bytes` is the size of the smallest."""
    loads = _fastest_times(stable_records, "load", "half_round_trip", "load_bytes")
    if not loads:
        return link
    alone = _fastest_times(stable_records, "load", "half_round_trip", load_bytes=0)
    busy = _fastest_times(stable_records, "load", "half_round_trip", load_bytes=max(loads))
    slower = {size: busy[size] / alone[size] for size in sorted(alone.keys() & busy.keys())}
    slower = {size: factor for size, factor in slower.items() if factor > _MIN_LOAD_FACTOR}
    loaded = Link(link)
    if slower:
        loaded.load_factor, loaded.load_from_bytes = slower[max(slower)], min(slower)
    return loaded


def _fastest_times(
    stable_records: pl.DataFrame, scenario: str, metric: str, x: str = "size_bytes", **fixed: Any
) -> TimeByKey:
    """Returns x -> fastest time in ns, from the records of a scenario and a metric."""
    return {key: point.value for key, point in curve(stable_records, scenario, metric, x=x, **fixed).items()}


def _nearest_size(times: TimeByKey, size: int) -> int:
    return min(times, key=lambda one: size_ratio(one, size))
