"""`nearfield observe`: records a program's memory accesses and MPI calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.units import counted, format_bytes, format_rounded
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import Command, MpiOfCommand, Valgrind, out_option
from nearfield.ui.terminal import err

FURTHER = {"show": "observe_show"}


def command(
    argv: Command,
    out: Annotated[Path | None, out_option(help="Where the trace goes (default: PROGRAM.trace).")] = None,
    region: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Record only accesses in this function and in its callees; pcontrol: from MPI_Pcontrol(1) to (0).",
        ),
    ] = "",
    valgrind: Valgrind = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the trace in the folder.")] = False,
    mpi_name: MpiOfCommand = None,
) -> None:
    """Run a program and record its memory accesses and MPI calls, in order: a trace, for `nearfield simulate run` and
    `nearfield advise`.

    If the program was compiled with `nearfield cc`, `cxx` or `fc`, every load and store is recorded; otherwise only MPI
    calls are, unless Valgrind runs it (--valgrind). Results, output and exit code are those of the unobserved program;
    with hooks it runs ten to forty times as long, under Valgrind about thirty times. A trace is small, far less than a
    byte per access, because loops are stored as loops.

    Only the first thread of each process is recorded.

    Examples:

      OMPI_CC="nearfield cc" mpicc -O2 -g app.c -o app

      nearfield observe -- mpirun -n 4 ./app

      nearfield observe -o solve --region solve -- mpirun -n 4 ./app

      nearfield observe --valgrind -- mpirun -n 4 ./app-of-somebody-else

      nearfield observe show app.trace
    """
    from nearfield.observe.ending import signal_name
    from nearfield.observe.observing import default_trace_folder, observe

    out = out or default_trace_folder(argv)
    done = observe(
        argv, out, region=region, valgrind=valgrind, force=force, mpi_name=mpi_name,
        progress=lambda line: err.print(f"nearfield: {line}"),
    )  # fmt: skip
    about = done.trace.metadata
    if done.end_signal:
        err.print(
            f"nearfield: {signal_name(done.end_signal)} ended the program; what it did until then can be shown, but "
            "not simulated"
        )
    err.print(
        f"nearfield: {escape(str(out))} holds {counted(about.ranks, 'stream')} with {format_rounded(about.accesses)} "
        f"accesses in {format_bytes(about.stream_bytes)}: {escape(own_command.command_line('observe', 'show', out))}"
    )
    if done.end_signal:
        raise typer.Exit(128 + done.end_signal)
    if not about.accesses:
        err.print(f"nearfield: {_why_no_accesses(valgrind=valgrind, is_whole=not done.problem)}")
    if done.problem:
        err.print(f"nearfield: the trace is not whole: {escape(done.problem)}")
    raise typer.Exit(about.exit_code or (1 if done.problem else 0))


def _why_no_accesses(*, valgrind: bool, is_whole: bool) -> str:
    """Returns the reason why a trace contains no memory accesses."""
    if not is_whole:
        return "no accesses are recorded: a rank writes them by 8 MiB and at its end, and the program ended before"
    if valgrind:
        return "only MPI calls were recorded: the program made no accesses that Valgrind saw"
    return (
        f"only MPI calls were recorded: the program was not compiled by {own_command.command_line('cc')}, cxx or fc; "
        "--valgrind records the accesses of such a program"
    )
