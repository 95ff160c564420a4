"""Formats the results of `nearfield reproduce`: the verdicts on claims, and the answers of this machine and of traced
programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from nearfield.base.units import counted
from nearfield.reproduce.collect import MachineClaimVerdicts, claim_ids_of
from nearfield.reproduce.outcome import Answer, JudgedPaper, Reproduction, format_statement_counts
from nearfield.reproduce.score import further_score_texts, score_text
from nearfield.reproduce.session import SelectedClaims
from nearfield.ui.terminal import Column, Table, Terminal

_MARKS = {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "[dim]–[/dim]"}
_COLOURS = {"within": "green", "shape only": "cyan", "in part": "yellow", "not": "red", "cannot tell": "yellow",
            "by construction": "dim", "not simulated": "dim"}  # fmt: skip
_MANY = {"holds": "hold", "does not": "do not", "artefact": "are artefacts", "cannot tell": "cannot be told"}
_ANSWER_COLOURS = {"holds": "green", "does not": "red", "artefact": "red", "cannot tell": "yellow"}


def print_verdicts(paper: JudgedPaper) -> None:
    """Prints the verdicts on a paper's claims."""
    Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
    Terminal().print(_claims_table(paper))
    if paper.chosen:
        text = counted(len(paper.chosen), "free parameter")
        Terminal().print(f"[dim]{text} behind these claims: see the page, or --json[/dim]")


def print_live_answers(paper: JudgedPaper) -> None:
    """Prints this machine's answers to the statements of a paper; leaves out statements that were not tested on it."""
    prose = (Column(heading, prose=True) for heading in ("", "the paper", "here"))
    table = Table(Column("claim", key=True), *prose, text=True)
    for claim in paper.claims:
        if judged := [(one, one.here) for one in claim.statements if one.here and (one.here.answer or one.here.ours)]:
            table.add_row(f"[bold]{claim.id}[/bold]", "", "", "")
            for statement, answer in judged:
                table.add_row("", escape(statement.says), escape(statement.paper), _live_text(answer))
    if table.rows:
        Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
        Terminal().print(table)


def _claims_table(paper: JudgedPaper) -> Table:
    statements = [one for claim in paper.claims for one in claim.statements]
    columns = ["traced"] if any(one.traced for one in statements) else []
    headings = ("", "the paper", "ours (simulated)" if columns else "ours", *columns)
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
            answers = [_live_text(answer) if (answer := getattr(statement, name)) else "" for name in columns]
            add_row("", f"{mark} {escape(statement.says)}", escape(statement.paper), ours, *answers)
        if claim.note:
            add_row("", f"[dim]{escape(claim.note)}[/dim]")
    return table


def _live_text(answer: Answer) -> str:
    ours = escape(answer.ours)
    if not answer.answer:
        return f"[dim]{ours}[/dim]"
    colour = _ANSWER_COLOURS[answer.answer]
    control = f" [dim](control: {escape(answer.control)})[/dim]" if answer.control else ""
    return f"[{colour} bold]{answer.answer}[/{colour} bold]: {ours}{control}"


def print_counts(reproduction: Reproduction, live_only: bool) -> None:
    """Prints the number of claims for each verdict, and of statements for each answer."""
    verdicts = [claim.verdict for paper in reproduction.papers for claim in paper.claims]
    text = ", ".join(f"{verdicts.count(name)} {name}" for name in _COLOURS if name in verdicts)
    if not live_only:
        Terminal().print(f"\n{counted(len(verdicts), 'claim')}: {text}; {format_statement_counts(reproduction.papers)}")
        Terminal().print(f"score: {score_text(reproduction.score)}")
        for one in further_score_texts(reproduction.papers):
            Terminal().print(escape(one))
    if reproduction.traced:
        answers = [
            one.traced.answer for p in reproduction.papers for c in p.claims for one in c.statements if one.traced
        ]
        text = ", ".join(f"{answers.count(word)} {_MANY[word]}" for word in ("holds", "does not"))
        Terminal().print(f"traced ({escape(', '.join(one.name for one in reproduction.traced))}): {text}")
    if reproduction.here:
        words = live_answers(reproduction)
        text = ", ".join(f"{words.count(word)} {many}" for word, many in _MANY.items())
        where = f"{reproduction.here.mpi}, {counted(reproduction.here.launches, 'launch', 'launches')}"
        Terminal().print(f"here ({escape(where)}): {text}; {words.count('')} are not checked here")


def print_collected(machines: Sequence[MachineClaimVerdicts], as_json: bool) -> None:
    """Prints a table of the verdicts of several machines on the claims that they measured."""
    if as_json:
        print(json.dumps([one.model_dump() for one in machines], indent=1))
        return
    claims = claim_ids_of(machines)
    table = Table(Column("machine", key=True), Column("MPI"), Column("load"), *map(Column, claims))
    for one in machines:
        load = "" if one.here.load_1m is None else f"{one.here.load_1m:.1f}"
        words = [one.verdicts.get(claim, "") for claim in claims]
        table.add_row(escape(one.here.machine), escape(one.here.mpi), load, *words)
    Terminal().print(table)


def live_answers(reproduction: Reproduction) -> list[str]:
    """Returns this machine's answer to each statement; '' for statements that were not tested on it."""
    return [one.here.answer for p in reproduction.papers for c in p.claims for one in c.statements if one.here]


def list_claims(selected_claims: SelectedClaims, as_json: bool) -> None:
    """Prints the claims, and where in the papers they are stated."""
    if as_json:
        found = [{"paper": paper.name, "id": claim.id, "says": claim.says, "where": claim.where}
                 for paper, claims in selected_claims for claim in claims]  # fmt: skip
        print(json.dumps(found, indent=1))
        return
    for paper, claims in selected_claims:
        Terminal().print(f"\n[bold]{paper.name}[/bold]  {escape(paper.title)}")
        Terminal().print(_list_table(claims))


def _list_table(claims: list[Any]) -> Table:
    table = Table(Column("claim", key=True), Column("statement of the paper", prose=True), Column("where", prose=True))
    for claim in claims:
        table.add_row(claim.id, escape(claim.says), escape(claim.where))
    return table
