"""Finds the fraction of the caches' speed that this MPI reaches. This share is floor / message time, where the floor is
the core-to-core latency plus one copy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import geometric_mean

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes, format_ns, format_size_range
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.curves import Place, common_x_values, place_prefix
from nearfield.report.derived_metrics import explain_invalid_floor, floor_shares, half_round_trip, message_floor
from nearfield.report.findings.finding import Finding, finder_at_each_distance
from nearfield.report.formatting import format_percent

# The worst range consists of the consecutive sizes whose share (lower bound of the time divided by the measured time)
# is at most this factor times the minimum share.
WORST_RANGE_FACTOR = 2.0
MIN_GOOD_SHARE = 0.8
TYPICAL_BYTES = 64 << 10  # the finding states the loss at the size closest to this one
RANGE_BOUNDS = (1 << 10, 16 << 10, 256 << 10, 4 << 20)


@finder_at_each_distance("pingpong")
def find_worst_range(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding on the range of sizes in which messages are slowest relative to the floor, and on the time lost
    per message in this range."""
    if explain_invalid_floor(profile.records, place):
        return
    shares = _select_cacheable_sizes(profile, floor_shares(profile.records, place))
    if not shares:
        yield from _findings_from_bounds(profile, place)
    elif min(s.value for s in shares.values()) >= MIN_GOOD_SHARE:
        yield _near_floor_finding(profile, place, shares)
    else:
        yield _lost_time_finding(profile, place, shares)


def _lost_time_finding(profile: Profile, place: Place, shares: dict[int, Estimate]) -> Finding:
    sizes = _sizes_around_lowest_share(shares)
    share = _mean_share(shares, sizes)
    typical = min(sizes, key=lambda size: abs(math.log(size / TYPICAL_BYTES)))
    time = half_round_trip(profile.records, place)[typical].value
    floor = message_floor(profile.records, place)[typical].value
    return Finding(
        topic="headroom",
        title=f"{format_percent(share)} of the speed that the caches allow",
        statement=capitalize(
            f"{place_prefix(profile, place)}{_format_sizes(sizes)} this MPI reaches {format_percent(share)} of the "
                "speed "
            f"that these caches allow: a {format_bytes(typical)} message takes {format_ns(time)}, a flag and one "
                "copy between the "
            f"same two cores {format_ns(floor)}. {format_ns(time - floor)} of each such message are lost."
        ),
        level="loss" if share < MIN_GOOD_SHARE else "fact",
        numbers={
            "share": share, "from_bytes": sizes[0], "to_bytes": sizes[-1], "typical_bytes": typical,
            "time_ns": time, "floor_ns": floor, "lost_ns": time - floor,
        },
        weight=10 / share,
    )  # fmt: skip


def _findings_from_bounds(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with a lower and an upper bound of the share, computed from the ends of the intervals. It is for
    times that are too noisy for a value, and only yielded if even the upper bound is a loss."""
    floors = message_floor(profile.records, place, only_reliable=False)
    times = half_round_trip(profile.records, place, only_reliable=False)
    bounds = _select_cacheable_sizes(
        profile,
        {
            size: Estimate(floors[size].value / times[size].value, low, high)
            for size in common_x_values(floors, times)
            if (low := floors[size].low / times[size].high)
            < (high := floors[size].high / times[size].low)
            < MIN_GOOD_SHARE
        },
    )
    if not bounds:
        return
    size = min(bounds, key=lambda size: bounds[size].high)
    share = bounds[size]
    yield Finding(
        topic="headroom",
        title=f"At most {format_percent(share.high)} of the speed that the caches allow",
        statement=capitalize(
            f"{place_prefix(profile, place)}at {format_bytes(size)} this MPI reaches between "
            f"{format_percent(share.low)} and {format_percent(share.high)} of the speed that these caches allow: a "
            "message "
            f"takes {format_ns(times[size].low)} to {format_ns(times[size].high)}, a flag and one copy between the "
            "same two cores "
            f"{format_ns(floors[size].low)} to {format_ns(floors[size].high)}. Noise of the machine prevents a "
            "narrower "
            "interval."
        ),
        level="loss",
        numbers={"low": share.low, "high": share.high, "size_bytes": size},
        weight=10 / share.high,
    )


@finder_at_each_distance("pingpong")
def find_share_by_range(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the share (floor / message time) in each range of sizes."""
    shares = {} if explain_invalid_floor(profile.records, place) else floor_shares(profile.records, place)
    edges = (0, *RANGE_BOUNDS, math.inf)
    groups = [[size for size in shares if low < size <= high] for low, high in zip(edges, edges[1:], strict=False)]
    groups = [group for group in groups if group]
    if len(groups) < 2:
        return
    parts = [
        f"{format_size_range(group[0], group[-1])} {format_percent(_mean_share(shares, group))}" for group in groups
    ]
    yield Finding(
        topic="headroom",
        title="Share of the floor by size",
        statement=capitalize(
            f"{place_prefix(profile, place)}of the speed that a flag and one copy would have, this MPI reaches: "
            f"{'; '.join(parts)}."
        ),
        numbers={
            "distance": place.distance or "",
            **{f"share_to_{group[-1]}": _mean_share(shares, group) for group in groups},
        },
        weight=3,
    )


def _select_cacheable_sizes(profile: Profile, shares: dict[int, Estimate]) -> dict[int, Estimate]:
    """Returns the shares of sizes up to that of the last-level cache. The speed of larger messages is limited by
    memory."""
    llc = profile.machine.llc_bytes
    return {size: share for size, share in shares.items() if llc is None or size <= llc}


def _near_floor_finding(profile: Profile, place: Place, shares: dict[int, Estimate]) -> Finding:
    least = min(shares, key=lambda size: shares[size].value)
    return Finding(
        topic="headroom",
        title="As fast as the caches allow",
        statement=capitalize(
            f"{place_prefix(profile, place)}at every size measured this MPI reaches at least "
            f"{format_percent(shares[least].value)} of the speed that these caches allow (least at "
            "{format_bytes(least)})."
        ),
        level="good",
        numbers={"share": shares[least].value, "from_bytes": min(shares), "to_bytes": max(shares)},
    )


def _sizes_around_lowest_share(shares: dict[int, Estimate]) -> list[int]:
    """Returns the consecutive sizes around the lowest share whose shares are nearly as low."""
    sizes = sorted(shares)
    values = [shares[size].value for size in sizes]
    worst = values.index(min(values))
    first = last = worst
    while first > 0 and values[first - 1] <= WORST_RANGE_FACTOR * values[worst]:
        first -= 1
    while last + 1 < len(sizes) and values[last + 1] <= WORST_RANGE_FACTOR * values[worst]:
        last += 1
    return sizes[first : last + 1]


def _mean_share(shares: dict[int, Estimate], sizes: list[int]) -> float:
    return geometric_mean(shares[size].value for size in sizes)


def _format_sizes(sizes: list[int]) -> str:
    if len(sizes) == 1:
        return f"at {format_bytes(sizes[0])}"
    return f"between {format_bytes(sizes[0])} and {format_bytes(sizes[-1])}"
