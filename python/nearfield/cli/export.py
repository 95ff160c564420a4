"""`nearfield export`: rules in the form in which a site installs them for everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from nearfield import itself
from nearfield.errors import ProfileError, UsageError
from nearfield.profile.words import suggestion
from nearfield.tune.apply import application
from nearfield.tune.formats import FORMATS
from nearfield.tune.rules import Rules, find_rules, load_rules

_FORMATS = "; ".join(f"{name}: {spec.summary}" for name, spec in FORMATS.items())

err = Console(stderr=True, highlight=False, soft_wrap=True)


def command(
    family: Annotated[
        str, typer.Option("--for", help="openmpi, mpich, intel or ucx (default: what the rules are for).")
    ] = "",
    form: Annotated[str, typer.Option("--format", help=f"{_FORMATS}.")] = "env",
    rules: Annotated[Path | None, typer.Option("--rules", metavar="FILE", help="Default: rules.toml here.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Default: standard output.")] = None,
) -> None:
    """Write rules as the environment, defaults file, modulefile or Slurm prolog of a site.

    Examples:

      nearfield export --format env > /etc/profile.d/mpi-tuning.sh

      nearfield export --for openmpi --format conf -o openmpi-mca-params.conf
    """
    if form not in FORMATS:
        raise UsageError(f"unknown format '{form}'", suggestion(form, list(FORMATS)))
    path = find_rules(rules)
    text = exported(load_rules(path), family, form, path)
    if out is None:
        print(text, end="")
        return
    try:
        out.write_text(text)
    except OSError as error:
        raise ProfileError(f"cannot write {out}: {error.strerror}", "choose another file with --out") from error
    err.print(f"written: [bold]{escape(str(out))}[/bold]")


def exported(rules: Rules, family: str, form: str, path: Path) -> str:
    """The file's text. UsageError where rules are of another family or the MPI has no such file."""
    theirs = rules.knobs().family
    if family and family != theirs:
        raise UsageError(
            f"the rules in {path} are for {theirs}, not {family}",
            f"leave out --for, or: {itself.command('tune', '--mpi', family)}",
        )
    environment = application(rules, here={}).environment
    environment.pop("ASAN_OPTIONS", None)  # of use to whoever looks for mistakes in programs, who are few
    comments = [
        f"Tuned for {rules.mpi.family} {rules.mpi.version} on {rules.machine.cpu_model}",
        f"by nearfield {rules.nearfield} on {rules.host}, {rules.created}: {rules.command}",
    ]
    text = FORMATS[form].write(theirs, rules.mpi.version, comments, environment)
    if text is None:
        raise UsageError(f"{theirs} has no file of defaults of its own", "use --format env, module or slurm")
    return text
