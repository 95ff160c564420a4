"""Finds, by size, the fastest way to copy data that another core has just written, which depends on the cache that
holds the lines (paper S0, papers/S0/README.md).

There are three kinds of copy: a plain one; one with streaming stores, which bypass the caches and need not load the
target's lines; and a cooperative one by both cores, half each, with twice as many cache misses in flight. The shared
heap selects one of them (docs/explanation/shared-heap.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.base.words import capitalize
from nearfield.profile import Profile
from nearfield.profile.curves import Curve, Place, common_x_values, curve, place_prefix, ratios
from nearfield.report.findings.finding import Finding, finder_at_each_distance
from nearfield.report.formatting import format_factor, format_percent

PLAIN_COPY = "copy-remote"
NAMES_OF_OTHER_COPIES = {"copy-remote-nt": "past the caches", "copy-remote-both": "by both cores, half each,"}


@finder_at_each_distance("floor")
def find_fastest_copies(profile: Profile, place: Place) -> Iterator[Finding]:
    """Yields a finding on the fastest kind of copy by size, with the reason."""
    plain = _copy_times(profile, place, PLAIN_COPY)
    gains = {kind: ratios(plain, _copy_times(profile, place, kind)) for kind in NAMES_OF_OTHER_COPIES}
    sizes = common_x_values(plain, *gains.values())
    if len(sizes) < 2:
        return
    winners = {size: _fastest_kind({kind: gain[size] for kind, gain in gains.items()}) for size in sizes}
    parts, numbers = [], {}
    for kind, group in groupby(sizes, key=lambda size: winners[size]):
        run = list(group)
        span = _format_sizes(run[0], run[-1], run[-1] == sizes[-1])
        if kind == PLAIN_COPY:
            parts.append(f"{span} plainly")
            continue
        best = max(run, key=lambda size: gains[kind][size].value)
        parts.append(
            f"{span} {NAMES_OF_OTHER_COPIES[kind]} {format_factor(gains[kind][best].value)} as fast as plainly at best"
        )
        numbers[f"{kind}_from_bytes"], numbers[f"{kind}_gain"] = run[0], gains[kind][best].value
    yield Finding(
        topic="copying",
        title="Which copy is the fastest",
        statement=capitalize(
            f"{place_prefix(profile, place)}what the other core just wrote is copied fastest: {'; '.join(parts)}."
        )
        + _explain_plain_copy_limit(profile, place, plain, sizes),
        numbers=numbers,
        weight=2,
    )


def _copy_times(profile: Profile, place: Place, kind: str) -> Curve:
    return curve(profile.records, "floor", "time", place=place, kind=kind)


def _fastest_kind(gains: dict[str, Estimate]) -> str:
    """Returns the fastest kind of copy that is significantly faster than a plain copy; PLAIN_COPY if none is."""
    significant = {kind: gain for kind, gain in gains.items() if gain.low > 1}
    return max(significant, key=lambda kind: significant[kind].value) if significant else PLAIN_COPY


def _format_sizes(first_bytes: int, last_bytes: int, is_unbounded: bool) -> str:
    if is_unbounded:
        return f"from {format_bytes(first_bytes)} on"
    return (
        f"at {format_bytes(first_bytes)}"
        if first_bytes == last_bytes
        else f"{format_bytes(first_bytes)} to {format_bytes(last_bytes)}"
    )


def _explain_plain_copy_limit(profile: Profile, place: Place, plain_times: Curve, sizes: list[int]) -> str:
    """Returns sentences on what limits a plain copy; '' if the time of reading without writing was not measured."""
    read_share = ratios(_copy_times(profile, place, "read-remote"), plain_times)
    common_sizes = [size for size in sizes if size in read_share]
    if not common_sizes:
        return ""
    share = format_percent(min(1.0, read_share[common_sizes[-1]].value))
    return (
        f" At {format_bytes(common_sizes[-1])} reading alone takes {share} of a plain copy: that is waiting for the "
        "other core's lines, which two cores can share. The rest is getting the target's lines to write them, which "
        "streaming stores spare."
    )
