"""Finds the effect of MPI calls on the cache: whether the message is cached afterwards, and what was evicted (S0.7)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Place, place_prefix
from nearfield.report.derived_metrics import CachedReach, cached_after, cached_reach, evicted_read_ratios
from nearfield.report.findings.finding import Finding, at_each_distance
from nearfield.report.formatting import ratio_text

CALLS = {"sender": "MPI_Send", "receiver": "MPI_Recv"}
_SLOWER = 1.25


@at_each_distance("pollution")
def find_size_cached_after_call(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the buffer size up to which a previously uncached message is cached after the call."""
    reaches = {side: cached_reach(cached_after(profile.records, place, side)) for side in CALLS}
    parts = [text for side, r in reaches.items() if (text := _words(CALLS[side], r))]
    if not parts:
        return
    numbers: dict[str, float | int | str] = {}
    for side, r in reaches.items():
        numbers |= {f"{side}_cached_to": r.cached_to} if r.cached_to is not None else {}
        numbers |= {f"{side}_gone_from": r.gone_from} if r.gone_from is not None else {}
    llc = profile.machine.llc_bytes
    half = f" Half of the last-level cache is {format_bytes(llc // 2)}." if llc else ""
    yield Finding(
        topic="pollution",
        title="What is cached after the call",
        statement=capitalize(f"{place_prefix(profile, place, 'pollution')}{'; '.join(parts)}.{half}"),
        action=_action(reaches),
        numbers=numbers,
        weight=2.4,
    )


def _words(call: str, r: CachedReach) -> str:
    if r.cached_to is None and r.gone_from is None:
        return ""
    cached = f"after {call} a message of up to {format_bytes(r.cached_to)} is in the cache" if r.cached_to else ""
    gone = f"one of {format_bytes(r.gone_from)} mostly comes from memory" if r.gone_from else ""
    if cached and gone:
        return f"{cached}, {gone}"
    return cached or f"after {call} a message of {format_bytes(r.gone_from or 0)} mostly comes from memory"


def _action(reaches: dict[str, CachedReach]) -> str:
    r = reaches["receiver"]
    if r.cached_to and r.gone_from:
        return (
            f"Use received data at once up to {format_bytes(r.cached_to)}; receive larger data in pieces of that size."
        )
    return "Use received data at once." if r.cached_to else ""


@at_each_distance("pollution")
def find_evictions(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding with the sizes at which the call makes reads of a previously cached buffer slower."""
    parts: list[str] = []
    numbers: dict[str, float] = {}
    for side, call in CALLS.items():
        slower = {
            size: ratio
            for size, ratio in evicted_read_ratios(profile.records, place, side).items()
            if ratio.value >= _SLOWER and ratio.low > 1
        }
        if slower:
            worst = max(slower, key=lambda size: slower[size].value)
            parts.append(f"{call} from {format_bytes(min(slower))} on (worst at {format_bytes(worst)}: "
                         f"reading takes {ratio_text(slower[worst].value)})")  # fmt: skip
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
