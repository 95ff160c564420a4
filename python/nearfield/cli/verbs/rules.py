"""The rules library: rules by processor model, which others have measured on machines like this one.

A stranger's rules save the three minutes of `nearfield tune`, but how much they gain was measured elsewhere: confirm it
here by `nearfield compare`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.units import counted, format_bytes
from nearfield.cli.options import AsJson, Mpi, out_option
from nearfield.rules import paths
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.apply.rules_library import RulesFit
    from nearfield.rules.schema import Rules

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help=__doc__,
    epilog="Start with `nearfield rules list`; how to contribute a file: docs/how-to/rules-library.md.",
)


@app.command("list")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules of the library, and which of them fit this machine and its MPIs.

    What differs is named: the processor, the caches, the distances of cores, or the MPI. For rules that depend on it,
    the core-to-core latency is measured, which takes some milliseconds.
    """
    from nearfield import mpi
    from nearfield.apply import rules_library as library

    machine, installations = library.describe_this_machine(), mpi.find_usable_mpis()
    rows = [
        (path, rules, library.check_fit(rules, machine, installations))
        for path in library.list_library_files()
        for rules in [library.read_rules(str(path))]
    ]
    if as_json:
        print(json.dumps([_as_dict(path, rules, fit) for path, rules, fit in rows], indent=1))
        return
    console = Terminal()
    if not rows:
        console.print("the library of this version has no rules yet")
        console.print(f"[dim]tune here: {escape(own_command.command_line('tune'))}[/dim]")
        return
    console.print(_make_rules_table(rows))
    if any(not fit.differences for _, _, fit in rows):
        console.print(f"[dim]take those that fit: {escape(own_command.command_line('rules', 'fetch'))}[/dim]")


