"""Formats the counters of `nearfield simulate trace`, as human-readable tables and data for --json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from nearfield._native.memory import Counts, LevelCounts
from nearfield.base.units import counted, format_bytes, format_ns, format_rounded
from nearfield.simulate.source import STANDARD_INPUT
from nearfield.simulate.trace import TraceRun
from nearfield.ui.terminal import Column, Table, Terminal

# Heading of a column -> counter of a cache. A column of zeros is left out unless it is in _ALWAYS_SHOWN_HEADINGS.
_LEVEL_COUNTER_BY_HEADING = {
    "evictions": "evictions", "write-backs": "write_backs", "prefetches": "prefetches", "snoops": "snoops",
    "invalidations": "invalidations", "back-invalidations": "back_invalidations",
}  # fmt: skip
_DRAM_COUNTER_BY_HEADING = {"reads": "reads", "writes": "writes", "prefetches": "prefetches"}
_ALWAYS_SHOWN_HEADINGS = ("evictions", "write-backs", "reads", "writes")


def print_trace_counts(run: TraceRun, files: list[str], seconds: float) -> None:
    """Prints tables of caches, DRAM, TLBs and times, and the speed of the simulation."""
    out = Terminal()
    counts = run.memory.counts
    out.print(
        f"\n[bold]{escape(_format_file_names(files))}[/bold] on {escape(run.memory.machine.name)}: "
        f"{_describe_accesses(run)}"
    )
    for remark in _make_remarks(run):
        out.print(f"[dim]{escape(remark)}[/dim]")
    for table in (_caches_table(counts), _dram_table(counts), _tlbs_table(counts), _times_table(run)):
        if table.rows:
            out.print()
            out.print(table)
    rate = run.accesses / seconds if seconds else 0.0
    out.print(f"\n{run.accesses:,} accesses simulated in {format_ns(seconds * 1e9)}: "
              f"{format_rounded(rate)} a second")  # fmt: skip


def as_dict(run: TraceRun, files: list[str], seconds: float, whole: bool) -> dict[str, Any]:
    """Returns the counters for --json."""
    found, counts = run.native_accesses, run.memory.counts
    return {
        "machine": run.memory.machine.name,
        "files": files,
        "formats": run.format_names,
        "complete": whole,
        "accesses": run.accesses,
        **{name: getattr(found, name) for name in ("loads", "stores", "instructions", "others", "skipped")},
        "threads": run.threads,
        **counts.to_dict(),
        "times": [{"memory_slowdown": slowdown, "cycles": cycles, "ns": time_ns}
                  for slowdown, cycles, time_ns in _times_by_speed(run)],
        "seconds": seconds,
    }  # fmt: skip


def _format_file_names(files: list[str]) -> str:
    names = ["standard input" if name == STANDARD_INPUT else name for name in files]
    return ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} more"


def _describe_accesses(run: TraceRun) -> str:
    fetched = f", {run.native_accesses.instructions:,} instructions" if run.selection.instructions else ""
    parts = f"{run.native_accesses.loads:,} loads, {run.native_accesses.stores:,} stores{fetched}"
    return f"{run.accesses:,} accesses ({parts})"


def _make_remarks(run: TraceRun) -> list[str]:
    found, cores = run.native_accesses, run.memory.cores
    remarks = []
    if found.skipped:
        remarks.append(f"the first {found.skipped:,} accesses skipped")
    if found.instructions and not run.selection.instructions:
        remarks.append(f"{found.instructions:,} instructions skipped; --instructions simulates them as loads")
    if found.others:
        remarks.append(f"{found.others:,} prefetches, flushes and similar records skipped")
    if run.threads > cores:
        remarks.append(
            f"{run.threads} threads share {counted(cores, 'core')} in turn: that is all that the machine has"
        )
    elif run.threads > 1:
        remarks.append(f"{run.threads} threads on as many cores, in the order of the trace")
    remarks.append(bound_sentence(run.selection.chase))
    return remarks


def bound_sentence(chase: bool) -> str:
    """Returns a sentence that says whether the times of a trace are a lower or an upper bound."""
    if chase:
        return "times assume that every load needs the data of the one before it: an upper bound for these accesses"
    return "times assume independent loads and are a lower bound; --chase simulates dependent loads, the upper bound"


def _caches_table(counts: Counts) -> Table:
    used = [heading for heading, name in _LEVEL_COUNTER_BY_HEADING.items() if _has_counts(counts.levels, name, heading)]
    table = Table(Column("cache", key=True), *_number_columns("accesses", "hits", "misses", "miss rate", *used))
    for number, level in enumerate(counts.levels, 1):
        table.add_row(
            f"L{number}",
            *_format_hits(level),
            *(f"{getattr(level, _LEVEL_COUNTER_BY_HEADING[heading]):,}" for heading in used),
        )
    return table


def _dram_table(counts: Counts) -> Table:
    used = [heading for heading, name in _DRAM_COUNTER_BY_HEADING.items() if _has_counts([counts.dram], name, heading)]
    faults = ["page faults"] if counts.page_faults else []
    table = Table(Column("", key=True), *_number_columns(*used, "bytes", *faults))
    cells = [f"{getattr(counts.dram, _DRAM_COUNTER_BY_HEADING[heading]):,}" for heading in used]
    table.add_row(
        "DRAM", *cells, format_bytes(counts.dram.bytes, digits=3), *[f"{counts.page_faults:,}" for _ in faults]
    )
    return table


def _tlbs_table(counts: Counts) -> Table:
    table = Table(Column("TLB", key=True), *_number_columns("accesses", "hits", "misses", "miss rate"))
    for number, tlb in enumerate(counts.tlbs, 1):
        table.add_row(f"L{number}", *_format_hits(tlb))
    return table


def _times_table(run: TraceRun) -> Table:
    table = Table(
        Column("memory slowdown", key=True, right=True), *_number_columns("cycles", "time", "cycles per access")
    )
    for slowdown, cycles, time_ns in _times_by_speed(run):
        per_access = f"{cycles / run.accesses:.3g}" if run.accesses else "-"
        table.add_row(f"{slowdown:g}", f"{cycles:,.0f}", format_ns(time_ns), per_access)
    return table


def _times_by_speed(run: TraceRun) -> list[tuple[float, float, float]]:
    return list(zip(run.memory.memory_slowdown, run.memory.cycles, run.memory.now_ns, strict=True))


def _has_counts(levels: Sequence[Any], name: str, heading: str) -> bool:
    return heading in _ALWAYS_SHOWN_HEADINGS or any(getattr(level, name) for level in levels)


def _number_columns(*headings: str) -> list[Column]:
    return [Column(heading, right=True) for heading in headings]


def _format_hits(counts: LevelCounts | Any) -> list[str]:
    accesses = counts.hits + counts.misses
    rate = f"{counts.misses / accesses * 100:.3g} %" if accesses else "-"
    return [f"{accesses:,}", f"{counts.hits:,}", f"{counts.misses:,}", rate]
