"""`nearfield reproduce`: judges the papers' claims by simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nearfield import itself
from nearfield.cli.case_bar import CaseBar
from nearfield.measure.sim import pool
from nearfield.measure.stop import Stop
from nearfield.report.markup import write_page
from nearfield.reproduce.outcome import JudgedPaper, Reproduction, counts
from nearfield.reproduce.page import render
from nearfield.reproduce.papers import choose, load_paper, paper_files
from nearfield.reproduce.session import Settings
from nearfield.reproduce.session import reproduce as run_reproduction
from nearfield.terminal import Column, Table, Terminal, err
from nearfield.units import counted

_MARKS = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "[dim]–[/dim]"}
_COLOURS = {"within": "green", "shape only": "cyan", "in part": "yellow", "not": "red", "by construction": "dim",
            "not simulated": "dim"}  # fmt: skip


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

    Examples:

      nearfield reproduce S0 S3 S4

      nearfield reproduce S0.4 S0.5 --out eager

      nearfield reproduce --list
    """
    wanted = choose(list(claims or ()))
    if list_:
        _list(wanted, as_json)
        return
    at_once = jobs or pool.cores()
    with Stop() as stop, CaseBar(err, at_once) as bar:
        settings = Settings(out, quick, itself.typed())
        found = run_reproduction(wanted, settings, pool.on_cores(at_once, stop), bar)
    page = write_page(out / "report.html", render(found, out))
    if as_json:
        print(found.model_dump_json(indent=1))
    else:
        for paper in found.papers:
            _show(paper)
        _count(found)
    if not found.complete:
        err.print("stopped: incomplete claims are not judged; the same command goes on")
        raise typer.Exit(stop.exit_code)
    err.print(f"page: [bold]{escape(str(page))}[/bold]   the simulated profiles are beside it")


def _show(paper: JudgedPaper) -> None:
    Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
    Terminal().print(_judged(paper))
    if paper.chosen:
        told = counted(len(paper.chosen), "free parameter")
        Terminal().print(f"[dim]{told} behind these claims: see the page, or --json[/dim]")


def _judged(paper: JudgedPaper) -> Table:
    table = Table(Column("claim", key=True), *(Column(heading, prose=True) for heading in ("", "the paper", "ours")))
    for claim in paper.claims:
        colour = _COLOURS[claim.verdict]
        table.add_row(f"[bold]{claim.id}[/bold]", f"[{colour} bold]{claim.verdict}[/{colour} bold]", "", "")
        for statement in claim.statements:
            mark, ours = _MARKS[statement.holds], escape(statement.ours)
            if statement.not_counted:
                mark, ours = f"({mark})", f"{ours} [dim](not counted: {escape(statement.not_counted)})[/dim]"
            if statement.why:
                ours += f" [dim](why: {escape(statement.why)})[/dim]"
            table.add_row("", f"{mark} {escape(statement.says)}", escape(statement.paper), ours)
        if claim.note:
            table.add_row("", f"[dim]{escape(claim.note)}[/dim]", "", "")
    return table


def _count(found: Reproduction) -> None:
    verdicts = [claim.verdict for paper in found.papers for claim in paper.claims]
    told = ", ".join(f"{verdicts.count(name)} {name}" for name in _COLOURS if name in verdicts)
    held, judged = counts(one for paper in found.papers for claim in paper.claims for one in claim.statements)
    Terminal().print(f"\n{counted(len(verdicts), 'claim')}: {told}; {held} of {counted(judged, 'statement')} hold")


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
