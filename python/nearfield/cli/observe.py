"""`nearfield observe`: records what a program does with memory and MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearfield import itself
from nearfield.cli import complete
from nearfield.observe.observing import observe
from nearfield.terminal import err
from nearfield.units import counted, format_bytes, format_rounded

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # -n 4 belongs to the launcher
FURTHER = {"show": "observe_show"}


def command(
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="the command as without nearfield")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="where the trace goes")] = Path("trace"),
    region: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="accesses in this function and what it calls only; pcontrol: from MPI_Pcontrol(1) to (0)",
        ),
    ] = "",
    valgrind: Annotated[
        bool, typer.Option("--valgrind", help="record loads and stores of a program that was compiled without hooks")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="replace the trace that the folder holds")] = False,
    mpi_name: Annotated[
        str | None,
        typer.Option("--mpi", help="the MPI, if the command does not tell it", autocompletion=complete.mpis),
    ] = None,
) -> None:
    """Run a program and record which bytes it touches and what it does with MPI, in order: a trace, for `nearfield
    simulate run` and `nearfield advise`.

    A program that was compiled with `nearfield cc`, `cxx` or `fc` records every load and store; any other one records
    its MPI calls only, unless Valgrind runs it (--valgrind). Its results, its output and its exit code are those of the
    unobserved program; with hooks it runs about ten times as long, under Valgrind about thirty times. A trace needs
    little room, far less than a byte for each access, because loops are stored as loops.

    Threads of a process beside the first one are not recorded.

    Examples:

      OMPI_CC="nearfield cc" mpicc -O2 -g app.c -o app

      nearfield observe -- mpirun -n 4 ./app

      nearfield observe -o solve --region solve -- mpirun -n 4 ./app

      nearfield observe --valgrind -- mpirun -n 4 ./app-of-somebody-else

      nearfield observe show trace
    """
    done = observe(
        argv, out, region=region, valgrind=valgrind, force=force, mpi_name=mpi_name,
        progress=lambda line: err.print(f"nearfield: {line}"),
    )  # fmt: skip
    about = done.trace.about
    err.print(
        f"nearfield: {out} holds {counted(about.ranks, 'stream')} with {format_rounded(about.accesses)} accesses in "
        f"{format_bytes(about.stream_bytes)}: {itself.command('observe', 'show', out)}"
    )
    if not about.accesses:
        err.print(
            f"nearfield: only MPI calls were recorded: the program was not compiled by {itself.command('cc')}, cxx or "
            "fc; --valgrind records the accesses of such a program"
        )
    if done.problem:
        err.print(f"nearfield: the trace is not whole: {done.problem}")
    raise typer.Exit(about.exit_code or (1 if done.problem else 0))
