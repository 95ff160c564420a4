"""`nearfield forecast`: predicts how much a program can gain by tuning, before any tuning."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.cli.options import CONTEXT as CONTEXT
from nearfield.cli.options import Command, MpiOfCommand, out_option, profile_option, rules_option
from nearfield.ui.terminal import Terminal, err


def command(
    argv: Command,
    rules: Annotated[
        Path | None, rules_option(help="Rules whose measured times separate transfer from waiting.")
    ] = None,
    profile: Annotated[Path | None, profile_option(help="A profile to use instead of rules.")] = None,
    out: Annotated[Path | None, out_option(help="Save the recording of each rank there.")] = None,
    mpi_name: MpiOfCommand = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else after the program.")] = False,
) -> None:
    """Run a program once with the baseline MPI, and report how much of its time MPI takes, where, and the most that
    rules, direct collectives or the halo library could gain.

    A thin layer times the calls: it reads the time-stamp counter twice for each. "At most" counts the whole time of the
    calls that would become faster, with the waiting in it; "likely" counts only the transfer of the messages, by the
    times in the rules or the profile.

    The exit code is the program's own if it fails, and 6 if the run allows no conclusion: it was too short, too
    disturbed by other programs, or not recorded on all ranks.

    Examples:

      nearfield forecast -- mpirun -n 4 ./app

      nearfield forecast --rules demo-profile/rules.toml -- mpirun -n 4 ./app

      nearfield forecast --json -p demo-profile -- srun -n 64 ./app input
    """
    from nearfield.forecast import saying
    from nearfield.forecast.recording import prepare_recording
    from nearfield.forecast.sources import find_message_times
    from nearfield.mpi.run_child import run_as_child

    message_times = find_message_times(rules, profile)
    with prepare_recording(
        argv, os.environ, mpi_name=mpi_name, out=out, progress=lambda line: err.print(f"nearfield: {line}")
    ) as record:
        code = run_as_child(argv, record.environment, record.scratch_folders)
        run = record.read_run(message_times)
    if as_json:
        print(json.dumps(saying.run_as_dict(run), indent=1))
    elif code and not run.ranks:
        err.print(f"nearfield: the command ended with exit code {code} before any rank called MPI")
    else:
        console = Terminal()
        for line in (*saying.report_lines(run), *saying.next_commands(run, argv, rules, record.mpi_name)):
            console.print(escape(line) if isinstance(line, str) else line)
    raise typer.Exit(code or (NOT_DECIDED_EXIT_CODE if run.inconclusive_reasons() else 0))
