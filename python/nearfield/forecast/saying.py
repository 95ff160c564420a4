"""Describes a recorded run, its time in MPI, and the possible speed-up: as text, and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nearfield.base import own_command
from nearfield.base.units import counted, format_bytes, format_rounded
from nearfield.base.words import capitalize
from nearfield.forecast.ceiling import SpeedupCeiling, processor_seconds, seconds_without_core
from nearfield.forecast.ranks import RecordedRank
from nearfield.forecast.run import MAX_LAYER_SHARE, CallSummary, RecordedRun
from nearfield.ui.terminal import Column, Table

MAX_CALL_ROWS = 6  # maximum number of rows in the table of calls
MIN_SPEEDUP = 1.02  # smaller speed-ups are ignored
# A call with at least this share of MPI's time is named in the sentence on the maximum speed-up.
_MIN_NAMED_CALL_SHARE = 0.5
_MIN_NAMED_EXTRA_SHARE = 0.02  # if time outside of MPI adds at least this share of the run to the gain, it is named


def run_sentences(run: RecordedRun) -> Iterator[str]:
    """Yields sentences that describe a run, the first of them on disturbances of the host if there were any."""
    if reasons := run.inconclusive_reasons():
        yield f"cannot tell: {'; '.join(reasons)}"
    if not run.ranks:
        return
    one = run.ranks[0]
    library = one.library.partition(",")[0] or "an unknown MPI"
    nodes = len({rank.host for rank in run.ranks})
    ranks = f"run: {counted(len(run.ranks), 'rank')} on {counted(nodes, 'node')}, {library}"
    if not run.is_complete:
        yield f"{ranks}; {run.duration_s:.3g} s from MPI_Init to the last call; how busy the host was is not known"
        return
    processor = sum(map(processor_seconds, run.ranks)) / len(run.ranks)
    yield f"{ranks}; {run.duration_s:.3g} s from MPI_Init to MPI_Finalize, {processor:.3g} s of processor time a rank"
    if crowded := run.oversubscribed_node:
        yield f"{crowded[0]} ranks share {crowded[1]} cores: a rank that waits takes time from a rank that computes"
    yield (
        f"the ranks had no core in {run.share_without_core:.0%} of the time in which they could run; other programs "
        f"took {run.cores_used_by_others:.1f} cores of a node"
    )
    if run.profiling_layer_share > MAX_LAYER_SHARE:
        share = f"{run.profiling_layer_share:.1%}"
        yield f"the layer itself took at least {share} of the run, since it makes so many short calls"


def share_sentence(run: RecordedRun) -> str:
    """Returns a sentence on the share of MPI in the run, and on the share of data transfer in that."""
    lowest, highest = min(run.mpi_shares), max(run.mpi_shares)
    spread = f" ({lowest:.1%} to {highest:.1%} by rank)" if highest - lowest > 0.01 else ""
    text = f"MPI took {run.mpi_share:.1%} of this run{spread}"
    moved = run.transfer_share
    if moved is None:
        return f"{text}; how much of it is waiting is not known without measured times (--rules or -p)"
    assert run.message_times
    parts = f"{moved:.1%} moves data, {run.mpi_share - moved:.1%} waits for others"
    return f"{text}: {parts} (by the times of {run.message_times.origin})"


def ceiling_sentence(run: RecordedRun, is_under_rules: bool = False) -> str:
    """Returns a sentence on the maximum speed-up by rules and on the most expensive MPI call; '' if no rank was
    recorded. `is_under_rules` is set if the run already used rules."""
    rules = run.rules_ceiling
    if not rules:
        return ""
    means = "better rules could" if is_under_rules else "rules can"
    text = f"MPI took {run.mpi_share:.1%} of this run"
    if rules.max_speedup:
        affected = 1 - 1 / rules.max_speedup
        if affected > run.mpi_share + _MIN_NAMED_EXTRA_SHARE:
            text += f"; with the time between polls, page faults and waiting for cores it is {affected:.1%}"
        text += f", so {means} make it at most {rules.max_speedup_text} as fast"
    else:
        text = f"MPI took {run.mpi_share:.1%} of this run, and how much {means} gain has no bound that it shows"
    lines = run.call_summaries()
    total = sum(line.duration_s for line in lines)
    if total > 0 and lines[0].duration_s >= _MIN_NAMED_CALL_SHARE * total:
        text += f"; {lines[0].duration_s / total:.0%} of MPI's time is in {_format_call_with_size(lines[0])}"
    if run.inconclusive_reasons():
        text += f". But this is uncertain: {'; '.join(run.inconclusive_reasons())}"
    return text


def _format_call_with_size(line: CallSummary) -> str:
    """Returns the name of an MPI call with the mean size of its messages."""
    return f"{line.name} of {_format_mean_size(line)}" if line.total_bytes else line.name


def _format_mean_size(line: CallSummary) -> str:
    """Returns the mean size of a call's messages as text."""
    return format_bytes(round(line.mean_bytes)) if line.mean_bytes < 1024 else format_bytes(line.mean_bytes, digits=3)


def calls_table(run: RecordedRun) -> Table:
    """Returns a table of the most expensive MPI calls: message size, number of calls, time, waiting and source line."""
    right = ("size", "calls", "time", "share", "waiting")
    table = Table(Column("call", key=True), *(Column(name, right=True) for name in right), Column("at"))
    lines = run.call_summaries()[:MAX_CALL_ROWS]
    all_of_it = sum(rank.duration_s for rank in run.ranks)
    for line in lines:
        table.add_row(
            line.name, _format_mean_size(line) if line.num_messages else "-", format_rounded(line.num_calls),
            f"{line.duration_s:.3g} s", f"{line.duration_s / all_of_it:.1%}",
            "-" if line.waiting_s is None else f"{line.waiting_s:.3g} s",
            line.source_line,
        )  # fmt: skip
    return table


