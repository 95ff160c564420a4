"""Derives curves from records, for findings, guidelines and plots: the floor (lower bound of a message's time), the
ratio of the floor to the measured time, the gain by buffer state, and the fraction of a buffer that is cached after a
call. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile, parameter_names
from nearfield.profile.compare import declared_metrics
from nearfield.profile.curves import (
    Curve,
    Place,
    Point,
    common_x_values,
    curve,
    distinct_values,
    ratios,
    select_records,
)
from nearfield.profile.schema import ProtocolSwitch

BUFFER_STATES = ("invalid", "exclusive", "modified", "reused")
# A buffer counts as cached from MIN_CACHED_SHARE on, and as evicted up to MAX_EVICTED_SHARE. The cached share is 0 if
# reads are as slow as from memory, and 1 if they are as fast as from the cache.
MIN_CACHED_SHARE, MAX_EVICTED_SHARE = 0.75, 0.5
BASE_POLICY = "memory"  # placement policy of a simulated NIC that writes incoming data to memory only
MIN_POSSIBLE_SHARE = 0.9  # times below this fraction of the floor are impossible and not noise
# Minimum ratio of the read times from memory and from cache by which the two can be distinguished.
MIN_DISTINGUISHABLE_RATIO = 1.3


def half_round_trip(records: pl.DataFrame, place: Place, state: str = "reused", only_reliable: bool = True) -> Curve:
    """Returns size -> half of a ping-pong's round trip, with buffers in this cache state. With `only_reliable`, leaves
    out points on which no finding may be based, such as unstable ones."""
    return curve(
        records, "pingpong", "half_round_trip", place=place, state=state, only_reliable=only_reliable
    )  # fmt: skip


def core_to_core_latency(records: pl.DataFrame, place: Place, only_reliable: bool = True) -> Point | None:
    """Returns the core-to-core latency, which is the time until another core sees a store; None if it was not
    measured."""
    curve_by_kind = curve(records, "floor", "time", place=place, x="kind", kind="flag", only_reliable=only_reliable)
    return curve_by_kind.get("flag")


def fastest_copies(records: pl.DataFrame, place: Place, *kinds: str, only_reliable: bool = True) -> Curve:
    """Returns size -> time of the fastest copy among these kinds (values of the parameter `kind` of scenario floor)."""
    best: Curve = {}
    for kind in kinds:
        for size, point in curve(records, "floor", "time", place=place, kind=kind, only_reliable=only_reliable).items():
            if size not in best or point.value < best[size].value:
                best[size] = point
    return dict(sorted(best.items()))


def message_floor(records: pl.DataFrame, place: Place, only_reliable: bool = True) -> Curve:
    """Returns size -> floor, the lower bound of a message's time between these cores: the core-to-core latency plus one
    copy of data that the other core wrote. Returns {} if the latency was not measured."""
    signal = core_to_core_latency(records, place, only_reliable)
    if signal is None:
        return {}
    return {
        size: _sum_of_times(signal, copy)
        for size, copy in fastest_copies(
            records, place, "copy-remote", "copy-remote-nt", only_reliable=only_reliable
        ).items()
    }


def explain_invalid_floor(records: pl.DataFrame, place: Place) -> str:
    """Returns a sentence that explains why the floor (lower bound) for these cores is invalid; '' if it may be valid.
    No message can be faster than the core-to-core latency, and no message from just-written buffers can be faster than
    this latency plus one copy. If a measured message is faster, the hypervisor moved the vCPUs between the two
    measurements, or other programs disturbed one of them."""
    signal = core_to_core_latency(records, place, only_reliable=False)
    floor = message_floor(records, place, only_reliable=False)
    for state in BUFFER_STATES if signal else ():
        for size, time in half_round_trip(records, place, state, only_reliable=False).items():
            lower_bound = floor.get(size, signal) if state == "modified" else signal
            if lower_bound and time.value < MIN_POSSIBLE_SHARE * lower_bound.value:
                return (
                    f"There is no floor {place.phrase}: a message of {format_bytes(size)} took "
                    f"{format_ns(time.value)}, and what no message can do without "
                    f"{format_ns(lower_bound.value)}. So the cores were farther apart, or disturbed, while the latter "
                    "was measured."
                )
    return ""


def floor_shares(records: pl.DataFrame, place: Place) -> dict[int, Estimate]:
    """Returns size -> floor divided by half round trip. A value of 1 means that this MPI is as fast as the caches
    allow."""
    return ratios(message_floor(records, place), half_round_trip(records, place))


def state_gains(records: pl.DataFrame, place: Place, metric: str, side: str | None, state: str) -> dict[int, Estimate]:
    """Returns size -> fraction of the time of `metric` that buffers in cache state `state` save, compared with buffers
    in memory (state "invalid")."""
    by_state = {
        name: curve(records, "pingpong", metric, place=place, side=side, state=name) for name in ("invalid", state)
    }
    shares = ratios(by_state[state], by_state["invalid"])
    return {size: Estimate(1 - r.value, 1 - r.high, 1 - r.low) for size, r in shares.items()}


def cached_shares_after_call(records: pl.DataFrame, place: Place, side: str) -> dict[int, float]:
    """Returns size -> cached share of a previously uncached buffer right after the MPI call. The share is interpolated
    from the buffer's read time: 0 if reading is as slow as from memory, 1 if it is as fast as from the cache. Omits
    sizes at which these two reference times do not differ enough. The reference for cached buffers may include records
    whose buffer state was refuted."""
    after, memory = (
        curve(records, "pollution", "traverse", place=place, side=side, state=state)
        for state in ("invalid", "base-invalid")
    )
    cached = _preloaded_read_times(records, place, side, "base-preloaded")
    result = {}
    for size in common_x_values(after, memory, cached):
        slow, fast = memory[size].value, cached[size].value
        if slow >= MIN_DISTINGUISHABLE_RATIO * fast:
            result[size] = (slow - after[size].value) / (slow - fast)
    return result


def read_slowdown_after_call(records: pl.DataFrame, place: Place, side: str) -> dict[int, Estimate]:
    """Returns size -> read time of a previously cached buffer after the MPI call, divided by its read time without a
    call."""
    return ratios(
        _preloaded_read_times(records, place, side, "preloaded"),
        _preloaded_read_times(records, place, side, "base-preloaded"),
    )


@dataclass(frozen=True)
class CachedReach:
    """The largest buffer size that is still cached after an MPI call, and the smallest size that is not; None if there
    is none."""

    max_cached_bytes: int | None
    min_uncached_bytes: int | None


def reach_of_cached_sizes(cached_share_by_size: dict[int, float]) -> CachedReach:
    """Returns the largest cached and the smallest uncached size, from the cached share by size. Sizes with a share
    between MAX_EVICTED_SHARE and MIN_CACHED_SHARE count as neither."""
    min_uncached_bytes = next(
        (size for size, share in cached_share_by_size.items() if share <= MAX_EVICTED_SHARE), None
    )
    cached_sizes = [
        size
        for size, share in cached_share_by_size.items()
        if share >= MIN_CACHED_SHARE and (min_uncached_bytes is None or size < min_uncached_bytes)
    ]
    return CachedReach(cached_sizes[-1] if cached_sizes else None, min_uncached_bytes)


def mean_times_by_policy(
    records: pl.DataFrame, scenario: str, x_parameter: str, metric: str = "mean_time", **fixed_parameters: Any
) -> dict[str, Curve]:
    """Returns placement policy of a simulated NIC -> curve of the mean time over parameter `x_parameter`."""
    rows = select_records(records, scenario=scenario, metric=metric, source="sim", **fixed_parameters)
    return {
        policy: curve(rows, scenario, metric, x=x_parameter, policy=policy)
        for policy in distinct_values(rows, "policy")
    }


def policy_savings(times_by_policy: dict[str, Curve]) -> dict[str, Curve]:
    """Returns placement policy -> x -> fraction of the time saved, compared with BASE_POLICY. `times_by_policy` is a
    result of mean_times_by_policy()."""
    return savings_against(BASE_POLICY, times_by_policy)


def savings_against(base_name: str, curve_by_name: dict[str, Curve]) -> dict[str, Curve]:
    """Returns name -> x -> fraction of the time saved, compared with the curve named `base_name`, for all other
    names."""
    base = curve_by_name.get(base_name, {})
    return {
        name: {x: _saved_share(points[x], base[x]) for x in common_x_values(points, base)}
        for name, points in curve_by_name.items()
        if name != base_name
    }


def savings_by_case(profile: Profile, scenario: str, axis: str) -> Iterator[tuple[dict[str, Any], dict[str, Curve]]]:
    """Yields (case, value -> size -> fraction) for every case of a two-rank scenario. The fraction is the time that
    this value of the parameter `axis` saves, compared with the first value. A case consists of metric, side, pair of
    cores and the other parameters except the size."""
    is_time = (pl.col("scenario") == scenario) & (pl.col("unit") == "ns")
    rows = profile.records.filter(is_time & pl.col(axis).is_not_null())
    declared = [metric for name, metric in declared_metrics(profile.run) if name == scenario]
    rows = rows.filter(pl.col("metric").is_in(declared))
    names = rows[axis].unique(maintain_order=True).to_list()
    keys = ["metric", "side", "distance", "pair", *(n for n in parameter_names(rows) if n not in ("size_bytes", axis))]
    for values in rows.select(keys).unique(maintain_order=True).iter_rows():
        case = dict(zip(keys, values, strict=True))
        case_rows = rows.filter(*(pl.col(name).eq_missing(value) for name, value in case.items()))
        times = {
            name: curve(case_rows, scenario, case["metric"], only_reliable=False, **{axis: name}) for name in names
        }
        yield case, {name: points for name, points in savings_against(names[0], times).items() if points}


def switch_size_bytes(switches: list[ProtocolSwitch], switch_kind: str, place: Place) -> int | None:
    """Returns the largest message size before this kind of protocol switch between these cores, in bytes; None if no
    switch was found."""
    bytes_at_distance = [s.bytes for s in switches if s.kind == switch_kind and s.distance == place.distance]
    bytes_at_pair = [s.bytes for s in switches if s.kind == switch_kind and s.pair == place.pair]
    return next(iter(bytes_at_pair or bytes_at_distance), None)


def has_values(records: pl.DataFrame, scenario: str) -> bool:
    """Returns whether at least one record of the scenario has a value."""
    rows = select_records(records, scenario=scenario)
    return rows.height > 0 and rows["value"].null_count() < rows.height


def _saved_share(point: Point, base: Point) -> Point:
    share = 1 - point.value / base.value if base.value else 0.0
    return Point(share, share, share, point.n, point.is_stable, unit="share")


def _preloaded_read_times(records: pl.DataFrame, place: Place, side: str, state: str) -> Curve:
    points = curve(records, "pollution", "traverse", place=place, side=side, state=state, only_reliable=False)
    return {size: point for size, point in points.items() if point.is_stable}


def _sum_of_times(first: Point, second: Point) -> Point:
    """Returns the sum of two times. Its interval is the sum of both intervals, an upper bound."""
    return replace(
        second,
        value=first.value + second.value,
        low=first.low + second.low,
        high=first.high + second.high,
        n=min(first.n, second.n),
        is_stable=first.is_stable and second.is_stable,
        note=second.note or first.note,
    )
