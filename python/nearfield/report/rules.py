"""Evaluates the three placement guidelines of Pellegrini, Hoefler and Fahringer (On the Effects of CPU Caches on MPI
Point-to-Point Communications, section IV) for a profile: inserts the thresholds of its machine and MPI, and checks
whether its records support the guidelines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nearfield.base.units import format_bytes
from nearfield.base.words import as_sentence
from nearfield.profile import Profile
from nearfield.profile.curves import Place, is_network_distance, one_place_per_distance
from nearfield.report.derived_metrics import (
    MAX_EVICTED_SHARE,
    MIN_CACHED_SHARE,
    cached_shares_after_call,
    reach_of_cached_sizes,
    switch_size_bytes,
)
from nearfield.report.findings.buffer_state import MIN_GAIN, best_state_gains
from nearfield.report.formatting import format_percent

MIN_NUM_SIZES = 3  # minimum number of measured sizes for judging a guideline

GuidelineStatus = Literal["supported", "not seen here", "not measured"]

_TOO_FEW_SIZES_TEXT = f"Stable times of cached and uncached buffers at fewer than {MIN_NUM_SIZES} sizes in this range."


@dataclass(frozen=True)
class Guideline:
    """A placement guideline, evaluated for a profile. `number` is its number in the paper, `range` the message sizes to
    which it applies, and `evidence` the measurements on which `status` is based."""

    number: int
    range: str
    advice: str
    status: GuidelineStatus
    evidence: str
    numbers: Mapping[str, float | int] = field(default_factory=dict)


def evaluate_guidelines(profile: Profile) -> list[Guideline]:
    """Returns guidelines 1 and 3 for the nearest pair of cores within a node, and guideline 2 for the nearest pair
    across nodes."""
    places = one_place_per_distance(profile.records, "pingpong") or one_place_per_distance(profile.records, "protocol")
    inside = next((place for place in places if not is_network_distance(place.distance)), None)
    across = next((place for place in places if is_network_distance(place.distance)), None)
    return [
        _judge_guideline_while_cached(profile, inside or across),
        _judge_guideline_across_nodes(profile, across),
        _judge_guideline_inside_node(profile, inside),
    ]


def _judge_guideline_while_cached(profile: Profile, place: Place | None) -> Guideline:
    limit = switch_size_bytes(profile.run.switch, "eager-limit", place) if place else None
    up_to = f"Up to {format_bytes(limit)} (the eager limit)" if limit else "Up to the eager limit (not found here)"
    advice = "Communicate while the message is in the cache, and use received data at once."
    if place is None or limit is None:
        why = "No pair was measured." if place is None else "No eager limit was seen at the sizes measured."
        return Guideline(1, up_to, advice, "not measured", why)
    gains = [
        gain.value
        for metric, side in (("send", "sender"), ("receive", "receiver"))
        for size, gain in best_state_gains(profile, place, metric, side).items()
        if size <= limit
    ]
    cached_shares = {
        s: c for s, c in cached_shares_after_call(profile.records, place, "receiver").items() if s <= limit
    }
    gains = gains if len(gains) >= MIN_NUM_SIZES else []
    cached_shares = cached_shares if len(cached_shares) >= MIN_NUM_SIZES else {}
    if not gains and not cached_shares:
        return Guideline(1, up_to, advice, "not measured", _TOO_FEW_SIZES_TEXT)
    parts: list[str] = []
    numbers: dict[str, float] = {"limit_bytes": limit}
    is_supported_by: list[bool] = []
    if gains:
        middle = sorted(gains)[len(gains) // 2]
        parts.append(f"cached buffers save {format_percent(middle)} of MPI_Send and MPI_Recv (median of {len(gains)})")
        numbers["gain"] = middle
        is_supported_by.append(middle >= MIN_GAIN)
    if cached_shares:
        hits = sum(c >= MIN_CACHED_SHARE for c in cached_shares.values())
        parts.append(f"received data is in the cache at {hits} of {len(cached_shares)} sizes")
        numbers["cached_sizes"] = hits
        is_supported_by.append(hits * 2 > len(cached_shares))
    return Guideline(
        1,
        up_to,
        advice,
        "supported" if all(is_supported_by) else "not seen here",
        as_sentence("; ".join(parts)),
        numbers,
    )


def _judge_guideline_across_nodes(profile: Profile, place: Place | None) -> Guideline:
    llc = profile.machine.llc_bytes
    limit = switch_size_bytes(profile.run.switch, "eager-limit", place) if place else None
    begin = f"from {format_bytes(limit)} (the eager limit)" if limit else "from the eager limit"
    end = f"to {format_bytes(llc)} (the last-level cache)" if llc else "to the size of the last-level cache"
    where = f"Between nodes, {begin} {end}"
    advice = "Compute on a buffer before sending it, and wait with using received data."
    if place is None:
        return Guideline(2, where, advice, "not measured", "No pair of cores on different nodes was measured.")
    cached_shares = _sizes_between(cached_shares_after_call(profile.records, place, "receiver"), limit or 0, llc)
    if len(cached_shares) < MIN_NUM_SIZES:
        return Guideline(2, where, advice, "not measured", _TOO_FEW_SIZES_TEXT)
    num_uncached = sum(c <= MAX_EVICTED_SHARE for c in cached_shares.values())
    status: GuidelineStatus = "supported" if num_uncached * 2 > len(cached_shares) else "not seen here"
    evidence = as_sentence(f"received data comes from memory at {num_uncached} of {len(cached_shares)} sizes")
    return Guideline(2, where, advice, status, evidence, {"gone_sizes": num_uncached, "sizes": len(cached_shares)})


def _judge_guideline_inside_node(profile: Profile, place: Place | None) -> Guideline:
    llc = profile.machine.llc_bytes
    limit = switch_size_bytes(profile.run.switch, "eager-limit", place) if place else None
    all_cached_shares = cached_shares_after_call(profile.records, place, "receiver") if place else {}
    reach = reach_of_cached_sizes(all_cached_shares)
    half = llc // 2 if llc else None
    end = reach.max_cached_bytes if reach.min_uncached_bytes and reach.max_cached_bytes else half
    source = (
        "measured here"
        if end and end == reach.max_cached_bytes and reach.min_uncached_bytes
        else "half of the last-level cache"
    )
    begin = f"from {format_bytes(limit)} " if limit else ""
    until = f"up to {format_bytes(end)} ({source})" if end else "up to half of the last-level cache"
    where = f"Inside a node, {begin}{until}"
    advice = "Use message data right after the call; if it is in the cache already, compute before the call."
    cached_shares = _sizes_between(all_cached_shares, limit or 0, half)
    if len(cached_shares) < MIN_NUM_SIZES:
        return Guideline(3, where, advice, "not measured", _TOO_FEW_SIZES_TEXT)
    hits = sum(c >= MIN_CACHED_SHARE for c in cached_shares.values())
    status: GuidelineStatus = "supported" if hits * 2 > len(cached_shares) else "not seen here"
    parts = [
        f"received data is in the cache at {hits} of {len(cached_shares)} sizes up to half of the last-level cache"
    ]
    if reach.min_uncached_bytes:
        parts.append(f"it first has to come from memory at {format_bytes(reach.min_uncached_bytes)}")
    numbers = {"cached_sizes": hits, "sizes": len(cached_shares)} | (
        {"gone_from": reach.min_uncached_bytes} if reach.min_uncached_bytes else {}
    )
    return Guideline(3, where, advice, status, as_sentence("; ".join(parts)), numbers)


def _sizes_between(cached_share_by_size: dict[int, float], min_bytes: int, max_bytes: int | None) -> dict[int, float]:
    return {
        size: c
        for size, c in cached_share_by_size.items()
        if min_bytes < size and (max_bytes is None or size <= max_bytes)
    }