@app.command()
def fetch(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|URL]",
            help="Rules of somebody else. Default: those of the library.",
            show_default=False,
        ),
    ] = None,
    mpi_name: Mpi = None,
    out: Annotated[
        Path | None,
        out_option(
            help="Where they go. Default: where `run` looks, rules.toml or nearfield-rules here.", metavar="FILE"
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a rules file, and take rules of another machine, too.")
    ] = False,
) -> None:
    """Copy the rules that fit this machine and an MPI to where `nearfield run` looks.

    Without DEFAULT_RULES_FILE or URL, they are those of the library. A file of a stranger is checked in the same way:
    its size, its schema, that it sets nothing but parameters that this MPI has, within their ranges, and that MPI,
    processor, caches and distances of cores are those of this machine. URLs must be https.

    Rules that you have tuned are not overwritten without --force.

    Examples:

      nearfield rules fetch

      nearfield rules fetch --mpi mpich -o mpich.toml

      nearfield rules fetch https://example.org/rules/openmpi-5.0-xeon.toml
    """
    from nearfield import mpi
    from nearfield.apply import rules_library as library
    from nearfield.rules.schema import save_rules

    machine = library.describe_this_machine()
    if source is None:
        installations = [mpi.choose_mpi(mpi_name)]
        path, rules = library.choose_library_rules(installations[0], machine)
        source = f"the rules library ({path.name})"
    else:
        installations = [mpi.choose_mpi(mpi_name)] if mpi_name else mpi.find_usable_mpis()
        rules = library.read_rules(source)
    fit = library.check_fit(rules, machine, installations)
    if fit.differences and not force:
        raise UsageError(
            f"the rules in {source} do not fit: {'; '.join(fit.differences)}",
            f"tune here: {own_command.command_line('tune')}   or install these anyway with --force",
        )
    out = out or _default_place(rules)
    _require_replaceable(out, rules, force)
    save_rules(rules, out, f"Fetched from {' '.join(repr(source)[1:-1].split())}.")
    _print_fetched(out, rules)
    if fit.current_obstacle:
        err.print(f"[yellow]{escape(fit.current_obstacle)}[/yellow]")


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Rules files, or folders of them.")],
    library: Annotated[
        bool,
        typer.Option("--library", help="Also check the requirements of the rules library, such as a quiet machine."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with rules files, and whether they fit here; for the CI of a library of rules.

    A file is right if it breaks neither the schema nor the ranges of parameters, and sets nothing else. With --library,
    it must also have been measured on a quiet machine, in at least six launches, with a gain whose interval lies above
    1, and have the name that the library gives it.

    The exit code is 4 if a file is wrong. A file that does not fit this machine is not wrong.

    Example:

      nearfield rules check --library my-rules/*.toml
    """
    from nearfield import mpi
    from nearfield.apply import rules_library as rules_library
    from nearfield.rules.paths import list_rules_files

    found = [file for path in files for file in list_rules_files(path)]
    if not found:
        raise UsageError(
            f"there are no rules files in {files[0]}",
            f"name a file that this wrote: {own_command.command_line('tune')}",
        )
    machine, installations = rules_library.describe_this_machine(), mpi.find_usable_mpis()
    rows = []
    for file in found:
        rules, problems = rules_library.check_rules_file(file, is_in_library=library)
        fit = rules_library.check_fit(rules, machine, installations) if rules else None
        notes = rules_library.notes_for_readers(rules) if rules and library else []
        rows.append(_CheckedRulesFile(str(file), problems, notes, fit))
    if as_json:
        print(json.dumps([{**vars(row), "fit": _fit_as_dict(row.fit)} for row in rows], indent=1))
    else:
        _print_check(rows)
    if wrong := sum(bool(row.problems) for row in rows):
        many = f"{wrong} of {counted(len(rows), 'file')}"
        raise ProfileError(f"wrong: {many}", "correct them; docs/reference/rules.md explains the keys")


@dataclass(frozen=True)
class _CheckedRulesFile:
    """The result of a check of one file. `fit` is None if the file cannot be read."""

    file: str
    problems: list[str]
    notes: list[str]
    fit: RulesFit | None


# ---- where rules go


def _default_place(rules: Rules) -> Path:
    """Returns the file in which `run` looks for rules of this MPI."""
    place = paths.default_rules_path()
    return place / f"{rules.mpi.family}-{rules.mpi.version}.toml" if place.is_dir() else place


def _require_replaceable(out: Path, rules: Rules, force: bool) -> None:
    """Raises UsageError if a file with other rules is there, or an unfinished tune, unless --force is given."""
    from nearfield.apply.rules_library import read_rules
    from nearfield.base.errors import NearfieldError

    if out.is_dir():
        raise UsageError(f"'{out}' is a folder", f"name a file: -o {out / paths.DEFAULT_RULES_FILE}")
    trials = out.with_name(f"{out.name}.trials")
    if force or not (out.exists() or trials.exists()):
        return
    if trials.exists():
        raise UsageError(f"a tune of {out} is not finished ({trials})", "name another file with -o, or give --force")
    try:
        is_same = read_rules(str(out)).model_dump() == rules.model_dump()
    except NearfieldError:
        is_same = False
    if not is_same:
        raise UsageError(
            f"{out} is there already, with other rules, perhaps those that you have tuned",
            "name another file with -o, or overwrite it with --force",
        )


# ---- output


def _print_fetched(out: Path, rules: Rules) -> None:
    from nearfield.cli.verbs.tune import gain_text
    from nearfield.rules.schema import run_command_line

    err.print(f"rules: [bold]{escape(str(out))}[/bold]")
    for rule in rules.rule:
        if rule.parameters and rule.gain:
            launches = counted(rule.launches, "launch", "launches")
            err.print(f"  {rule.distance}: {gain_text(rule.gain)} of the baseline's speed, in {launches}")
        else:
            err.print(f"  {rule.distance}: the defaults of this MPI are best")
    busy = f"while other programs took {rules.busy_share:.0%} of the cores' time"
    measured = f"{rules.mpi.family} {rules.mpi.version} on {rules.machine.cpu_model}, {rules.created[:10]}, {busy}"
    err.print(f"measured elsewhere: {escape(measured)}, by: {escape(rules.command)}")
    named = [] if out.absolute() == paths.default_rules_path().absolute() else ["--rules", out]
    err.print("confirm the gain here, on a quiet machine, with your program:")
    err.print(f"  {escape(own_command.command_line('compare', *named))} -- mpirun -n 2 ./app")
    err.print(f"and that the machine is as fast as it was: {escape(own_command.command_line('verify', 'PROFILE'))}")
    err.print(f"next: {escape(run_command_line(out))}")


def _as_dict(path: Path, rules: Rules, fit: RulesFit) -> dict[str, object]:
    gains = {rule.distance: rule.gain.value for rule in rules.rule if rule.gain}
    return {
        "file": path.name,
        "mpi": rules.mpi.model_dump(),
        "machine": rules.machine.model_dump(),
        "gain": gains,
        "created": rules.created,
        "busy_share": rules.busy_share,
        "fit": _fit_as_dict(fit),
    }


def _fit_as_dict(fit: RulesFit | None) -> dict[str, object] | None:
    if fit is None:
        return None
    return {
        "fits": not fit.differences,
        "mpis": fit.matching_mpis,
        "differences": fit.differences,
        "now": fit.current_obstacle or None,
    }


def _make_rules_table(rows: list[tuple[Path, Rules, RulesFit]]) -> Table:
    table = Table(
        Column("file", key=True), Column("MPI"), Column("processor"), Column("caches"), Column("gain", prose=True),
        Column("here", prose=True),
    )  # fmt: skip
    for path, rules, fit in rows:
        gains = [f"{rule.distance} {rule.gain.value:.2f}x" for rule in rules.rule if rule.gain] or ["defaults are best"]
        caches = " ".join(map(format_bytes, rules.machine.cache_bytes))
        cells = (
            path.name,
            f"{rules.mpi.family} {rules.mpi.version}",
            rules.machine.cpu_model,
            caches,
            ", ".join(gains),
        )
        here = f"[green]{escape(fit.verdict_text)}[/green]" if not fit.differences else escape(fit.verdict_text)
        table.add_row(*map(escape, cells), here)
    return table


def _print_check(rows: list[_CheckedRulesFile]) -> None:
    console = Terminal()
    for row in rows:
        console.print(f"[bold]{escape(row.file)}[/bold]: {'[red]wrong[/red]' if row.problems else 'right'}")
        for problem in row.problems:
            console.print(f"  {escape(problem)}")
        for note in row.notes:
            console.print(f"  [dim]note: {escape(note)}[/dim]")
        if row.fit is not None:
            console.print(f"  [dim]here: {escape(row.fit.verdict_text)}[/dim]")
