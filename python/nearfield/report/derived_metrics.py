"""Derives curves from records for findings, guidelines and plots, in pure functions: the lower bound of a message's
time, the fraction of this bound that MPI reaches, the gain by buffer state, and the fraction of a buffer that is cached
after a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_ns
from nearfield.profile import Profile, parameters
from nearfield.profile.compare import declared_metrics
from nearfield.profile.curves import Curve, Place, Point, common_keys, curve, distinct_values, pick, ratios
from nearfield.profile.schema import Switch

STATES = ("invalid", "exclusive", "modified", "reused")
MIN_CACHED_SHARE, MAX_EVICTED_SHARE = (
    0.75,
    0.5,
)  # limits of a buffer's cached share: 0 reads as slowly as memory, 1 as fast as a cached buffer
BASE_POLICY = "memory"  # policy of a simulated NIC: deliver incoming bytes only to memory
IMPOSSIBLE_SHARE = 0.9  # fraction of the floor below which a time is impossible rather than noise
MIN_DISTINGUISHABLE_RATIO = 1.3  # min ratio of the read times from memory and from cache, to tell them apart


def half_round_trip(records: pl.DataFrame, place: Place, state: str = "reused", deciding: bool = True) -> Curve:
    """Returns size -> half of a ping-pong's round trip, with buffers in this cache state. If `deciding`, includes only
    points that findings may use."""
    return curve(
        records, "pingpong", "half_round_trip", place=place, state=state, deciding=deciding
    )  # fmt: skip


def core_to_core_latency(records: pl.DataFrame, place: Place, deciding: bool = True) -> Point | None:
    """Returns the core-to-core latency, the time until another core sees a store; None if it was not measured."""
    found = curve(records, "floor", "time", place=place, x="kind", kind="flag", deciding=deciding)
    return found.get("flag")


def fastest_copies(records: pl.DataFrame, place: Place, *kinds: str, deciding: bool = True) -> Curve:
    """Returns size -> time of the fastest of these kinds of copy."""
    best: Curve = {}
    for kind in kinds:
        for size, point in curve(records, "floor", "time", place=place, kind=kind, deciding=deciding).items():
            if size not in best or point.value < best[size].value:
                best[size] = point
    return dict(sorted(best.items()))


def message_floor(records: pl.DataFrame, place: Place, deciding: bool = True) -> Curve:
    """Returns size -> lower bound of a message's time between these cores: the core-to-core latency plus one copy of
    data that the other core wrote. Returns {} if the latency was not measured."""
    signal = core_to_core_latency(records, place, deciding)
    if signal is None:
        return {}
    return {
        size: _sum_of_times(signal, copy)
        for size, copy in fastest_copies(records, place, "copy-remote", "copy-remote-nt", deciding=deciding).items()
    }


def floor_failure(records: pl.DataFrame, place: Place) -> str:
    """Returns a sentence that explains why the lower bound (floor) for these cores is invalid; '' if it may be valid.
    No message is faster than the core-to-core latency, and no message from just-written buffers is faster than this
    latency plus one copy. If a measured message is, the hypervisor had moved the vCPUs between the two measurements, or
    other programs disturbed them."""
    signal = core_to_core_latency(records, place, deciding=False)
    floor = message_floor(records, place, deciding=False)
    for state in STATES if signal else ():
        for size, time in half_round_trip(records, place, state, deciding=False).items():
            least = floor.get(size, signal) if state == "modified" else signal
            if least and time.value < IMPOSSIBLE_SHARE * least.value:
                return (
                    f"There is no floor {place.words}: a message of {format_bytes(size)} took {format_ns(time.value)}, "
                    f"and what no message can do without {format_ns(least.value)}. So the cores were farther apart, or "
                    "disturbed, while the latter was measured."
                )
    return ""


def floor_shares(records: pl.DataFrame, place: Place) -> dict[int, Estimate]:
    """Returns size -> floor / half round trip. 1 means that this MPI is as fast as the caches allow."""
    return ratios(message_floor(records, place), half_round_trip(records, place))


def state_gains(records: pl.DataFrame, place: Place, metric: str, side: str | None, state: str) -> dict[int, Estimate]:
    """Returns size -> fraction of time that buffers in cache state `state` save against buffers in memory
    ("invalid")."""
    by_state = {
        name: curve(records, "pingpong", metric, place=place, side=side, state=name) for name in ("invalid", state)
    }
    shares = ratios(by_state[state], by_state["invalid"])
    return {size: Estimate(1 - r.value, 1 - r.high, 1 - r.low) for size, r in shares.items()}


def cached_after(records: pl.DataFrame, place: Place, side: str) -> dict[int, float]:
    """Returns size -> cached share of a previously uncached buffer right after the call, from its read time: 0 if read
    as slowly as from memory, 1 if as fast as from the cache. Omits sizes at which these two do not differ. As the
    reference for cached buffers, also uses records whose buffer state was refuted."""
    after, memory = (
        curve(records, "pollution", "traverse", place=place, side=side, state=state)
        for state in ("invalid", "base-invalid")
    )
    cached = _preloaded(records, place, side, "base-preloaded")
    result = {}
    for size in common_keys(after, memory, cached):
        slow, fast = memory[size].value, cached[size].value
        if slow >= MIN_DISTINGUISHABLE_RATIO * fast:
            result[size] = (slow - after[size].value) / (slow - fast)
    return result


def evicted_read_ratios(records: pl.DataFrame, place: Place, side: str) -> dict[int, Estimate]:
    """Returns size -> read time of a previously cached buffer after the call, divided by its read time without a
    call."""
    return ratios(_preloaded(records, place, side, "preloaded"), _preloaded(records, place, side, "base-preloaded"))


@dataclass(frozen=True)
class CachedReach:
    """The largest buffer size that is still cached after the call, and the smallest size that is not."""

    cached_to: int | None
    gone_from: int | None


def cached_reach(cached: dict[int, float]) -> CachedReach:
    """Returns the largest cached and the smallest uncached size. Sizes with a share between MAX_EVICTED_SHARE and
    MIN_CACHED_SHARE count as neither."""
    gone = next((size for size, share in cached.items() if share <= MAX_EVICTED_SHARE), None)
    cached_sizes = [
        size for size, share in cached.items() if share >= MIN_CACHED_SHARE and (gone is None or size < gone)
    ]
    return CachedReach(cached_sizes[-1] if cached_sizes else None, gone)


def mean_times(
    records: pl.DataFrame, scenario: str, x: str, metric: str = "mean_time", **fixed: Any
) -> dict[str, Curve]:
    """Returns policy of a simulated NIC -> value of parameter `x` -> mean time."""
    rows = pick(records, scenario=scenario, metric=metric, source="sim", **fixed)
    return {policy: curve(rows, scenario, metric, x=x, policy=policy) for policy in distinct_values(rows, "policy")}


def policy_savings(times: dict[str, Curve]) -> dict[str, Curve]:
    """Returns policy -> x -> fraction of the time saved against BASE_POLICY. `times` is a result of `mean_times`."""
    return savings_against(BASE_POLICY, times)


def savings_against(first: str, times: dict[str, Curve]) -> dict[str, Curve]:
    """Returns name -> x -> fraction of the time saved against the curve named `first`, for all other names."""
    base = times.get(first, {})
    return {
        name: {x: _saved(points[x], base[x]) for x in common_keys(points, base)}
        for name, points in times.items()
        if name != first
    }


def savings_by_case(profile: Profile, scenario: str, axis: str) -> Iterator[tuple[dict[str, Any], dict[str, Curve]]]:
    """Yields, for every case of a two-rank scenario, the fractions of time that each value of `axis` saves against its
    first value: (case, value -> size -> fraction). A case consists of metric, side, place and the other parameters
    except the size."""
    of = (pl.col("scenario") == scenario) & (pl.col("unit") == "ns")
    rows = profile.records.filter(of & pl.col(axis).is_not_null())
    declared = [metric for name, metric in declared_metrics(profile.run) if name == scenario]
    rows = rows.filter(pl.col("metric").is_in(declared))
    names = rows[axis].unique(maintain_order=True).to_list()
    keys = ["metric", "side", "distance", "pair", *(n for n in parameters(rows) if n not in ("size_bytes", axis))]
    for values in rows.select(keys).unique(maintain_order=True).iter_rows():
        case = dict(zip(keys, values, strict=True))
        same = rows.filter(*(pl.col(name).eq_missing(value) for name, value in case.items()))
        times = {name: curve(same, scenario, case["metric"], deciding=False, **{axis: name}) for name in names}
        yield case, {name: points for name, points in savings_against(names[0], times).items() if points}


def switch_size_bytes(switches: list[Switch], kind: str, place: Place) -> int | None:
    """Returns the largest message size before this protocol switch between these cores; None if no switch was found."""
    found = [s.bytes for s in switches if s.kind == kind and s.distance == place.distance]
    own = [s.bytes for s in switches if s.kind == kind and s.pair == place.pair]
    return next(iter(own or found), None)


def has_values(records: pl.DataFrame, scenario: str) -> bool:
    """Returns whether at least one record of the scenario has a value."""
    rows = pick(records, scenario=scenario)
    return rows.height > 0 and rows["value"].null_count() < rows.height


def _saved(point: Point, base: Point) -> Point:
    share = 1 - point.value / base.value if base.value else 0.0
    return Point(share, share, share, point.n, point.stable, unit="share")


def _preloaded(records: pl.DataFrame, place: Place, side: str, state: str) -> Curve:
    points = curve(records, "pollution", "traverse", place=place, side=side, state=state, deciding=False)
    return {size: point for size, point in points.items() if point.stable}


def _sum_of_times(first: Point, second: Point) -> Point:
    """Returns the sum of two times. Its interval is the sum of both intervals, an upper bound."""
    return replace(
        second,
        value=first.value + second.value,
        low=first.low + second.low,
        high=first.high + second.high,
        n=min(first.n, second.n),
        stable=first.stable and second.stable,
        note=second.note or first.note,
    )
