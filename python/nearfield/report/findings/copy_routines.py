"""Finds, by size, the fastest way to copy data that another core just wrote, which depends on the cache that holds the
lines (S0).

There are three kinds of copy: a plain one; one with streaming stores, which bypass the caches and need not load the
target's lines; and a cooperative one by both cores, half each, with twice as many cache misses in flight. The shared
heap selects one of them (docs/explanation/shared-heap.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Place, common_keys, curve, place_prefix, ratios
from nearfield.report.findings.finding import Finding, at_each_distance
from nearfield.report.formatting import percent, ratio_text

PLAIN = "copy-remote"
OTHERS = {"copy-remote-nt": "past the caches", "copy-remote-both": "by both cores, half each,"}


@at_each_distance("floor")
def find_fastest_copies(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding on the fastest kind of copy by size, with the reason."""
    plain = _times(profile, place, PLAIN)
    gains = {kind: ratios(plain, _times(profile, place, kind)) for kind in OTHERS}
    sizes = common_keys(plain, *gains.values())
    if len(sizes) < 2:
        return
    winners = {size: _winner({kind: gain[size] for kind, gain in gains.items()}) for size in sizes}
    parts, numbers = [], {}
    for kind, group in groupby(sizes, key=lambda size: winners[size]):
        run = list(group)
        span = _span(run[0], run[-1], run[-1] == sizes[-1])
        if kind == PLAIN:
            parts.append(f"{span} plainly")
            continue
        best = max(run, key=lambda size: gains[kind][size].value)
        parts.append(f"{span} {OTHERS[kind]} {ratio_text(gains[kind][best].value)} as fast as plainly at best")
        numbers[f"{kind}_from_bytes"], numbers[f"{kind}_gain"] = run[0], gains[kind][best].value
    yield Finding(
        topic="copying",
        title="Which copy is the fastest",
        statement=capitalize(
            f"{place_prefix(profile, place)}what the other core just wrote is copied fastest: {'; '.join(parts)}."
        )
        + _why(profile, place, plain, sizes),
        numbers=numbers,
        weight=2,
    )


def _times(profile: Profile, place: Place, kind: str) -> Curve:
    return curve(profile.records, "floor", "time", place=place, kind=kind)


def _winner(gains: dict[str, Estimate]) -> str:
    """Returns the fastest kind of copy that is significantly faster than a plain copy; PLAIN if none is."""
    surely = {kind: gain for kind, gain in gains.items() if gain.low > 1}
    return max(surely, key=lambda kind: surely[kind].value) if surely else PLAIN


def _span(first: int, last: int, is_open: bool) -> str:
    if is_open:
        return f"from {format_bytes(first)} on"
    return f"at {format_bytes(first)}" if first == last else f"{format_bytes(first)} to {format_bytes(last)}"


def _why(profile: Profile, place: Place, plain: Curve, sizes: list[int]) -> str:
    """Returns sentences on what limits a plain copy; '' if the time to read alone was not measured."""
    reading = ratios(_times(profile, place, "read-remote"), plain)
    among = [size for size in sizes if size in reading]
    if not among:
        return ""
    share = percent(min(1.0, reading[among[-1]].value))
    return (
        f" At {format_bytes(among[-1])} reading alone takes {share} of a plain copy: that is waiting for the "
        "other core's lines, which two cores can share. The rest is getting the target's lines to write them, which "
        "streaming stores spare."
    )
