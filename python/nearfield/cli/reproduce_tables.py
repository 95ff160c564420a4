"""Shows what `nearfield reproduce` found: the verdicts, and the answers of this machine and of real programs."""

from __future__ import annotations

import json
from typing import Any

from rich.markup import escape

from nearfield.base.units import counted
from nearfield.reproduce.outcome import Answer, JudgedPaper, Reproduction, standing
from nearfield.reproduce.session import Wanted
from nearfield.ui.terminal import Column, Table, Terminal

_MARKS = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "[dim]–[/dim]"}
_COLOURS = {"within": "green", "shape only": "cyan", "in part": "yellow", "not": "red", "by construction": "dim",
            "not simulated": "dim"}  # fmt: skip
_MANY = {"holds": "hold", "does not": "do not", "cannot tell": "cannot be told"}
_HERE = {"holds": "green", "does not": "red", "cannot tell": "yellow"}


def show(paper: JudgedPaper) -> None:
    """Prints the verdicts on a paper's claims."""
    Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
    Terminal().print(_judged(paper))
    if paper.chosen:
        told = counted(len(paper.chosen), "free parameter")
        Terminal().print(f"[dim]{told} behind these claims: see the page, or --json[/dim]")


def show_here(paper: JudgedPaper) -> None:
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


def count(found: Reproduction, here_only: bool) -> None:
    """Prints how many claims and statements there are of each verdict and answer."""
    verdicts = [claim.verdict for paper in found.papers for claim in paper.claims]
    told = ", ".join(f"{verdicts.count(name)} {name}" for name in _COLOURS if name in verdicts)
    if not here_only:
        Terminal().print(f"\n{counted(len(verdicts), 'claim')}: {told}; {standing(found.papers)}")
    if found.traced:
        answers = [one.traced.answer for p in found.papers for c in p.claims for one in c.statements if one.traced]
        told = ", ".join(f"{answers.count(word)} {_MANY[word]}" for word in ("holds", "does not"))
        Terminal().print(f"traced ({escape(', '.join(one.name for one in found.traced))}): {told}")
    if found.here:
        words = words_here(found)
        told = ", ".join(f"{words.count(word)} {many}" for word, many in _MANY.items())
        where = f"{found.here.mpi}, {counted(found.here.launches, 'launch', 'launches')}"
        Terminal().print(f"here ({escape(where)}): {told}; {words.count('')} are not asked here")


def words_here(found: Reproduction) -> list[str]:
    """Returns what this machine answered to each statement; '' to one that is not asked here."""
    return [one.here.answer for p in found.papers for c in p.claims for one in c.statements if one.here]


def list_claims(wanted: Wanted, as_json: bool) -> None:
    """Prints what the claims say, and where the papers say it."""
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
