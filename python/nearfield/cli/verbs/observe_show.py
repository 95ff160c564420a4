"""`nearfield observe show`: prints a summary of a trace."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base.files import atomic_write
from nearfield.base.units import format_bytes, format_rounded
from nearfield.base.words import as_sentence, join_and
from nearfield.cli.options import AsJson
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.observe.source_lines import SourceLine
    from nearfield.observe.summary import CallSums, RankSummary

MAX_LINES = 12


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="TRACE", help="A folder that `nearfield observe` made (default: the newest one here)."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every call and line, not only the top ones.")] = False,
    timeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the MPI calls of each rank over time as Chrome trace JSON instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the contents of a trace: what each rank did, which source lines access memory most, and the bytes and time
    of each MPI call. "no core" is how long a rank was ready to run while other processes had its core.

    Times are those of the observed run, in which accesses take longer than in an unobserved one; MPI calls do not.

    The file of --timeline opens at https://ui.perfetto.dev. Ranks are aligned at the end of their first common
    collective, since clocks of hosts differ.
    """
    from nearfield.cli.trace_argument import find_trace, require_output_file
    from nearfield.observe.summary import missing_function_names_advice, summarize
    from nearfield.observe.timeline import observed_timeline

    trace = find_trace(folder)
    if timeline:
        require_output_file(timeline, "--timeline")
        text, problems = observed_timeline(trace)
        atomic_write(timeline, text, "name another file, in a folder that you may write")
        for problem in problems:
            err.print(f"nearfield: {escape(problem)}")
        err.print(f"timeline: [bold]{escape(str(timeline))}[/bold]   next: open it at https://ui.perfetto.dev")
        return
    summaries = summarize(trace)
    if as_json:
        print(
            json.dumps(
                {"trace": json.loads(trace.metadata.model_dump_json()), "ranks": _summaries_as_dicts(summaries)},
                indent=1,
            )
        )
        return
    out = Terminal()
    about = trace.metadata
    where = f" under {about.mpi}" if about.mpi else ""
    how = f"ended by {about.ended_by}" if about.ended_by else f"exit code {about.exit_code}"
    out.print(f"{escape(about.command)}{where}: {about.seconds:.1f} s observed, {how}")
    out.print(_make_rank_table(summaries))
    for table in (_make_line_table(summaries, every), _make_call_table(summaries, every)):
        if table.rows:
            out.print()
            out.print(table)
    shown = [calls.line for summary in summaries for calls in summary.calls]
    if lack := missing_function_names_advice([*shown, *(line for summary in summaries for line in summary.lines)]):
        out.print(f"\n[dim]{escape(as_sentence(lack))}[/dim]")
    for summary in summaries:
        for reason in dict.fromkeys(summary.refused):
            out.print(f"rank {summary.rank} cannot be simulated: {reason}")
        if summary.problem:
            out.print(f"rank {summary.rank}: {summary.problem}")


def _summaries_as_dicts(summaries: list[RankSummary]) -> list[dict[str, object]]:
    def plain(summary: RankSummary) -> dict[str, object]:
        calls = [{**asdict(one), "peers": sorted(one.peers)} for one in summary.calls]
        lines = [
            {**asdict(line), "accesses": count, "flops": summary.flops.get(line, 0.0)}
            for line, count in summary.lines.most_common()
        ]
        return {**vars(summary), "calls": calls, "lines": lines, "flops": sum(summary.flops.values())}

    return [plain(summary) for summary in summaries]


def _make_rank_table(summaries: list[RankSummary]) -> Table:
    has_delays = any(one.delayed_seconds is not None for one in summaries)
    right = ["loads", "stores", "accessed", "MPI calls", "in MPI", "sent"]
    right += [*(["no core"] if has_delays else []), "on disk", "byte/access"]
    table = Table(Column("rank", key=True), Column("host"), *(Column(name, right=True) for name in right))
    for one in summaries:
        accesses = one.loads + one.stores
        table.add_row(
            str(one.rank), one.host or "-", format_rounded(one.loads), format_rounded(one.stores),
            format_bytes(one.accessed_bytes), str(sum(calls.calls for calls in one.calls)),
            f"{sum(calls.seconds for calls in one.calls):.3f} s",
            format_bytes(sum(calls.sent_bytes for calls in one.calls)), *([_format_delay(one)] if has_delays else []),
            format_bytes(one.stream_bytes),
            f"{one.stream_bytes / accesses:.3f}" if accesses else "-",
        )  # fmt: skip
    return table


def _format_delay(summary: RankSummary) -> str:
    return "-" if summary.delayed_seconds is None else f"{summary.delayed_seconds:.3f} s"


def _make_line_table(summaries: list[RankSummary], shows_all: bool) -> Table:
    right = ("accesses", "share", "flops")
    table = Table(Column("accesses at", key=True), *(Column(name, right=True) for name in right))
    together: Counter[SourceLine] = sum((summary.lines for summary in summaries), Counter())
    for line, accesses in together.most_common(None if shows_all else MAX_LINES):
        flops = sum(summary.flops.get(line, 0.0) for summary in summaries)
        share = f"{accesses / together.total():.1%}"
        table.add_row(str(line), format_rounded(accesses), share, format_rounded(flops) if flops else "-")
    return table


def _make_call_table(summaries: list[RankSummary], shows_all: bool) -> Table:
    from nearfield.observe.summary import combine_ranks

    right = ("calls", "time", "sent", "received")
    table = Table(Column("call", key=True), Column("at", key=True), *(Column(name, right=True) for name in right),
                  Column("peers"))  # fmt: skip
    for calls in combine_ranks(summaries)[: None if shows_all else MAX_LINES]:
        table.add_row(
            calls.name, str(calls.line), str(calls.calls), f"{calls.seconds:.4f} s",
            _format_bytes_or_dash(calls.sent_bytes), _format_bytes_or_dash(calls.received_bytes), _format_peers(calls),
        )  # fmt: skip
    return table


def _format_bytes_or_dash(size_bytes: int) -> str:
    return format_bytes(size_bytes) if size_bytes else "-"


def _format_peers(calls: CallSums) -> str:
    peers = sorted(calls.peers)
    return f"{len(peers)} ranks" if len(peers) > 4 else join_and([str(peer) for peer in peers]) if peers else "-"
