"""`nearfield machine validate`: compares the simulation of a described machine with measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.base.units import parse_bytes
from nearfield.cli import complete
from nearfield.cli.options import AsJson, out_option
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.validate.validation import Validation

BEYOND_BAR = 1


def command(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="The described machine.", autocompletion=complete.machines),
    ],
    against: Annotated[
        list[Path],
        typer.Option(
            "--against",
            metavar="PROFILE|TIMES.csv",
            help="What was measured there. Twice: the second profile shows how well times repeat.",
            show_default=False,
        ),
    ],
    bar: Annotated[
        float | None,
        typer.Option(help="Exit code 1 if the error of a scenario is larger than this factor.", show_default=False),
    ] = None,
    max_size: Annotated[str, typer.Option(help="Compare nothing that is longer.")] = "4MiB",
    out: Annotated[
        Path | None, out_option(help="Write a page with the measured and simulated curves.", metavar="FILE")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown and nothing else.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Print the scores of an untrustworthy profile, too; the exit code stays 6.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the simulation of a described machine with measurements on that machine.

    Every measured case is simulated. For each scenario the table has the geometric mean of simulated over measured
    times, their spread, the mean error as a factor, and beside it how well measurements repeat. Times to which the
    description was fitted are not scored. A profile that contradicts itself, that was disturbed, or whose cores were
    at another place than described is refused, with the reason and exit code 6.

      nearfield machine validate mine.toml --against nearfield-profile --bar 1.25 -o validation.html

      nearfield machine validate mine.toml --against TIMES.csv
    """
    if len(against) > 2:
        raise UsageError(f"--against is given {len(against)} times", "Once, or twice to see how well times repeat.")
    if bar is not None and not bar >= 1:
        raise UsageError(f"--bar {bar:g}: an error is a factor of at least 1", "For example --bar 1.25.")
    found = _validate(name, against, force=force, max_bytes=parse_bytes(max_size))
    if out and (force or not found.doubts):
        _write_page(found, out)
    if as_json:
        print(json.dumps(found.as_dict(), indent=1))
    elif force or not found.doubts:
        _print(found, markdown=markdown)
    for doubt in found.doubts:
        err.print(f"[bold red]cannot tell:[/bold red] {escape(doubt)}")
    if out and (force or not found.doubts):
        err.print(f"page: [bold]{escape(str(out))}[/bold]")
    raise typer.Exit(_exit_code(found, bar))


def _validate(name: str, against: list[Path], *, force: bool, max_bytes: int) -> Validation:
    from nearfield.machine import load_machine
    from nearfield.profile import load
    from nearfield.ui.progress import ProgressDisplay
    from nearfield.validate import cases, scores, trust
    from nearfield.validate.validation import Validation, validate

    machine = load_machine(name)
    if against[0].suffix != ".csv" and not force and (doubts := list(trust.find_doubts(load(against[0]), machine))):
        none = scores.StateOrder(0, 0)  # an untrustworthy profile is not compared with a simulation
        return Validation(machine, [str(path) for path in against], cases.SimulatedCases(), doubts, [], none, [])
    with ProgressDisplay() as display:
        return validate(machine, against, display, max_bytes)


def _write_page(found: Validation, out: Path) -> None:
    from nearfield.ui.html import write_page
    from nearfield.validate.page import render_page

    write_page(out, render_page(found))


def _print(found: Validation, *, markdown: bool) -> None:
    from nearfield.validate import table as tables

    if markdown:
        print(tables.format_markdown(found), end="")
        return
    first, *rest = tables.TABLE_HEADER
    table = Table(Column(first, key=True), *map(Column, rest))
    for row in tables.table_rows(found):
        table.add_row(*map(escape, row))
    Terminal().print(table)
    for note in tables.table_notes(found):
        Terminal().print(f"  {escape(note)}")


def _exit_code(found: Validation, bar: float | None) -> int:
    if found.doubts or not found.scores:
        return NOT_DECIDED_EXIT_CODE
    if bar is None:
        return 0
    beyond = found.scores_beyond(bar)
    for one in beyond:
        err.print(f"{one.scenario} {one.metric}: x{one.error:.2f} is beyond the bar of x{bar:g}")
    return BEYOND_BAR if beyond else 0
