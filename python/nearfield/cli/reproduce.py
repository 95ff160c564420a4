"""`nearfield reproduce`: judges the papers' claims by simulation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nearfield import itself, mpi
from nearfield.cli import complete
from nearfield.cli.case_bar import CaseBar
from nearfield.cli.launch_bar import LaunchBar
from nearfield.errors import NOT_DECIDED, UsageError
from nearfield.measure.sim import Case, Listener, pool
from nearfield.measure.stop import Stop
from nearfield.report.markup import write_page
from nearfield.reproduce.here.measure import Measured, Setup, measure
from nearfield.reproduce.outcome import Answer, JudgedPaper, Reproduction, standing
from nearfield.reproduce.page import render
from nearfield.reproduce.papers import choose, load_paper, paper_files
from nearfield.reproduce.session import Settings, Traces, Wanted, opened
from nearfield.reproduce.session import reproduce as run_reproduction
from nearfield.reproduce.traced import Traced, answering, parse_traces
from nearfield.terminal import Column, Table, Terminal, err
from nearfield.units import counted

_MARKS = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "[dim]–[/dim]"}
_COLOURS = {"within": "green", "shape only": "cyan", "in part": "yellow", "not": "red", "by construction": "dim",
            "not simulated": "dim"}  # fmt: skip
_MANY = {"holds": "hold", "does not": "do not", "cannot tell": "cannot be told"}
_HERE = {"holds": "green", "does not": "red", "cannot tell": "yellow"}


def _claim_names(incomplete: str) -> list[str]:
    """Returns the names of claims for completion in the shell."""
    papers = [load_paper(name) for name in paper_files()]
    names = [*(paper.name for paper in papers), *(claim.id for paper in papers for claim in paper.claim)]
    return [name for name in names if name.startswith(incomplete)]


def command(
    claims: Annotated[
        list[str] | None,
        typer.Argument(help="papers or single claims: S0 S3.1 (default: all)", autocompletion=_claim_names),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="fewer sizes")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="folder; what it holds is not simulated again")] = Path(
        "reproduction"
    ),
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="processes (default: one per core)")] = None,
    here: Annotated[
        bool, typer.Option("--here", help="measure the same on this machine, too: at most 15 minutes, --quick 4")
    ] = False,
    here_only: Annotated[
        bool, typer.Option("--here-only", help="the same, but simulate nothing, and show only what is asked here")
    ] = False,
    mpi_name: Annotated[
        str | None,
        typer.Option("--mpi", help="with --here: which MPI, a name of `nearfield mpi`", autocompletion=complete.mpis),
    ] = None,
    hostfile: Annotated[
        Path | None, typer.Option(help="with --here: measure between these nodes, too; as `nearfield probe` takes it")
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--trace", metavar="NAME=TRACE", help="judge by a real program, too: amg=TRACE, fft:4MiB=TRACE (repeatable)"
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="list the claims and stop")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON and nothing else")] = False,
) -> None:
    """Simulate what five papers measured, on the machines that they describe, and judge each claim by the records.

    S0: caches and point-to-point. S1: shared memory. S2: tuning by locality. S3: strides and network load. S4: cache
    injection. Nothing is fitted to a claim: numbers come from machines/*.toml with their sources, and numbers that no
    source states are listed with the claims that they touch (--json, and the page).

    A claim consists of statements. A number is reproduced if ours is within a quarter of the paper's. Shapes are which
    curve is higher, where it stays the same, where it bends. Verdicts: 'within' (everything holds), 'shape only'
    (shapes hold, a number does not), 'in part', 'not', 'not simulated'.

    The folder gets a profile for each simulated machine, which `nearfield show` and `report` read, and report.html, a
    page with all verdicts. Ctrl-C loses nothing: the same command goes on.

    --here asks this machine, too: it measures what the statements mean on any machine, in several launches, and a
    further column says 'holds', 'does not', or 'cannot tell' where launches differ too much, are incomplete, or ran
    while the machine was busy. The exit code is 6 if nothing could be told. No paper's verdict depends on it. Keep the
    machine quiet meanwhile. The folder keeps each launch as a profile.

    --trace asks a real program, in place of the imitation of the application that the paper names: a trace that
    `nearfield observe` made, on as many nodes as it has ranks. A further column says what it answers; no verdict
    depends on it.

    Examples:

      nearfield reproduce S0 S3 S4

      nearfield reproduce S4 --trace amg=amg-8 --trace amg=amg-64 --trace fft:4MiB=fft-8

      nearfield reproduce S0.4 S0.5 --out eager

      nearfield reproduce --here --quick S0 S1

      nearfield reproduce --list
    """
    wanted = choose(list(claims or ()))
    if list_:
        _list(wanted, as_json)
        return
    here = here or here_only
    if not here and (mpi_name or hostfile):
        raise UsageError(f"--{'mpi' if mpi_name else 'hostfile'} is for measuring", "Add --here, or leave it out.")
    real = parse_traces(traces or ())
    measured = _measure(wanted, out, mpi_name, hostfile, quick) if here else None
    stopped = measured.stopped_by if measured else None
    at_once = jobs or pool.cores()
    settings = Settings(out, quick, itself.typed())
    by_traces = _by_traces(wanted, real, settings) if real else None
    with Stop() as stop, CaseBar(err, at_once) as bar:
        if stopped or here_only:
            found = run_reproduction(wanted, settings, _nothing, Listener(), measured, by_traces)
        else:
            found = run_reproduction(wanted, settings, pool.on_cores(at_once, stop), bar, measured, by_traces)
    page = write_page(out / "report.html", render(found, out))
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        for paper in found.papers:
            if here_only:
                _show_here(paper)
            else:
                _show(paper)
        _count(found, here_only)
    if stopped or (not found.complete and not here_only):
        err.print("stopped: incomplete claims are not judged; the same command goes on")
        raise typer.Exit(128 + stopped if stopped else stop.exit_code)
    err.print(f"page: [bold]{escape(str(page))}[/bold]   the profiles are beside it")
    if here and not {"holds", "does not"} & set(_words_here(found)):
        err.print("nothing could be told of this machine: the column 'here' says why, statement by statement")
        raise typer.Exit(NOT_DECIDED)


def _measure(wanted: Wanted, out: Path, mpi_name: str | None, hostfile: Path | None, quick: bool) -> Measured:
    opened(out)
    inst = mpi.choose(mpi_name)
    setup = Setup(out / "here" / inst.name, mpi_name or inst.name, str(hostfile.resolve()) if hostfile else None, quick)
    with LaunchBar(err) as bar:
        return measure(wanted, setup, bar)


def _by_traces(wanted: Wanted, traces: list[Traced], settings: Settings) -> Traces:
    with Stop() as stop:
        try:
            return stop.run(
                lambda: answering(wanted, traces, settings, lambda line: err.print(f"nearfield: {escape(line)}"))
            )
        except KeyboardInterrupt:
            raise typer.Exit(stop.exit_code) from None


def _nothing(cases: list[Case]) -> Iterator[pool.Finished]:
    """Simulates no case."""
    return iter(())


def _show(paper: JudgedPaper) -> None:
    Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
    Terminal().print(_judged(paper))
    if paper.chosen:
        told = counted(len(paper.chosen), "free parameter")
        Terminal().print(f"[dim]{told} behind these claims: see the page, or --json[/dim]")


def _show_here(paper: JudgedPaper) -> None:
    """Prints what this machine says, and nothing of what was not asked here."""
    prose = (Column(heading, prose=True) for heading in ("", "the paper", "here"))
    table = Table(Column("claim", key=True), *prose, text=True)
    for claim in paper.claims:
        if asked := [(one, one.here) for one in claim.statements if one.here and (one.here.answer or one.here.ours)]:
            table.add_row(f"[bold]{claim.id}[/bold]", "", "", "")
            for statement, here in asked:
                table.add_row("", escape(statement.says), escape(statement.paper), _here(here))
    if table.rows:
        Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
        Terminal().print(table)


def _judged(paper: JudgedPaper) -> Table:
    statements = [one for claim in paper.claims for one in claim.statements]
    beside = [name for name in ("here", "traced") if any(getattr(one, name) for one in statements)]
    headings = ("", "the paper", "ours (simulated)" if beside else "ours", *beside)
    table = Table(Column("claim", key=True), *(Column(heading, prose=True) for heading in headings), text=True)

    def add_row(key: str, *cells: str) -> None:
        table.add_row(key, *cells, *[""] * (len(headings) - len(cells)))

    for claim in paper.claims:
        colour = _COLOURS[claim.verdict]
        add_row(f"[bold]{claim.id}[/bold]", f"[{colour} bold]{claim.verdict}[/{colour} bold]")
        for statement in claim.statements:
            mark, ours = _MARKS[statement.holds], escape(statement.ours)
            if statement.not_counted:
                mark, ours = f"({mark})", f"{ours} [dim](not counted: {escape(statement.not_counted)})[/dim]"
            if statement.why:
                ours += f" [dim](why: {escape(statement.why)})[/dim]"
            here = [_here(answer) if (answer := getattr(statement, name)) else "" for name in beside]
            add_row("", f"{mark} {escape(statement.says)}", escape(statement.paper), ours, *here)
        if claim.note:
            add_row("", f"[dim]{escape(claim.note)}[/dim]")
    return table


def _here(here: Answer) -> str:
    ours = escape(here.ours)
    if not here.answer:
        return f"[dim]{ours}[/dim]"
    colour = _HERE[here.answer]
    return f"[{colour} bold]{here.answer}[/{colour} bold]: {ours}"


def _count(found: Reproduction, here_only: bool) -> None:
    verdicts = [claim.verdict for paper in found.papers for claim in paper.claims]
    told = ", ".join(f"{verdicts.count(name)} {name}" for name in _COLOURS if name in verdicts)
    if not here_only:
        Terminal().print(f"\n{counted(len(verdicts), 'claim')}: {told}; {standing(found.papers)}")
    if found.traced:
        answers = [one.traced.answer for p in found.papers for c in p.claims for one in c.statements if one.traced]
        told = ", ".join(f"{answers.count(word)} {_MANY[word]}" for word in ("holds", "does not"))
        Terminal().print(f"traced ({escape(', '.join(one.name for one in found.traced))}): {told}")
    if found.here:
        words = _words_here(found)
        told = ", ".join(f"{words.count(word)} {many}" for word, many in _MANY.items())
        where = f"{found.here.mpi}, {counted(found.here.launches, 'launch', 'launches')}"
        Terminal().print(f"here ({escape(where)}): {told}; {words.count('')} are not asked here")


def _words_here(found: Reproduction) -> list[str]:
    """Returns what this machine answered to each statement; '' to one that is not asked here."""
    return [one.here.answer for p in found.papers for c in p.claims for one in c.statements if one.here]


def _list(wanted: list[Any], as_json: bool) -> None:
    if as_json:
        found = [{"paper": paper.name, "id": claim.id, "says": claim.says, "where": claim.where}
                 for paper, claims in wanted for claim in claims]  # fmt: skip
        print(json.dumps(found, indent=1))
        return
    for paper, claims in wanted:
        Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
        Terminal().print(_listed(claims))


def _listed(claims: list[Any]) -> Table:
    table = Table(Column("claim", key=True), Column("what the paper says", prose=True), Column("where", prose=True))
    for claim in claims:
        table.add_row(claim.id, escape(claim.says), escape(claim.where))
    return table
