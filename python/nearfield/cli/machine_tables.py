"""Formats described machines, as human-readable tables, rows for --csv and data for --json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from rich.markup import escape

from nearfield.base.units import format_bytes
from nearfield.machine import DescribedMachine, SourcedFact, facts
from nearfield.machine.quantity import is_byte_size
from nearfield.machine.simulated import ComparisonWithFile
from nearfield.ui.terminal import Column, Table, Terminal

CACHE_COLUMNS = ("size_bytes", "ways", "line_bytes", "sub_blocks", "shared_by", "inclusion", "write", "replacement",
                 "latency_cycles", "bytes_per_cycle")  # fmt: skip


def machines_table(rows: list[dict[str, Any]]) -> Table:
    """Returns a table that lists machines."""
    columns = map(Column, ("cores", "caches", "nodes", "free", "for"))
    table = Table(Column("name", key=True), *columns, Column("description", prose=True))
    for row in rows:
        cells = (row["cores"], ", ".join(format_bytes(size, 3) for size in row["cache_bytes"]), row["nodes"])
        table.add_row(row["name"], *(str(cell or "-") for cell in cells), str(row["free"]), " ".join(row["for"]),
                      escape(row["title"]))  # fmt: skip
    return table


def machine_row(machine: DescribedMachine) -> dict[str, Any]:
    """Returns the row of a machine in the list of machines."""
    return {
        "name": machine.name,
        "title": machine.title,
        "cores": machine.cores.value if machine.cores else None,
        "cache_bytes": [cache.size_bytes.value for cache in machine.cache],
        "nodes": machine.network.max_nodes.value if machine.network else 1 if machine.is_simulable else None,
        "free": len(_free_parameters(machine)),
        "for": ["simulate"] * machine.is_simulable + ["plan"] * (machine.communication is not None),
    }


def to_csv_cell(value: Any) -> Any:
    """Converts a value to a CSV cell; joins the elements of a list by spaces."""
    return " ".join(map(str, value)) if isinstance(value, list) else value


def print_check(machine: DescribedMachine, compared: list[ComparisonWithFile]) -> None:
    """Prints whether the simulated machine reproduces the described times and rates."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in _count_fact_kinds(machine).items())
    Terminal().print(f"[bold]{escape(machine.name)}[/bold]: {verdict_text(compared)} ({kinds})")
    for one in compared:
        mark = (
            "" if one.is_reachable or one.reached else f"  [yellow]{one.simulated / one.described:.0%} of it[/yellow]"
        )
        mark += "" if one.agrees else "  [red]differs[/red]"
        Terminal().print(f"  {one.what}: {one.simulated:.4g} {one.unit}, described {one.described:.4g}{mark}")


def difference_text(comparison: ComparisonWithFile) -> str:
    """Returns a text that explains how a simulated time or rate differs from the described one, and which key is the
    cause."""
    numbers = f"{comparison.simulated:.4g} {comparison.unit} when simulated, and {comparison.described:.4g} described"
    return (
        f"{comparison.what} is {numbers}, because {comparison.cause}"
        if comparison.cause
        else f"{comparison.what} is {numbers}"
    )


def check_as_dict(machine: DescribedMachine, compared: list[ComparisonWithFile]) -> dict[str, Any]:
    """Returns the result of a check for --json."""
    names = ("what", "described", "simulated", "unit", "agrees", "reached", "cause", "remedy")
    simulated = [{name: getattr(c, name) for name in names} for c in compared]
    return {"name": machine.name, "kinds": _count_fact_kinds(machine), "simulated": simulated}


def verdict_text(compared: list[ComparisonWithFile]) -> str:
    """Returns in a few words whether the simulated machine behaves as described."""
    if not all(one.agrees for one in compared):
        return "[red]not as described[/red]"
    return "consistent" if all(one.reached for one in compared) else "consistent, but not reached"


def _count_fact_kinds(machine: DescribedMachine) -> dict[str, int]:
    kinds = [fact.kind for _, fact in facts(machine)]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def print_machine(machine: DescribedMachine, verbose: bool, console: Terminal) -> None:
    """Prints the properties of a machine; with `verbose`, all keys with their sources."""
    console.print(f"[bold]{escape(machine.title)}[/bold]\n[dim]sources: {escape(machine.study)}[/dim]")
    for short, text in machine.references.items():
        console.print(f"[dim]  {escape(short)}: {escape(text)}[/dim]")
    if verbose:
        console.print(_sources_table(facts(machine)))
        return
    if machine.cache:
        console.print(_caches_table(machine))
    for section in type(machine).model_fields:
        part = getattr(machine, section)
        if isinstance(part, BaseModel) and section != "cache":
            pairs = [("", part)] if isinstance(part, SourcedFact) else facts(part)
            console.print(
                f"[bold]{section}[/bold] " + escape(", ".join(_format_fact(key, fact) for key, fact in pairs))
            )
    if free := _free_parameters(machine):
        console.print("\n[bold]free parameters[/bold]: no source states them")
        console.print(_sources_table(free))


def _caches_table(machine: DescribedMachine) -> Table:
    used = [name for name in CACHE_COLUMNS if any(getattr(cache, name) for cache in machine.cache)]
    table = Table(Column("cache", key=True), *map(Column, used))
    for place, cache in enumerate(machine.cache):
        table.add_row(str(place), *(format_cell(name, getattr(cache, name)) for name in used))
    return table


def _format_fact(key: str, fact: SourcedFact) -> str:
    return f"{key} {format_cell(key, fact)}".strip() + (" (chosen)" if fact.kind == "chosen" else "")


def _sources_table(pairs: Iterable[tuple[str, SourcedFact]]) -> Table:
    columns = map(Column, ("value", "kind", "claims"))
    table = Table(Column("key", key=True), *columns, Column("source or reason", prose=True))
    for key, fact in pairs:
        table.add_row(key, format_cell(key, fact), fact.kind, " ".join(fact.claims or []), escape(fact.origin))
    return table


def fact_row(key: str, fact: SourcedFact) -> dict[str, Any]:
    """Returns a key with its value and source as a row for --csv."""
    claims = " ".join(fact.claims or [])
    return {
        "key": key,
        "value": to_csv_cell(fact.plain_value),
        "kind": fact.kind,
        "claims": claims,
        "source": fact.origin,
    }


def _free_parameters(machine: DescribedMachine) -> list[tuple[str, SourcedFact]]:
    return [(key, fact) for key, fact in facts(machine) if fact.kind == "chosen"]


def format_cell(key: str, fact: SourcedFact | None) -> str:
    """Formats the value of a key for a table."""
    if fact is None:
        return "-"
    value = fact.plain_value
    if isinstance(value, list):
        return " x ".join(map(str, value))
    if is_byte_size(fact):
        return format_bytes(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
