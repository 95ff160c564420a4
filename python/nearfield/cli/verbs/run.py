"""`nearfield run`: runs an unmodified program with tuned MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearfield.cli.fast_dispatch import start_run
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import Command, Force, MpiOfCommand, NoForecast, RulesOfCommand


def command(
    argv: Command,
    rules: RulesOfCommand = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print which variables are set.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Report how the messages inside this node were copied, and why.")
    ] = False,
    log: Annotated[
        str, typer.Option("--log", metavar="FILE", help="Add a JSON line about this job. Default: $NEARFIELD_LOG.")
    ] = "",
    no_forecast: NoForecast = False,
    collectives: Annotated[
        bool,
        typer.Option(
            "--collectives", help="Also do the collectives of ranks on one node directly (docs: collectives)."
        ),
    ] = False,
    learn: Annotated[
        Path | None,
        typer.Option("--learn", metavar="FILE", help="Count the collectives that the program calls, for `tune`."),
    ] = None,
    force: Force = False,
    mpi_name: MpiOfCommand = None,
) -> None:
    """Run an unmodified program under the rules that `nearfield tune` found.

    This process execs the command, so output, signals and exit code are unchanged. With --explain the command runs as a
    child, to which signals are forwarded. At its end, standard error gets the share of MPI in the run, and a table of
    how many messages each rank copied in user space, how many the kernel copied for it, and why. With --log, too, the
    command runs as a child, and a line of JSON is added to a file: date, command, ranks, the share of MPI and the most
    to gain.

    With --collectives, barriers, broadcasts, reductions, gathers and all-to-alls between ranks of one node go through
    memory that these ranks share, instead of through messages. Results are the same but for the order in which
    floating-point numbers are added, which is the same in all runs. This works without rules, too; rules of `tune
    --collectives` select the fastest algorithms, and then this option is not needed. With -v, the first rank says at
    the end how many collectives were done so; with --explain, also how long they took.

    With --learn, the program runs while its collectives are counted by operation, number of ranks and length, which
    takes little time; the MPI does them. `nearfield tune --collectives --calls FILE` then measures what the program
    spends its time in, and nothing else, which takes seconds.

    Examples:

      nearfield run -- mpirun -n 4 ./app

      nearfield run -v --rules site/rules.toml -- srun -n 64 ./app input

      nearfield run --explain -- mpirun -n 4 ./app

      nearfield run -v --collectives -- mpirun -n 4 ./app

      nearfield run --learn calls.toml -- mpirun -n 4 ./app
    """
    # cli/fast_dispatch.py parses the same options without typer
    start_run(argv, rules, verbose, force, mpi_name, explain, log, no_forecast, collectives, learn)
