"""`nearfield site`: installs rules for all users of a cluster, whose nodes may be of several types."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.units import counted, format_bytes
from nearfield.base.words import join_and
from nearfield.cli.options import AsJson
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.apply.site import NodeRules, Site
    from nearfield.rules.schema import Rules


def command(
    prefix: Annotated[
        Path, typer.Argument(metavar="PREFIX", help="A folder that all nodes see, or have at this path.")
    ],
    rules: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RULES...", help="Rules files of `tune`, or folders of them.", show_default=False),
    ] = None,
    off: Annotated[
        str | None, typer.Option("--off", metavar="REASON", help="Switch nearfield off for all users of PREFIX.")
    ] = None,
    on: Annotated[bool, typer.Option("--on", help="Switch it on again.")] = False,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="Where each node of each job adds a line of JSON; '' ends this."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Install rules for all users of a cluster, or show what is installed.

    Tune one node of each type. PREFIX gets one library, which jobs preload, and the rules. In each process of a job the
    library finds the rules for the type of its node (processor, caches, distances of cores) and for its MPI, and sets
    their variables before MPI_Init reads them, unless the user has set them. So a job may have nodes of several types,
    under any launcher. On a node without rules it says so once, and the MPI's defaults are used.

    Users load PREFIX/modulefiles/nearfield; Slurm can do it for all jobs by PREFIX/share/task-prolog.sh. PREFIX may be
    moved. NEARFIELD_OFF=1 is the way out for a user, `--off REASON` for all. NEARFIELD_VERBOSE=1 says which rules are
    used. Collectives are not among these rules, since all nodes of a job need the same.

    Without RULES, prints what is installed and what this node takes of it; exit code 4 if a file is damaged.

    Examples:

      nearfield tune --all-mpis -o epyc-rules

      nearfield site /opt/nearfield epyc-rules xeon-rules

      nearfield site /opt/nearfield

      nearfield site /opt/nearfield --off "until the fabric is repaired"
    """
    from nearfield.apply import site as sites

    if off is not None and on:
        raise UsageError("--off and --on contradict each other", "leave one out")
    if off is not None and not off.strip():
        raise UsageError("--off needs a reason, which users see", 'for example --off "maintenance"')
    prefix = prefix.absolute()
    if rules:
        _print_written_rules(prefix, sites.install_site(prefix, _load_rules_of_nodes(rules)))
    if log:
        sites.create_log_file(Path(log))
    for key, value, is_given in (
        (sites.OFF_KEY, off, on or off is not None),
        (sites.LOG_KEY, log or None, log is not None),
    ):
        if is_given:
            sites.write_setting(prefix, key, value)
    site = sites.read_site(prefix)
    if as_json:
        print(json.dumps(_as_dict(site), indent=2))
    else:
        _print_site(site)
    if site.problems:
        raise ProfileError(site.problems[0], "correct or remove this file; processes do not use it")


def _load_rules_of_nodes(paths: list[Path]) -> list[Rules]:
    """Returns the rules of all files, and of all files of folders. Of two that differ in the MPI's patch version only,
    the newer one is returned. Raises UsageError for two files of the same MPI and type of node."""
    from nearfield.apply.site import make_node_rules
    from nearfield.rules.knobs import version_numbers
    from nearfield.rules.paths import list_rules_files
    from nearfield.rules.schema import find_rules_path, load_rules

    found: dict[str, tuple[Path, Rules]] = {}
    for file in [file for path in paths for file in list_rules_files(find_rules_path(path))]:
        rules = load_rules(file)
        name = make_node_rules(rules).name
        if name in found:
            other, known = found[name]
            if known.mpi.version == rules.mpi.version:
                raise UsageError(f"{other} and {file} are for the same MPI and type of node", "name one of them")
            older, newer = sorted(((other, known), (file, rules)), key=lambda one: version_numbers(one[1].mpi.version))
            err.print(
                f"{escape(str(older[0]))} is left out: {newer[1].mpi.version} of {escape(str(newer[0]))} is newer"
            )
            found[name] = newer
        else:
            found[name] = file, rules
    return [rules for _, rules in found.values()]


def _print_written_rules(prefix: Path, node_rules: list[NodeRules]) -> None:
    """Prints what was written, what was left out, and what may surprise."""
    for one in node_rules:
        err.print(f"written: [bold]{escape(str(prefix / 'rules.d' / one.name))}[/bold]")
        if one.left_out:
            err.print(f"  left out, since nodes of one job must agree on them: {escape(', '.join(one.left_out))}")
        if one.describe_node_difference() == "cores at other distances":
            err.print(
                "  [yellow]these rules were found on such a processor, but in a part of a node or on another kind of "
                "node:[/yellow] tune with all cores of the node"
            )


def _as_dict(site: Site) -> dict[str, object]:
    return {
        "prefix": str(site.prefix),
        "settings": site.settings,
        "rules": [{**asdict(one), "difference": one.describe_node_difference() or None} for one in site.rules],
        "problems": site.problems,
    }


def _print_site(site: Site) -> None:
    console = Terminal()
    if site.rules:
        console.print(_make_site_table(site))
    else:
        console.print(f"there are no rules in {escape(str(site.prefix / 'rules.d'))}")
    if reason := site.settings.get("off"):
        console.print(f"[yellow]switched off for all users:[/yellow] {escape(reason)}")
    if log := site.settings.get("log"):
        console.print(f"jobs are logged in {escape(log)}")
    console.print(f"[dim]load it:[/dim] module use {escape(str(site.prefix / 'modulefiles'))}; module load nearfield")
    for problem in site.problems:
        err.print(f"[yellow]not used:[/yellow] {escape(problem)}")


def _make_site_table(site: Site) -> Table:
    table = Table(
        Column("MPI", key=True), Column("processor", key=True), Column("caches"), Column("distances", prose=True),
        Column("sets", prose=True), Column("this node"),
    )  # fmt: skip
    for one in site.rules:
        sets = [counted(len(one.variables), "variable")] if one.variables else []
        sets += ["the shared heap"] if one.heap is not None else []
        cells = (
            one.mpi, one.processor, " ".join(map(format_bytes, one.cache_bytes)), " ".join(one.distances),
            join_and(sets) or "nothing: the defaults are best", one.describe_node_difference() or "takes these",
        )  # fmt: skip
        table.add_row(*map(escape, cells))
    return table