def ceilings_table(run: RecordedRun) -> Table:
    """Returns a table of the likely and maximum speed-up by each of nearfield's tools."""
    table = Table(Column("improvement", key=True), Column("likely", right=True), Column("at most", right=True),
                  Column("since", prose=True))  # fmt: skip
    for one in run.ceilings:
        likely = f"{one.likely_speedup:.2f}x" if one.likely_speedup else "not known"
        table.add_row(
            one.tool, likely, one.max_speedup_text, f"{one.share_of_time:.1%} of the ranks' time is in its calls"
        )
    return table


def next_commands(run: RecordedRun, argv: Sequence[str], rules: Path | None = None, mpi: str = "") -> list[str]:
    """Returns up to three commands to run next, or a sentence if there is nothing to gain. `rules` is the rules file
    given to the forecast, and `mpi` the name of the program's MPI."""
    if not run.ranks:
        return []
    if not run.inconclusive_reasons() and max(map(_max_speedup_or_infinity, run.ceilings)) < MIN_SPEEDUP:
        return ["nearfield cannot speed this program up: it does not spend its time in MPI inside a node"]
    if run.message_times and run.message_times.has_rules:
        commands = [own_command.command_line("compare", *(("--rules", rules) if rules else ()), "--", *argv)]
    else:
        commands = [own_command.command_line("tune", *(("--mpi", mpi) if mpi else ()))]
    waits = run.transfer_share is not None and run.transfer_share < run.mpi_share / 2
    if waits:
        commands.append(
            own_command.command_line("observe", "--", *argv) + "   (finds late ranks; then: advise on the trace)"
        )
    if _max_speedup_or_infinity(run.ceilings[2]) >= MIN_SPEEDUP:
        commands.append(own_command.command_line("rewrite", "--help") + "   (or docs/tutorials/halo.md)")
    return [f"next: {command}" for command in commands[:3]]


def _max_speedup_or_infinity(ceiling: SpeedupCeiling) -> float:
    """Returns the maximum speed-up by a tool; infinity if there is no bound."""
    return ceiling.max_speedup or float("inf")


def run_as_dict(run: RecordedRun) -> dict[str, Any]:
    """Returns a run as data for JSON."""
    return {
        **run_summary(run),
        "undecided": run.inconclusive_reasons(),
        "others_cores": run.cores_used_by_others if run.is_complete else None,
        "layer_share": run.profiling_layer_share,
        "prices": run.message_times.origin if run.message_times else None,
        "transfer_share": run.transfer_share,
        "per_rank": [_rank_as_dict(rank) for rank in run.ranks],
        "calls": [
            {
                "name": line.name, "at": line.source_line, "mean_bytes": line.mean_bytes,
                "calls": line.num_calls, "messages": line.num_messages, "bytes": line.total_bytes,
                "seconds": line.duration_s, "waiting_seconds": line.waiting_s,
            }
            for line in run.call_summaries()
        ],
    }  # fmt: skip


def run_summary(run: RecordedRun) -> dict[str, Any]:
    """Returns the key numbers of a run as data, for a log of many runs."""
    return {
        "decided": not run.inconclusive_reasons(),
        "ranks": len(run.ranks),
        "seconds": run.duration_s,
        "mpi_share": run.mpi_share,
        "no_core_share": run.share_without_core if run.is_complete else None,
        "ceilings": [{"means": c.tool, "likely": c.likely_speedup, "at_most": c.max_speedup} for c in run.ceilings],
    }


def _rank_as_dict(rank: RecordedRank) -> dict[str, Any]:
    """Returns one rank of a run as data for JSON."""
    begin, end = rank.begin_usage, rank.end_usage
    return {
        "rank": rank.rank, "host": rank.host, "state": rank.state.name.lower(), "seconds": rank.duration_s,
        "processor_seconds": processor_seconds(rank) if rank.end_usage else None,
        "no_core_seconds": seconds_without_core(rank) if rank.end_usage else None,
        "in_mpi_seconds": rank.in_mpi_s, "threads": rank.num_threads, "sent_to_node_bytes": rank.sent_to_node_bytes,
        "sent_to_others_bytes": rank.sent_to_others_bytes,
        "involuntary_switches": end.involuntary_switches - begin.involuntary_switches if end else None,
        "minor_faults": end.minor_faults - begin.minor_faults if end else None,
        "fault_ns": rank.page_fault_ns, "call_ns": rank.layer_call_ns,
    }  # fmt: skip


def traffic_sentence(run: RecordedRun) -> str:
    """Returns a sentence on the bytes that ranks sent in messages to their own node and to others."""
    to_node, to_others = sum(r.sent_to_node_bytes for r in run.ranks), sum(r.sent_to_others_bytes for r in run.ranks)
    if not to_node + to_others:
        return "no messages between two ranks were sent"
    return f"messages between two ranks: {format_bytes(to_node, digits=3)} inside nodes, " + (
        f"{format_bytes(to_others, digits=3)} to others" if to_others else "none to others"
    )


def report_lines(run: RecordedRun) -> Iterator[str | Table]:
    """Yields the whole report on a run as sentences and tables, in reading order."""
    for sentence in run_sentences(run):
        yield capitalize(sentence)
    if not run.ceilings:
        return
    yield ""
    yield share_sentence(run)
    yield capitalize(traffic_sentence(run))
    yield calls_table(run)
    yield ""
    yield ceilings_table(run)
