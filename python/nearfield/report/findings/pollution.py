"""Finds the effect of MPI calls on the cache: whether the message is cached afterwards, and which buffers the call
evicts (claim S0.7 in papers/S0/claims.toml)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Place, place_prefix
from nearfield.report.derived_metrics import (
    CachedReach,
    cached_shares_after_call,
    reach_of_cached_sizes,
    read_slowdown_after_call,
)
from nearfield.report.findings.finding import Finding, finder_at_each_distance
from nearfield.report.formatting import format_factor

MPI_CALL_BY_SIDE = {"sender": "MPI_Send", "receiver": "MPI_Recv"}
_MIN_READ_SLOWDOWN = 1.25


@finder_at_each_distance("pollution")
def find_size_cached_after_call(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the buffer size up to which a previously uncached message is cached after the call."""
    reaches = {
        side: reach_of_cached_sizes(cached_shares_after_call(profile.records, place, side)) for side in MPI_CALL_BY_SIDE
    }
    parts = [text for side, r in reaches.items() if (text := _describe_reach(MPI_CALL_BY_SIDE[side], r))]
    if not parts:
        return
    numbers: dict[str, float | int | str] = {}
    for side, r in reaches.items():
        numbers |= {f"{side}_cached_to": r.max_cached_bytes} if r.max_cached_bytes is not None else {}
        numbers |= {f"{side}_gone_from": r.min_uncached_bytes} if r.min_uncached_bytes is not None else {}
    llc = profile.machine.llc_bytes
    half = f" Half of the last-level cache is {format_bytes(llc // 2)}." if llc else ""
    yield Finding(
        topic="pollution",
        title="Cached data after the call",
        statement=capitalize(f"{place_prefix(profile, place, 'pollution')}{'; '.join(parts)}.{half}"),
        action=_receive_advice(reaches),
        numbers=numbers,
        weight=2.4,
    )


def _describe_reach(call: str, reach: CachedReach) -> str:
    if reach.max_cached_bytes is None and reach.min_uncached_bytes is None:
        return ""
    cached = (
        f"after {call} a message of up to {format_bytes(reach.max_cached_bytes)} is in the cache"
        if reach.max_cached_bytes
        else ""
    )
    uncached = (
        f"one of {format_bytes(reach.min_uncached_bytes)} mostly comes from memory" if reach.min_uncached_bytes else ""
    )
    if cached and uncached:
        return f"{cached}, {uncached}"
    return cached or f"after {call} a message of {format_bytes(reach.min_uncached_bytes or 0)} mostly comes from memory"


def _receive_advice(reaches: dict[str, CachedReach]) -> str:
    reach = reaches["receiver"]
    if reach.max_cached_bytes and reach.min_uncached_bytes:
        size = format_bytes(reach.max_cached_bytes)
        return f"Use received data at once up to {size}; receive larger data in pieces of that size."
    return "Use received data at once." if reach.max_cached_bytes else ""


@finder_at_each_distance("pollution")
def find_evictions(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the sizes at which the call makes reads of a previously cached buffer slower."""
    parts: list[str] = []
    numbers: dict[str, float] = {}
    for side, call in MPI_CALL_BY_SIDE.items():
        slower = {
            size: ratio
            for size, ratio in read_slowdown_after_call(profile.records, place, side).items()
            if ratio.value >= _MIN_READ_SLOWDOWN and ratio.low > 1
        }
        if slower:
            worst = max(slower, key=lambda size: slower[size].value)
            parts.append(f"{call} from {format_bytes(min(slower))} on (worst at {format_bytes(worst)}: "
                         f"reading takes {format_factor(slower[worst].value)})")  # fmt: skip
            numbers |= {f"{side}_from_bytes": min(slower), f"{side}_factor": slower[worst].value}
    if not parts:
        return
    yield Finding(
        topic="pollution",
        title="Cached buffers are pushed out by the call",
        statement=capitalize(
            f"{place_prefix(profile, place, 'pollution')}a buffer that was in the cache before the call is read more "
            f"slowly after {join_and(parts)}."
        ),
        action="Compute on such a buffer before the call, not after it.",
        numbers=numbers,
        weight=2.2,
    )
