"""Finds the costs of fresh memory, private or in a shared window, with small and huge pages (S1.3, S1.4)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_count, format_ns
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Point, common_keys, curve, pick, ratios
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import ratio_text

NAMES = {
    "private": "private memory",
    "private-huge": "private memory with huge pages",
    "window": "a shared window",
    "window-huge": "a shared window with huge pages",
    "field": "a field of the halo library",
}
MIB = 1 << 20
_CLEAR = 1.05


def find_first_touch_cost(profile: Profile) -> Iterator[Finding]:
    """Yields a finding, for the largest buffer, with the page faults and the time of the first touch per MiB, and with
    the gain of huge pages for a shared window."""
    faults = _by_memory(profile.records, "first_touch_faults")
    sizes = [size for memory in faults.values() for size in memory]
    if not sizes:
        return
    size = max(sizes)
    time = _by_memory(profile.records, "first_touch")
    parts: list[str] = []
    numbers: dict[str, float] = {"bytes": size}
    for memory, name in NAMES.items():
        if size in faults[memory]:
            parts.append(f"{name} {_cost(faults[memory][size], time[memory].get(size), size)}")
            numbers[f"faults_per_mib_{memory}"] = faults[memory][size].value * MIB / size
    gain, action = _huge_gain(profile, time, faults, size)
    yield Finding(
        topic="pages",
        title="Fresh memory",
        statement=capitalize(f"first touch of {format_bytes(size)}, per MiB: {'; '.join(parts)}. {gain}").strip(),
        level="loss" if action else "fact",
        action=action,
        numbers=numbers,
        weight=1.2,
    )


def find_reread_cost(profile: Profile) -> Iterator[Finding]:
    """Yields a finding on whether repeated reads of a shared window are slower than those of private memory, and
    whether huge pages help."""
    time = _by_memory(profile.records, "traverse")
    parts: list[str] = []
    numbers: dict[str, float] = {}
    for memory in ("private", "window-huge"):
        found = ratios(time["window"], time[memory])
        if found:
            size = max(found)
            parts.append(_reading_words(memory, found[size], size))
            numbers |= {f"window_over_{memory}": found[size].value, "bytes": size}
    said = [f"Reading a shared window again takes {join_and(parts)}."] if parts else []
    if found := ratios(time["field"], time["private-huge"]):
        size = max(found)
        said.append(
            f"Reading a field of the halo library again takes {_reading_words('private-huge', found[size], size)}."
        )
        numbers["field_over_private-huge"] = found[size].value
    if not said:
        return
    yield Finding(
        topic="pages",
        title="Reading memory again",
        statement=" ".join(said),
        numbers=numbers,
        weight=1.1,
    )


def _by_memory(records: pl.DataFrame, metric: str) -> dict[str, dict[int, Point]]:
    return {memory: curve(records, "pages", metric, memory=memory) for memory in NAMES}


def _cost(faults: Point, time: Point | None, size: int) -> str:
    count = f"{format_count(round(faults.value * MIB / size, 2))} page faults"
    return count + (f" and {format_ns(time.value * MIB / size)}" if time else "")


def _huge_gain(
    profile: Profile, time: dict[str, dict[int, Point]], faults: dict[str, dict[int, Point]], size: int
) -> tuple[str, str]:
    """Returns (sentence on the effect of huge pages under a window, action); or (sentence why huge pages could not be
    measured, '')."""
    missing = _why_missing(profile.records)
    if missing:
        return f"Huge pages under a window could not be had: {missing}.", ""
    if size not in common_keys(faults["window"], faults["window-huge"]):
        return "", ""
    both = ratios(time["window"], time["window-huge"]).get(size)
    if both and both.low > _CLEAR:
        return (
            f"Huge pages under the window make its first touch {ratio_text(both.value)} faster.",
            _huge_page_advice(profile),
        )
    fewer = faults["window"][size].value / max(faults["window-huge"][size].value, 1)
    if fewer <= 1:
        return "", ""
    words = f"With huge pages under it the window has {ratio_text(fewer)} fewer page faults"
    return (f"{words}." if both else f"{words}; how much time that saves is not known: the times are not stable."), ""


def _huge_page_advice(profile: Profile) -> str:
    """Returns how to enable huge pages for windows: by the kernel's setting for shared memory, or without root by
    MADV_COLLAPSE."""
    shmem = profile.machine.pages.shmem
    setting = f" (now '{shmem}')" if shmem else ""
    return (
        "Allocate large windows once and keep them; with root, set /sys/kernel/mm/transparent_hugepage/shmem_enabled"
        f"{setting} to 'within_size'; without, madvise(MADV_COLLAPSE) does it for one mapping."
    )


def _why_missing(records: pl.DataFrame) -> str | None:
    rows = pick(records, scenario="pages", memory="window-huge").filter(pl.col("value").is_null())
    return next(iter(rows["note"].drop_nulls()), None)


def _reading_words(memory: str, ratio: Estimate, size: int) -> str:
    same = ratio.low <= 1 <= ratio.high or abs(ratio.value - 1) < 0.05
    how = "as long as" if same else f"{ratio_text(ratio.value)} as long as"
    return f"{how} {NAMES[memory]} ({format_bytes(size)})"
