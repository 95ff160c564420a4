"""`nearfield export`: writes rules in a form that a site can install for all users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.apply.formats import FORMATS
from nearfield.apply.formats.format import PRELOAD_VARIABLE
from nearfield.base import own_command, shared_heap
from nearfield.base.errors import UsageError
from nearfield.base.files import atomic_write, os_errors_as_profile_errors
from nearfield.base.units import format_bytes
from nearfield.base.words import suggest_name
from nearfield.cli import complete
from nearfield.cli.options import RULES_HELP, out_option, rules_option
from nearfield.ui.terminal import err

if TYPE_CHECKING:
    from nearfield.mpi import Installation
    from nearfield.rules.schema import Rules, RuleTable

_REMEDY = "choose another file with --out"
_FORMATS = "; ".join(f"{name}: {spec.summary}" for name, spec in FORMATS.items())


def command(
    family: Annotated[str, typer.Option("--for", help="openmpi, mpich, intel or ucx (default: the rules' own).")] = "",
    form: Annotated[str, typer.Option("--format", help=f"{_FORMATS}.", autocompletion=complete.formats)] = "env",
    rules: Annotated[Path | None, rules_option(help=f"{RULES_HELP} of which --for chooses.")] = None,
    out: Annotated[Path | None, out_option(help="Default: standard output.", metavar="FILE")] = None,
    library: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where all nodes find a copy of the library of the shared heap (default: nearfield's own).",
        ),
    ] = None,
    collectives: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Also write the MPI's own files that select algorithms of collectives, into a folder of all nodes.",
        ),
    ] = None,
) -> None:
    """Write rules as the environment, defaults file, modulefile or Slurm prolog of a site.

    If the rules set nothing because the defaults are best, that is an error, and no file is written. If the library of
    the shared heap is not readable, the files set nothing. If installed for all users, it is loaded into every process.

    Rules of `tune --collectives --native` select among the MPI's own algorithms. Where the MPI reads such a selection
    from a file (Open MPI's dynamic rules, MPICH's JSON), `--collectives` writes this, and the variables name it: it
    must be at the same path on all nodes. Intel MPI reads it from variables alone.

    Examples:

      nearfield export --format env > /etc/profile.d/mpi-tuning.sh

      nearfield export --for openmpi --format conf -o openmpi-mca-params.conf

      nearfield export --rules nearfield-rules --for mpich -o mpich.sh

      nearfield export --collectives /opt/site/mpi -o /etc/profile.d/mpi-tuning.sh
    """
    from nearfield.rules.schema import find_rules_path, load_only_rules

    if form not in FORMATS:
        raise UsageError(f"unknown format '{form}'", suggest_name(form, list(FORMATS)))
    path, chosen = load_only_rules(find_rules_path(rules), family)
    text = export_text(chosen, family, form, path, library, collectives)
    if out is None:
        print(text, end="")
        return
    atomic_write(out, text, _REMEDY)
    if FORMATS[form].is_executable and out.is_file():
        with os_errors_as_profile_errors(out, _REMEDY):
            _make_executable(out)
    err.print(f"written: [bold]{escape(str(out))}[/bold]")


def _make_executable(file: Path) -> None:
    """Makes the file executable for everybody who may read it. Its mode is 0755 at most."""
    mode = file.stat().st_mode & 0o755
    file.chmod(mode | (mode & 0o444) >> 2)


def export_text(
    rules: Rules, family: str, form: str, path: Path, library: Path | None = None, collectives: Path | None = None
) -> str:
    """Returns the file's text, with another path of the library to preload if one is given, and writes the files that
    select algorithms of collectives into the folder `collectives`. Raises UsageError if the rules do not fit or set
    nothing, or the MPI has no such file."""
    from nearfield.apply.plan import apply_rules

    theirs = rules.find_knob_file().family
    if family and family != theirs:
        raise _not_for(family, theirs, path)
    made = apply_rules(rules, inherited_environment={})
    environment = {**made.environment, **_native_collective_environment(rules, collectives, path)}
    if not environment and rules.selects_native_algorithms:
        raise UsageError(
            f"the rules in {path} only select algorithms of collectives, by a file",
            "name a folder for it: --collectives",
        )
    if not environment:
        why = "; ".join(made.warnings)
        raise UsageError(f"there is nothing to export from {path}: {why}", "leave this MPI as it is")
    environment.pop("ASAN_OPTIONS", None)  # useful only for debugging
    preloading, not_for_all = _with_library(environment, library)
    comments = [
        f"Tuned for {rules.mpi.family} {rules.mpi.version} on {rules.machine.cpu_model}",
        f"by nearfield {rules.nearfield} on {rules.host}, {rules.created}: {rules.command}",
        *_holds_for(rules, rules.best_rule_for_all_pairs()),
        *preloading,
    ]
    text = FORMATS[form].write(theirs, rules.mpi.version, comments, environment)
    if text is None:
        raise UsageError(f"{theirs} has no file of defaults of its own", "use --format env, module or slurm")
    if not_for_all:
        err.print(not_for_all)
    return text


def _native_collective_environment(rules: Rules, folder: Path | None, path: Path) -> dict[str, str]:
    """Returns the environment variables that select the MPI's own algorithms of collectives, and writes the files that
    these need into the folder. If the MPI needs files and there is no folder, prints a note and returns {}."""
    from nearfield.apply.native import native_selection

    if folder and not rules.selects_native_algorithms:
        tune = own_command.command_line("tune", "--collectives", "--native", "-o", path)
        raise UsageError(f"the rules in {path} select no algorithms of the MPI", f"find some with: {tune}")
    if not rules.selects_native_algorithms:
        return {}
    selected = native_selection(rules, _find_installation(rules))
    if not selected.files:
        return dict(selected.variables)
    if folder is None and rules.best_rule_for_all_pairs().parameters:
        err.print("[yellow]the selection of collectives is left out:[/yellow] name a folder for it with --collectives")
    if folder is None:
        return {}
    with os_errors_as_profile_errors(folder, "choose another folder with --collectives"):
        folder.mkdir(parents=True, exist_ok=True)
        variables = selected.write_files(folder.absolute(), "choose another folder with --collectives")
    for name in selected.files:
        err.print(f"written: [bold]{escape(variables[name])}[/bold]")
    return variables


def _find_installation(rules: Rules) -> Installation | None:
    """Returns the MPI that the rules are for; None if it is not here."""
    from nearfield import mpi
    from nearfield.rules.knobs import version_numbers

    series = version_numbers(rules.mpi.version)[:2]
    fitting = [
        one
        for one in mpi.find_usable_mpis()
        if one.family == rules.mpi.family and version_numbers(one.version)[:2] == series
    ]
    return next((one for one in fitting if one.version == rules.mpi.version), fitting[0] if fitting else None)


def _with_library(environment: dict[str, str], library: Path | None) -> tuple[list[str], str]:
    """Puts the given path of the library into the variables that preload it. Returns comments for the administrator,
    and a warning if the library may not be there for everybody."""
    own = shared_heap.heap_library_path()
    if str(own) not in environment.get(PRELOAD_VARIABLE, "").split():
        return [], ""
    place = library or own
    if not place.is_absolute() or len(str(place).split()) > 1 or ":" in str(place):
        raise UsageError(f"'{place}' cannot be preloaded", "name an absolute path without spaces and colons")
    environment[PRELOAD_VARIABLE] = environment[PRELOAD_VARIABLE].replace(str(own), str(place))
    warning = ""
    if place != own and not place.is_file():
        copy = escape(f"cp {own} {place}")
        warning = f"[yellow]not there yet:[/yellow] {escape(str(place))}; put it there: {copy}"
    elif where := _format_private_place(place):
        warning = (
            f"[yellow]the library to preload is in {where}:[/yellow] {escape(str(place))}; for other users copy it "
            "to a central place, and name that with --library"
        )
    return [
        f"{place} is loaded into every process that gets these variables, shells included: set them for jobs only, or "
        "by a module, where start-up times count."
    ], warning


def _format_private_place(place: Path) -> str:
    """Returns text that names the private place of a user in which a file lies; empty if it lies in none."""
    if sys.prefix != sys.base_prefix and place.is_relative_to(sys.prefix):
        return "a virtual environment"
    return "a home folder" if place.is_relative_to(Path.home()) else ""


def _not_for(family: str, mpi_family: str, path: Path) -> UsageError:
    from nearfield.mpi.families import FAMILIES
    from nearfield.rules.knobs import read_all_knob_files

    known = list(dict.fromkeys(file.family for file in read_all_knob_files()))
    if family not in known:
        return UsageError(f"nearfield tunes no MPI '{family}'", suggest_name(family, known))
    tune = f"; or tune that MPI: {own_command.command_line('tune', '--mpi', family)}" if family in FAMILIES else ""
    return UsageError(f"the rules in {path} are for {mpi_family}, not {family}", f"leave out --for{tune}")


def _holds_for(rules: Rules, rule: RuleTable) -> list[str]:
    """Returns comments for the administrator on limits of the file that `nearfield run` would handle by itself."""
    cost = f"{format_bytes(rule.memory_per_rank_bytes or 0)} per rank at {rule.at_ranks_per_node} ranks per node"
    notes = [f"Shared memory: {cost}."] if rule.parameters else []
    notes += [f"Found on cores {rule.pair}, {rule.distance}."]
    if rule.c2c_latency_ns and not rules.find_knob_file().uses_heap(rule.parameters):
        notes.append(
            f"There the core-to-core latency was {rule.c2c_latency_ns:.0f} ns; where it is much longer or shorter, the "
            "MPI's defaults may be faster."
        )
    if rules.loads_collectives:
        faster = f"{own_command.command_line('run')} does some of them faster inside a node"
        notes.append(f"Collectives are those of the MPI; {faster}.")
    if rules.selects_native_algorithms:
        sizes = ", ".join(str(n) for n in sorted({one.ranks for one in rules.native_collective_tables()}))
        notes.append(
            f"Algorithms of collectives are selected for communicators of {sizes} ranks, measured on one node."
        )
    if len(rules.rule) > 1:
        notes.append("All pairs get the same rule; `nearfield run` gives each distance its own if the MPI can.")
    return notes
