"""Finds how much earlier MPI_Send and MPI_Recv return if their buffers are cached (claims S0.2 and S0.6 in
papers/S0/claims.toml)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Place, place_prefix
from nearfield.report.derived_metrics import state_gains
from nearfield.report.findings.finding import Finding, finder_at_each_distance
from nearfield.report.formatting import format_percent

MIN_GAIN = 0.05
MEASURED_CALLS = (("send", "sender", "MPI_Send"), ("receive", "receiver", "MPI_Recv"))


def significant_gains(gains: dict[int, Estimate]) -> dict[int, Estimate]:
    """Returns the significant gains: at least MIN_GAIN, with an interval above 0."""
    return {size: gain for size, gain in gains.items() if gain.low > 0 and gain.value >= MIN_GAIN}


def best_state_gains(profile: Profile, place: Place, metric: str, side: str | None) -> dict[int, Estimate]:
    """Returns size -> the larger one of the gains of buffers in state exclusive and modified, compared with uncached
    buffers."""
    best: dict[int, Estimate] = {}
    for state in ("exclusive", "modified"):
        for size, gain in state_gains(profile.records, place, metric, side, state).items():
            if size not in best or gain.value > best[size].value:
                best[size] = gain
    return dict(sorted(best.items()))


@finder_at_each_distance("pingpong")
def find_buffer_state_gain(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding on how much earlier calls return if their buffers are cached (paper S0, section II.A)."""
    parts: list[str] = []
    numbers: dict[str, float | int | str] = {}
    num_comparisons, max_gaining_bytes = 0, 0
    for metric, side, call in MEASURED_CALLS:
        gains = best_state_gains(profile, place, metric, side)
        num_comparisons += len(gains)
        significant = significant_gains(gains)
        if not significant:
            continue
        peak = max(significant, key=lambda size: significant[size].value)
        max_gaining_bytes = max(max_gaining_bytes, *significant)
        parts.append(f"{call} returns up to {format_percent(significant[peak].value)} sooner (at {format_bytes(peak)})")
        numbers |= {f"{metric}_gain": significant[peak].value, f"{metric}_peak_bytes": peak}
    where = place_prefix(profile, place)
    if not parts:
        yield from [_no_gain_finding(where, num_comparisons)] if num_comparisons else []
        return
    yield Finding(
        topic="buffer-state",
        title="Messages in the cache are cheaper",
        statement=capitalize(
            f"{where}when both ranks have their buffers in the cache rather than in memory, {join_and(parts)}; "
            f"the largest message that gains is {format_bytes(max_gaining_bytes)}."
        ),
        action="Send data right after computing it, and receive into a buffer that was used recently.",
        numbers={**numbers, "last_bytes": max_gaining_bytes},
        weight=2.5,
    )


def _no_gain_finding(place_text: str, num_comparisons: int) -> Finding:
    return Finding(
        topic="buffer-state",
        title="No gain from cached buffers",
        statement=capitalize(
            f"{place_text}in none of {num_comparisons} comparisons was a message faster by "
            f"{format_percent(MIN_GAIN)} or more because its buffers were in the cache."
        ),
        level="fact",
        numbers={"comparisons": num_comparisons},
        weight=1,
    )
