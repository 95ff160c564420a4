"""Described machines: hardware that is not present, for `nearfield plan --on` and the simulator.

A machine is one file, with a source for every number. If no source states a number, it is a free parameter: the file
says why it was chosen and which claims depend on it."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nearfield.base import own_command
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import atomic_write
from nearfield.cli import complete
from nearfield.cli.options import AsCsv, AsJson, out_option, require_single_format
from nearfield.cli.verbs import machine_calibrate, machine_validate
from nearfield.ui.terminal import Column, Table, Terminal, err, print_csv

CONSISTENT = "consistent: the simulated machine has the times that its file states."
NOT_REACHED = (
    "consistent, but not reached: the described cores have too few misses in flight for the described traffic of "
    "memory. Simulated programs get the lower rate. If the machine does reach it, raise core.outstanding_misses."
)
NOT_COMPARED = "Whether a file is right about the hardware is not known: nothing was measured there."

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help=__doc__,
    epilog="Start with `nearfield machine list`; docs/reference/machine.md explains the keys.",
)


app.command("calibrate")(machine_calibrate.command)
app.command("validate")(machine_validate.command)


def _machine_argument(what: str) -> Any:
    return typer.Argument(metavar="NAME|FILE|PROFILE", help=what, autocompletion=complete.machines)


@app.command("list")
def list_machines(as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """List the described machines that come with nearfield."""
    from nearfield.cli import machine_tables as tables
    from nearfield.machine import load_machine, machine_files

    require_single_format(as_json, as_csv)
    rows = [tables.machine_row(load_machine(name)) for name in machine_files()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    if as_csv:
        print_csv([{name: tables.to_csv_cell(value) for name, value in row.items()} for row in rows])
        return
    Terminal().print(tables.machines_table(rows))
    Terminal().print(
        f"[dim]free: parameters that no source states; {own_command.command_line('machine', 'show', 'NAME')} lists "
        f"them[/dim]"
    )


@app.command()
def check(
    names: Annotated[list[str], _machine_argument("Machines to check.")],
    as_json: AsJson = False,
) -> None:
    """Check whether a machine's file is consistent: keys, geometry, sources, and whether the simulated machine takes
    the times that the file states.

    On the simulated machine, a chain of dependent loads through each cache and through memory must take the described
    time, and a copy must reach the described memory bandwidth, both within 3 %. Otherwise the key that is the cause is
    named. A bandwidth that the described cores cannot reach is reported, but is no error. All errors of a file are
    reported at once, each with its key and the valid values.

    A consistent file need not be right: nothing is compared with the hardware. `nearfield machine new --from here`
    describes a machine from what `nearfield probe` measured there.

    Example:

      nearfield machine check mine.toml
    """
    from nearfield.cli import machine_tables as tables
    from nearfield.machine import load_machine
    from nearfield.machine.simulated import compare_with_file

    machines = [load_machine(name) for name in names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(compare_with_file, machines))
    if as_json:
        print(json.dumps([tables.check_as_dict(m, c) for m, c in zip(machines, found, strict=True)], indent=1))
    else:
        for machine, compared in zip(machines, found, strict=True):
            tables.print_check(machine, compared)
        verdicts = {tables.verdict_text(compared) for compared in found}
        meanings = [text for text in (CONSISTENT, NOT_REACHED) if text.partition(":")[0] in verdicts]
        for line in [*meanings, NOT_COMPARED]:
            Terminal().print(f"[dim]{line}[/dim]")
    wrong = [(m.name, c) for m, compared in zip(machines, found, strict=True) for c in compared if not c.agrees]
    if wrong:
        causes = "; ".join(f"{name}: {tables.difference_text(one)}" for name, one in wrong)
        raise ProfileError(causes, " ".join(dict.fromkeys(one.remedy for _, one in wrong)))


@app.command()
def show(
    name: Annotated[str, _machine_argument("The machine.")],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every key with its source.")] = False,
    as_file: Annotated[
        bool, typer.Option("--toml", help="Print it as a file to edit, for example that of a profile.")
    ] = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every key with its value and source as CSV.")] = False,
) -> None:
    """Show a machine, and its free parameters: numbers that no source states, with the claims that depend on them.

    Examples:

      nearfield machine show power5-redstorm -v

      nearfield machine show nearfield-profile --toml > mine.toml
    """
    from nearfield.cli import machine_tables as tables
    from nearfield.machine import facts, load_machine
    from nearfield.machine.files import to_toml

    require_single_format(as_json, as_csv)
    machine = load_machine(name)
    if as_csv:
        print_csv([tables.fact_row(key, fact) for key, fact in facts(machine)])
    elif as_file:
        print(to_toml(machine), end="")
    elif as_json:
        print(json.dumps(machine.model_dump(exclude_none=True), indent=1))
    else:
        tables.print_machine(machine, verbose, Terminal())


@app.command()
def new(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="here|NAME|FILE|PROFILE",
            help="The machine to start from: this one, a described one, or a profile's.",
            autocompletion=complete.machines_and_live,
        ),
    ],
    out: Annotated[Path, out_option(help="Where to write it.", metavar="FILE")] = Path("machine.toml"),
    profile: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --from here: a profile of this machine.", show_default=False),
    ] = None,
) -> None:
    """Write a machine.toml to start from: a described machine with its sources, or this machine as far as it is known.

    For this machine (--from here) the topology gives cores, caches and pages. Values that must be measured come from a
    profile; without one each is a comment that says so, and check lists what is missing.

      nearfield machine new --from leo3 -o mine.toml

      nearfield machine new --from here --profile nearfield-profile -o mine.toml
    """
    from nearfield.base.topology import Topology
    from nearfield.machine.files import PROFILE_MARKER_FILE
    from nearfield.machine.new import text_for_host, text_from_machine
    from nearfield.measure.live.facts import capture_machine
    from nearfield.profile import load
    from nearfield.profile.contradictions import describe_contradictions
    from nearfield.profile.store import DEFAULT_PROFILE_NAME

    if profile is not None and source != "here":
        raise UsageError("--profile is for --from here", f"A profile's machine: --from {profile}")
    if out.suffix != ".toml":
        raise UsageError(f"'{out}' does not end in .toml, by which files of machines are known", f"-o {out}.toml")
    text = text_for_host(capture_machine(Topology.of_this_machine(), None), load(profile) if profile else None, out) \
        if source == "here" else text_from_machine(source, out)  # fmt: skip
    _write_new(out, text)
    if measured_by := profile or (Path(source) if Path(source, PROFILE_MARKER_FILE).is_file() else None):
        for contradiction in describe_contradictions(load(measured_by)):
            err.print(f"[yellow]warning:[/yellow] {escape(contradiction)}")
    open_lines = len(re.findall(r"^# \w+ = \{", text, re.MULTILINE))
    lacks = f", without {open_lines} values that must be measured" if open_lines else ""
    print(f"wrote {out}{lacks}")
    if open_lines and source == "here" and not profile:
        print("to measure them on this machine:")
        measured = out.with_stem(f"{out.stem}-measured")
        print(f"  {own_command.command_line('probe')}")
        arguments = ("--from", "here", "--profile", DEFAULT_PROFILE_NAME, "-o", measured)
        print(f"  {own_command.command_line('machine', 'new', *arguments)}")
    print("next: edit it, then")
    for words in (
        ("machine", "check", out),
        ("probe", "--quick", "--on", out),
        ("plan", "512x512x512", "-n", 64, "--on", out),
    ):
        print(f"  {own_command.command_line(*words)}")


def _write_new(out: Path, text: str) -> None:
    if os.path.lexists(out):
        raise UsageError(f"there is a file '{out}' already", "Give another name with -o.")
    atomic_write(out, text, "Give another place with -o.")


@app.command()
def diff(
    a: Annotated[str, _machine_argument("The machine to compare with.")],
    b: Annotated[str, _machine_argument("The machine to compare.")],
    as_json: AsJson = False,
) -> None:
    """Compare two machines: every key that is not the same."""
    from nearfield.cli import machine_tables as tables
    from nearfield.machine import facts, load_machine

    first, second = dict(facts(load_machine(a))), dict(facts(load_machine(b)))
    same = {key for key in first.keys() & second.keys() if first[key].plain_value == second[key].plain_value}
    changed = [key for key in dict.fromkeys([*first, *second]) if key not in same]
    if as_json:
        values = [{side: of[key].plain_value if key in of else None for side, of in (("a", first), ("b", second))}
                  for key in changed]  # fmt: skip
        print(json.dumps(dict(zip(changed, values, strict=True)), indent=1))
        return
    if not changed:
        Terminal().print("the two have the same numbers")
        return
    table = Table(Column("key", key=True), Column(a), Column(b))
    for key in changed:
        table.add_row(key, *(escape(tables.format_cell(key, of.get(key))) for of in (first, second)))
    Terminal().print(table)
