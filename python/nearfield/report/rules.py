"""Evaluates the three placement guidelines of Pellegrini, Hoefler and Fahringer (On the Effects of CPU Caches on MPI
Point-to-Point Communications, section IV): inserts this machine's thresholds, and checks whether its records support
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nearfield.base.units import format_bytes
from nearfield.base.words import as_sentence
from nearfield.profile import Profile
from nearfield.profile.curves import Place, is_network, one_per_distance
from nearfield.report.derived_metrics import (
    MAX_EVICTED_SHARE,
    MIN_CACHED_SHARE,
    cached_after,
    cached_reach,
    switch_size_bytes,
)
from nearfield.report.findings.buffer_state import MIN_GAIN, best_gains
from nearfield.report.formatting import percent

MIN_SIZES = 3  # min number of measured sizes to judge a guideline

Status = Literal["supported", "not seen here", "not measured"]

_TOO_FEW = f"Stable times of cached and uncached buffers at fewer than {MIN_SIZES} sizes in this range."


@dataclass(frozen=True)
class Guideline:
    """A placement guideline with its `number` in the paper. `evidence` gives the measurements behind `status`."""

    number: int
    range: str
    advice: str
    status: Status
    evidence: str
    numbers: Mapping[str, float | int] = field(default_factory=dict)


def evaluate_guidelines(profile: Profile) -> list[Guideline]:
    """Returns guidelines 1 and 3 for the nearest pair of cores within a node, and guideline 2 for the nearest pair
    across nodes."""
    found = one_per_distance(profile.records, "pingpong") or one_per_distance(profile.records, "protocol")
    inside = next((place for place in found if not is_network(place.distance)), None)
    across = next((place for place in found if is_network(place.distance)), None)
    return [
        _guideline_while_cached(profile, inside or across),
        _guideline_across_nodes(profile, across),
        _guideline_inside_node(profile, inside),
    ]


def _guideline_while_cached(profile: Profile, place: Place | None) -> Guideline:
    limit = switch_size_bytes(profile.run.switch, "eager-limit", place) if place else None
    up_to = f"Up to {format_bytes(limit)} (the eager limit)" if limit else "Up to the eager limit (not found here)"
    advice = "Communicate while the message is in the cache, and use received data at once."
    if place is None or limit is None:
        why = "No pair was measured." if place is None else "No eager limit was seen at the sizes measured."
        return Guideline(1, up_to, advice, "not measured", why)
    gains = [
        gain.value
        for metric, side in (("send", "sender"), ("receive", "receiver"))
        for size, gain in best_gains(profile, place, metric, side).items()
        if size <= limit
    ]
    cached = {s: c for s, c in cached_after(profile.records, place, "receiver").items() if s <= limit}
    gains = gains if len(gains) >= MIN_SIZES else []
    cached = cached if len(cached) >= MIN_SIZES else {}
    if not gains and not cached:
        return Guideline(1, up_to, advice, "not measured", _TOO_FEW)
    parts: list[str] = []
    numbers: dict[str, float] = {"limit_bytes": limit}
    seen: list[bool] = []
    if gains:
        middle = sorted(gains)[len(gains) // 2]
        parts.append(f"cached buffers save {percent(middle)} of MPI_Send and MPI_Recv (median of {len(gains)})")
        numbers["gain"] = middle
        seen.append(middle >= MIN_GAIN)
    if cached:
        hits = sum(c >= MIN_CACHED_SHARE for c in cached.values())
        parts.append(f"received data is in the cache at {hits} of {len(cached)} sizes")
        numbers["cached_sizes"] = hits
        seen.append(hits * 2 > len(cached))
    return Guideline(
        1, up_to, advice, "supported" if all(seen) else "not seen here", as_sentence("; ".join(parts)), numbers
    )


def _guideline_across_nodes(profile: Profile, place: Place | None) -> Guideline:
    llc = profile.machine.llc_bytes
    limit = switch_size_bytes(profile.run.switch, "eager-limit", place) if place else None
    begin = f"from {format_bytes(limit)} (the eager limit)" if limit else "from the eager limit"
    end = f"to {format_bytes(llc)} (the last-level cache)" if llc else "to the size of the last-level cache"
    where = f"Between nodes, {begin} {end}"
    advice = "Compute on a buffer before sending it, and wait with using received data."
    if place is None:
        return Guideline(2, where, advice, "not measured", "No pair of cores on different nodes was measured.")
    cached = _within(cached_after(profile.records, place, "receiver"), limit or 0, llc)
    if len(cached) < MIN_SIZES:
        return Guideline(2, where, advice, "not measured", _TOO_FEW)
    gone = sum(c <= MAX_EVICTED_SHARE for c in cached.values())
    status: Status = "supported" if gone * 2 > len(cached) else "not seen here"
    evidence = as_sentence(f"received data comes from memory at {gone} of {len(cached)} sizes")
    return Guideline(2, where, advice, status, evidence, {"gone_sizes": gone, "sizes": len(cached)})


def _guideline_inside_node(profile: Profile, place: Place | None) -> Guideline:
    llc = profile.machine.llc_bytes
    limit = switch_size_bytes(profile.run.switch, "eager-limit", place) if place else None
    measured = cached_after(profile.records, place, "receiver") if place else {}
    gap = cached_reach(measured)
    half = llc // 2 if llc else None
    end = gap.cached_to if gap.gone_from and gap.cached_to else half
    source = "measured here" if end and end == gap.cached_to and gap.gone_from else "half of the last-level cache"
    begin = f"from {format_bytes(limit)} " if limit else ""
    until = f"up to {format_bytes(end)} ({source})" if end else "up to half of the last-level cache"
    where = f"Inside a node, {begin}{until}"
    advice = "Use message data right after the call; if it is in the cache already, compute before the call."
    cached = _within(measured, limit or 0, half)
    if len(cached) < MIN_SIZES:
        return Guideline(3, where, advice, "not measured", _TOO_FEW)
    hits = sum(c >= MIN_CACHED_SHARE for c in cached.values())
    status: Status = "supported" if hits * 2 > len(cached) else "not seen here"
    parts = [f"received data is in the cache at {hits} of {len(cached)} sizes up to half of the last-level cache"]
    if gap.gone_from:
        parts.append(f"it first has to come from memory at {format_bytes(gap.gone_from)}")
    numbers = {"cached_sizes": hits, "sizes": len(cached)} | ({"gone_from": gap.gone_from} if gap.gone_from else {})
    return Guideline(3, where, advice, status, as_sentence("; ".join(parts)), numbers)


def _within(cached: dict[int, float], low: int, high: int | None) -> dict[int, float]:
    return {size: c for size, c in cached.items() if low < size and (high is None or size <= high)}
