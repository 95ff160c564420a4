"""Finds the costs of touching memory for the first time, private or in a shared MPI window, with small and huge pages
(claims S1.3 and S1.4 in papers/S1/claims.toml)."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.base.estimates import Estimate
from nearfield.base.frames import pl
from nearfield.base.units import format_bytes, format_count, format_ns
from nearfield.base.words import capitalize, join_and
from nearfield.profile import Profile
from nearfield.profile.curves import Point, common_x_values, curve, ratios, select_records
from nearfield.report.findings.finding import Finding
from nearfield.report.formatting import format_factor

MEMORY_NAMES = {
    "private": "private memory",
    "private-huge": "private memory with huge pages",
    "window": "a shared window",
    "window-huge": "a shared window with huge pages",
    "field": "a field of the halo library",
}
MIB = 1 << 20
_MIN_CLEAR_GAIN = 1.05


def find_first_touch_cost(profile: Profile) -> Iterator[Finding]:
    """Yields a finding, for the largest buffer, with the page faults and the time of the first touch per MiB, and with
    the gain of huge pages for a shared window."""
    faults = _curves_by_memory(profile.records, "first_touch_faults")
    sizes = [size for memory in faults.values() for size in memory]
    if not sizes:
        return
    size = max(sizes)
    time = _curves_by_memory(profile.records, "first_touch")
    parts: list[str] = []
    numbers: dict[str, float] = {"bytes": size}
    for memory, name in MEMORY_NAMES.items():
        if size in faults[memory]:
            parts.append(f"{name} {_format_touch_cost(faults[memory][size], time[memory].get(size), size)}")
            numbers[f"faults_per_mib_{memory}"] = faults[memory][size].value * MIB / size
    gain, action = _describe_huge_page_gain(profile, time, faults, size)
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
    """Yields a finding that compares repeated reads of a shared window with those of private memory and of a window
    with huge pages."""
    time = _curves_by_memory(profile.records, "traverse")
    parts: list[str] = []
    numbers: dict[str, float] = {}
    for memory in ("private", "window-huge"):
        ratio_by_size = ratios(time["window"], time[memory])
        if ratio_by_size:
            size = max(ratio_by_size)
            parts.append(_format_read_ratio(memory, ratio_by_size[size], size))
            numbers |= {f"window_over_{memory}": ratio_by_size[size].value, "bytes": size}
    sentences = [f"Reading a shared window again takes {join_and(parts)}."] if parts else []
    if ratio_by_size := ratios(time["field"], time["private-huge"]):
        size = max(ratio_by_size)
        sentences.append(
            "Reading a field of the halo library again takes "
            f"{_format_read_ratio('private-huge', ratio_by_size[size], size)}."
        )
        numbers["field_over_private-huge"] = ratio_by_size[size].value
    if not sentences:
        return
    yield Finding(
        topic="pages",
        title="Reading memory again",
        statement=" ".join(sentences),
        numbers=numbers,
        weight=1.1,
    )


def _curves_by_memory(records: pl.DataFrame, metric: str) -> dict[str, dict[int, Point]]:
    return {memory: curve(records, "pages", metric, memory=memory) for memory in MEMORY_NAMES}


def _format_touch_cost(faults: Point, time: Point | None, size: int) -> str:
    count = f"{format_count(round(faults.value * MIB / size, 2))} page faults"
    return count + (f" and {format_ns(time.value * MIB / size)}" if time else "")


def _describe_huge_page_gain(
    profile: Profile, time: dict[str, dict[int, Point]], faults: dict[str, dict[int, Point]], size: int
) -> tuple[str, str]:
    """Returns a sentence on the effect of huge pages in a shared window and an action. If huge pages could not be
    measured, the sentence says why and the action is ''."""
    reason = _reason_without_huge_pages(profile.records)
    if reason:
        return f"Huge pages under a window could not be had: {reason}.", ""
    if size not in common_x_values(faults["window"], faults["window-huge"]):
        return "", ""
    first_touch_ratio = ratios(time["window"], time["window-huge"]).get(size)
    if first_touch_ratio and first_touch_ratio.low > _MIN_CLEAR_GAIN:
        return (
            f"Huge pages under the window make its first touch {format_factor(first_touch_ratio.value)} faster.",
            _huge_page_advice(profile),
        )
    fault_ratio = faults["window"][size].value / max(faults["window-huge"][size].value, 1)
    if fault_ratio <= 1:
        return "", ""
    sentence = f"With huge pages under it the window has {format_factor(fault_ratio)} fewer page faults"
    return (
        f"{sentence}."
        if first_touch_ratio
        else f"{sentence}; how much time that saves is not known: the times are not stable."
    ), ""


def _huge_page_advice(profile: Profile) -> str:
    """Returns how to enable huge pages for windows: by the kernel's setting for shared memory, or without root by
    MADV_COLLAPSE."""
    shmem = profile.machine.pages.shmem
    setting = f" (now '{shmem}')" if shmem else ""
    return (
        "Allocate large windows once and reuse them; with root, set /sys/kernel/mm/transparent_hugepage/shmem_enabled"
        f"{setting} to 'within_size'; without, madvise(MADV_COLLAPSE) does it for one mapping."
    )


def _reason_without_huge_pages(records: pl.DataFrame) -> str | None:
    rows = select_records(records, scenario="pages", memory="window-huge").filter(pl.col("value").is_null())
    return next(iter(rows["note"].drop_nulls()), None)


def _format_read_ratio(memory: str, ratio: Estimate, size: int) -> str:
    is_same = ratio.low <= 1 <= ratio.high or abs(ratio.value - 1) < 0.05
    duration_text = "as long as" if is_same else f"{format_factor(ratio.value)} as long as"
    return f"{duration_text} {MEMORY_NAMES[memory]} ({format_bytes(size)})"
