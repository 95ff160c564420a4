"""Finds how much sooner MPI_Send and MPI_Recv return if their buffers are cached (S0.2, S0.6)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Place, place_prefix
from nearfield.report.derived_metrics import state_gains
from nearfield.report.findings.finding import Finding, at_each_distance
from nearfield.report.formatting import percent

MIN_GAIN = 0.05
CALLS = (("send", "sender", "MPI_Send"), ("receive", "receiver", "MPI_Recv"))


def significant_gains(gains: dict[int, Estimate]) -> dict[int, Estimate]:
    """Returns the significant gains: at least MIN_GAIN, with an interval above 0."""
    return {size: gain for size, gain in gains.items() if gain.low > 0 and gain.value >= MIN_GAIN}


def best_gains(profile: Profile, place: Place, metric: str, side: str | None) -> dict[int, Estimate]:
    """Returns size -> the larger gain of exclusive and modified buffers over uncached ones."""
    best: dict[int, Estimate] = {}
    for state in ("exclusive", "modified"):
        for size, gain in state_gains(profile.records, place, metric, side, state).items():
            if size not in best or gain.value > best[size].value:
                best[size] = gain
    return dict(sorted(best.items()))


@at_each_distance("pingpong")
def find_buffer_state_gain(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding on how much sooner calls return if their buffers are cached (S0, section II.A)."""
    parts: list[str] = []
    numbers: dict[str, float | int | str] = {}
    measured, last = 0, 0
    for metric, side, call in CALLS:
        gains = best_gains(profile, place, metric, side)
        measured += len(gains)
        sure = significant_gains(gains)
        if not sure:
            continue
        peak = max(sure, key=lambda size: sure[size].value)
        last = max(last, *sure)
        parts.append(f"{call} returns up to {percent(sure[peak].value)} sooner (at {format_bytes(peak)})")
        numbers |= {f"{metric}_gain": sure[peak].value, f"{metric}_peak_bytes": peak}
    where = place_prefix(profile, place)
    if not parts:
        yield from [_no_gain(where, measured)] if measured else []
        return
    yield Finding(
        topic="buffer-state",
        title="Messages in the cache are cheaper",
        statement=capitalize(
            f"{where}when both ranks have their buffers in the cache rather than in memory, {join_and(parts)}; "
            f"the largest message that gains is {format_bytes(last)}."
        ),
        action="Send data right after computing it, and receive into a buffer that was used recently.",
        numbers={**numbers, "last_bytes": last},
        weight=2.5,
    )


def _no_gain(where: str, measured: int) -> Finding:
    return Finding(
        topic="buffer-state",
        title="No gain from cached buffers",
        statement=capitalize(
            f"{where}in none of {measured} comparisons was a message faster by {percent(MIN_GAIN)} or more because its "
            "buffers were in the cache."
        ),
        level="fact",
        numbers={"comparisons": measured},
        weight=1,
    )
