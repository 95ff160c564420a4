"""`nearfield run --learn`: runs a program, saves the collectives that it calls, and prints those that take significant
time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from nearfield.apply import learn
from nearfield.base import own_command
from nearfield.base.units import format_bytes, format_ns
from nearfield.rules.called_collectives import MIN_TIME_SHARE, CalledCollectives
from nearfield.ui.progress import ProgressDisplay
from nearfield.ui.terminal import Column, Table, Terminal, err

MAX_ROWS = 20


def run(argv: Sequence[str], environment: Mapping[str, str], out: Path, mpi_name: str | None) -> int:
    """Runs the command and saves the collectives that it calls to `out`. Returns the command's exit code."""
    with ProgressDisplay() as display:
        learning = learn.prepare_learning(argv, environment, out, mpi_name, display)
    code, called = learning.run()
    if called is None:
        err.print(f"the program failed (exit code {code}): nothing was saved in {escape(str(out))}")
        return code
    if not called.call:
        err.print("the program called no collective that rules could select an algorithm for")
        return code
    _print_called_collectives(called)
    err.print(f"collectives: [bold]{escape(str(out))}[/bold]")
    err.print(f"next: {escape(own_command.command_line('tune', '--collectives', '--calls', out))}")
    return code


def _print_called_collectives(called: CalledCollectives) -> None:
    """Prints the collectives with at least MIN_TIME_SHARE of the time to standard error, because standard output
    belongs to the program."""
    names = ("ranks", "length", "calls", "time in them", "share")
    table = Table(Column("collective", key=True), *(Column(name, right=True) for name in names))
    shown = [one for one in called.call if one.seconds >= MIN_TIME_SHARE * called.total_s][:MAX_ROWS]
    for one in shown:
        length = format_bytes(one.size_bytes) if one.size_bytes else "-"
        share = f"{one.seconds / called.total_s:.0%}" if called.total_s else "-"
        table.add_row(
            one.operation, one.format_communicator_shape, length, str(one.calls), format_ns(one.seconds * 1e9), share
        )
    Terminal(stderr=True).print(table)
    err.print(f"a rank spent {format_ns(called.total_s * 1e9)} in collectives in the mean, waiting for others included")
