"""`nearfield mpi`: lists the MPIs on this machine, and whether the measuring engine is built for each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nearfield.base.errors import NearfieldError
from nearfield.cli.options import AsJson, mpi_option
from nearfield.ui.terminal import Column, Table, Terminal, err

if TYPE_CHECKING:
    from nearfield.mpi import Installation, UnusableMpi


@dataclass(frozen=True)
class _Row:
    """The table row of an installation. The transport is known only if the measuring engine is built."""

    inst: Installation
    default: bool
    built: bool
    transport: str | None
    reason: str  # why the engine is not built, or why the transport is unknown

    def as_dict(self) -> dict[str, object]:
        known = self.inst.to_plain()
        names = ("name", "family", "version", "origin", "root", "launcher", "compiler", "library")
        return {
            **{name: known[name] for name in names},
            "default": self.default,
            "built": self.built,
            "transport": self.transport,
            "reason": self.reason or None,
        }


def command(
    name: Annotated[str | None, mpi_option(help="Only this one: a name, the beginning of one, or a path.")] = None,
    build: Annotated[
        bool, typer.Option("--build", help="Build the measuring engine where it is not built yet.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the MPIs on this machine: version, launcher, and the transport inside a node."""
    from nearfield import mpi

    found = mpi.survey_mpis()
    default = mpi.choose_default_mpi() if found.usable else None
    chosen = [mpi.choose_mpi(name)] if name else list(found.usable)
    rows, failures = [], []
    for inst in chosen:
        row, error = _make_row(inst, default is not None and inst == default.installation, build)
        rows.append(row)
        failures += [error] if error else []
    unusable = () if name else found.unusable
    if as_json:
        shown = {
            "installations": [row.as_dict() for row in rows],
            "unusable": [{name: str(value) for name, value in vars(one).items()} for one in unusable],
        }
        print(json.dumps(shown, indent=2))
    else:
        _print_mpis(rows, unusable, default.reason if default else "")
    if failures:
        raise failures[0]
    if not found.usable and not name:
        mpi.choose_mpi(None)  # raises an error that names what to install


def _make_row(inst: Installation, default: bool, build: bool) -> tuple[_Row, NearfieldError | None]:
    from nearfield import mpi

    error = None
    if build and not mpi.is_built(inst):
        try:
            with err.status(f"building the measuring engine for {inst.name}"):
                mpi.build_target(inst)
        except NearfieldError as raised:
            error = raised
    built = mpi.is_built(inst)
    carrier, reason = None, "the measuring engine is not built for it yet (--build does that)"
    if error:
        reason = error.message
    elif built:
        carrier, reason = mpi.transport_or_reason(inst)
    return _Row(inst, default, built, carrier, reason), error


def _print_mpis(rows: list[_Row], unusable: tuple[UnusableMpi, ...], why: str) -> None:
    console = Terminal()
    if rows:
        console.print(_make_mpi_table(rows))
    if any(row.default for row in rows):
        console.print(f"[dim]* used when --mpi does not say otherwise: {escape(why)}[/dim]")
    for reason, names in _group_by_unknown_reason(rows).items():
        console.print(f"[dim]? {', '.join(names)}: {reason}[/dim]")
    for bad in unusable:
        console.print(f"\n[yellow]not usable:[/yellow] {bad.path} ({bad.origin}): {bad.reason}")
        console.print(f"  [dim]→ {bad.remedy}[/dim]")


def _make_mpi_table(rows: list[_Row]) -> Table:
    columns = map(Column, ("family", "version", "launcher"))
    table = Table(Column("name", key=True), *columns, Column("inside a node", prose=True), Column("built"))
    for row in rows:
        inst = row.inst
        mark = " *" if row.default else ""
        cells = (inst.name + mark, inst.family, inst.version, str(inst.launcher), row.transport or "?")
        table.add_row(*map(escape, cells), "yes" if row.built else "no")
    return table


def _group_by_unknown_reason(rows: list[_Row]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not row.transport:
            reasons.setdefault(row.reason, []).append(row.inst.name)
    return reasons
