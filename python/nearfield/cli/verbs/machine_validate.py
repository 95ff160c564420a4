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
            help="The measurements of that machine. Given twice: the second profile shows how well times repeat.",
            show_default=False,
        ),
    ],
    bar: Annotated[
        float | None,
        typer.Option(help="Exit code 1 if the error of a scenario is larger than this factor.", show_default=False),
    ] = None,
    max_size: Annotated[str, typer.Option(help="Compare only messages up to this size.")] = "4MiB",
    out: Annotated[
        Path | None, out_option(help="Write a page with the measured and simulated curves.", metavar="FILE")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown and nothing else.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Print the scores of an untrustworthy profile, too; the exit code is 6 nevertheless."
        ),
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
    validation = _validate_machine(name, against, force=force, max_bytes=parse_bytes(max_size))
    if out and (force or not validation.doubts):
        _write_page(validation, out)
    if as_json:
        print(json.dumps(validation.as_dict(), indent=1))
    elif force or not validation.doubts:
        _print_validation(validation, markdown=markdown)
    for doubt in validation.doubts:
        err.print(f"[bold red]cannot tell:[/bold red] {escape(doubt)}")
    if out and (force or not validation.doubts):
        err.print(f"page: [bold]{escape(str(out))}[/bold]")
    raise typer.Exit(_exit_code(validation, bar))


def _validate_machine(name: str, against: list[Path], *, force: bool, max_bytes: int) -> Validation:
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


def _write_page(validation: Validation, out: Path) -> None:
    from nearfield.ui.html import write_page
    from nearfield.validate.page import render_page

    write_page(out, render_page(validation))


def _print_validation(validation: Validation, *, markdown: bool) -> None:
    from nearfield.validate import table as tables

    if markdown:
        print(tables.format_markdown(validation), end="")
        return
    first, *rest = tables.TABLE_HEADER
    table = Table(Column(first, key=True), *map(Column, rest))
    for row in tables.table_rows(validation):
        table.add_row(*map(escape, row))
    Terminal().print(table)
    for note in tables.table_notes(validation):
        Terminal().print(f"  {escape(note)}")


def _exit_code(validation: Validation, max_error_factor: float | None) -> int:
    if validation.doubts or not validation.scores:
        return NOT_DECIDED_EXIT_CODE
    if max_error_factor is None:
        return 0
    beyond = validation.scores_beyond(max_error_factor)
    for one in beyond:
        err.print(f"{one.scenario} {one.metric}: x{one.error:.2f} is beyond the limit of x{max_error_factor:g}")
    return BEYOND_BAR if beyond else 0
