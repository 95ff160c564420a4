"""`nearfield doctor`: reports what can be measured on this machine, what cannot, and the remedy."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from nearfield.cli.options import AsJson
from nearfield.ui.terminal import Column, Table, Terminal

if TYPE_CHECKING:
    from nearfield.doctor import Check

MARKS = {"ok": "[green]✓ ok[/green]", "limited": "[yellow]! limited[/yellow]", "missing": "[red]✗ missing[/red]"}


def command(
    as_json: AsJson = False,
) -> None:
    """Report what can be measured on this machine, what cannot, and what to do about it."""
    from nearfield.doctor import examine

    checks = examine()
    blocked = any(check.blocks for check in checks)
    if as_json:
        print(json.dumps({"possible": not blocked, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        console = Terminal()
        console.print(checks_table(checks))
        for check in checks:
            if check.status != "ok":
                console.print(f"\n[bold]{check.name}[/bold]: {escape(check.means)}.")
                console.print(f"  [dim]→[/dim] {escape(check.remedy)}")
        console.print(f"\n{verdict_line(checks)}")
    raise typer.Exit(1 if blocked else 0)


def checks_table(checks: list[Check]) -> Table:
    """Returns a table with a row for each check."""
    table = Table(Column(key=True), Column("check", key=True), Column("found", prose=True))
    for check in checks:
        table.add_row(MARKS[check.status], check.name, escape(check.found))
    return table


def verdict_line(checks: list[Check]) -> str:
    """Returns a line that states whether this machine can be measured."""
    blocking = [check.name for check in checks if check.blocks]
    if blocking:
        return f"[bold red]Nothing can be measured[/bold red] until this is put right: {', '.join(blocking)}."
    fine = sum(check.status == "ok" for check in checks)
    limits = [check.name for check in checks if check.status != "ok"]
    rest = f"; limits: {', '.join(limits)}" if limits else ""
    return f"[bold green]Measuring is possible[/bold green]: {fine} of {len(checks)} checks are fine{rest}."
