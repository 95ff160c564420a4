"""`nearfield run`: an unmodified program under tuned MPI."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from nearfield.errors import MpiError
from nearfield.tune.apply import Application, application, environment_of, farther_apart, require_fit
from nearfield.tune.recognise import recognise
from nearfield.tune.rules import find_rules, load_rules

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # -n 4 belongs to the launcher

RulesOption = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="Default: $NEARFIELD_RULES, else rules.toml here."),
]
MpiOption = Annotated[
    str | None, typer.Option("--mpi", help="The MPI, where neither launcher nor program tells it (srun python ...).")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Although the rules are for another MPI or machine.")]
CommandArgument = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="As without nearfield.")]


def command(
    argv: CommandArgument,
    rules: RulesOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what is set.")] = False,
    force: ForceOption = False,
    mpi_name: MpiOption = None,
) -> None:
    """Run an unmodified program with what `nearfield tune` found.

    The command becomes this process: its output, its exit code and signals to it are its own.

    Examples:

      nearfield run -- mpirun -n 4 ./app

      nearfield run -v --rules site/rules.toml -- srun -n 64 ./app input
    """
    made = prepared(argv, rules, force, mpi_name)
    for warning in made.warnings:
        print(f"nearfield: {warning}", file=sys.stderr)
    if verbose:
        for note in made.notes:
            print(f"nearfield: {note}", file=sys.stderr)
    try:
        os.execvpe(argv[0], argv, environment_of(made))
    except OSError as error:
        raise MpiError(f"cannot start {argv[0]}: {error.strerror}") from error


def prepared(argv: list[str], file: Path | None, force: bool, mpi_name: str | None) -> Application:
    """What to set for this command; nothing while the rules do not hold, errors if they are not for it."""
    path = find_rules(file)
    rules = load_rules(path)
    try:
        found = recognise(argv, mpi_name)
    except MpiError:
        if not force:
            raise
        return application(rules)
    if not force:
        require_fit(rules, found, str(path))
        if why := farther_apart(rules):
            return Application(warnings=[why])
    return application(rules, found)
