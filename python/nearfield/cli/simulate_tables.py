"""Formats the results of `nearfield simulate`, as human-readable tables, rows for --csv and data for --json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from rich.markup import escape

from nearfield._native import simulation
from nearfield.base.units import format_bytes, format_ns
from nearfield.measure.checkpoint import RequestOutcome
from nearfield.measure.sim.cases import BASE_POLICY, applications, collectives
from nearfield.measure.sim.operations import OperationRequest, PolicySavings
from nearfield.measure.sim.worth import best_policies, sufficient_ways
from nearfield.ui.terminal import Column, Table, Terminal

_Kinds = dict[str, Iterable[simulation.Collective | simulation.Application]]


def show(savings: list[PolicySavings], operations: OperationRequest) -> None:
    """Prints a table for each operation and number of nodes."""
    specs = collectives() | applications()
    for collective, nodes in dict.fromkeys((one.operation, one.nodes) for one in savings):
        some = [one for one in savings if (one.operation, one.nodes) == (collective, nodes)]
        Terminal().print(f"\n[bold]{collective}[/bold] on {escape(operations.machine.name)}, nodes: {nodes}, "
                         f"ranks: {some[0].ranks}; bytes: {specs[collective].bytes_are}")  # fmt: skip
        Terminal().print(_savings_table(some))
        for sentence in conclusion_sentences(some):
            Terminal().print(escape(sentence))
    if savings:
        Terminal().print(
            "[dim]memory: the time by the base policy; others: the share of it that they save (+) or lose (-)[/dim]"
        )


def conclusion_sentences(savings: list[PolicySavings]) -> list[str]:
    """Returns sentences on which policy saves most at which sizes, and how many cache ways suffice, for each memory
    speed and swept value; [] if a single policy was simulated at a single size."""
    settings: dict[tuple[tuple[str, Any], ...], list[PolicySavings]] = {}
    for one in savings:
        settings.setdefault((("memory slowdown", f"{one.slowdown:g}"), *one.swept.items()), []).append(one)
    varying = [name for number, (name, _) in enumerate(next(iter(settings), ()))
               if len({setting[number] for setting in settings}) > 1]  # fmt: skip
    sentences = []
    for setting, cases in settings.items():
        values = [f"{name} {value}" for name, value in setting if name in varying]
        where = f" ({', '.join(values)})" if values else ""
        if not cases[0].by_policy or len(cases) == len(cases[0].by_policy) == 1:
            continue
        found = list(map(str, best_policies(cases)))
        for family, enough in sufficient_ways(cases).items():
            name = family.partition(":")[0]
            found.append(f"ways with which {name} saves nine tenths of its most: {', '.join(map(str, enough))}")
        sentences += [f"{sentence}{where}" for sentence in found]
    return sentences


def _savings_table(savings: list[PolicySavings]) -> Table:
    policies = list(dict.fromkeys(name for one in savings for name in one.by_policy))
    keys = (Column(name, key=True, right=True) for name in ("bytes", *savings[0].swept, "slowdown"))
    table = Table(*keys, *(Column(name, right=True) for name in ("memory", *policies)))
    last = None
    for one in savings:
        size = format_bytes(one.size_bytes) if one.size_bytes != last else ""
        last = one.size_bytes
        cells = (_format_percent(one.by_policy.get(name)) for name in policies)
        swept = (f"{value:g}" if isinstance(value, float) else str(value) for value in one.swept.values())
        table.add_row(size, *swept, f"{one.slowdown:g}", format_ns(one.base_ns), *cells)
    return table


def _format_percent(share: float | None) -> str:
    if share is None:
        return "-"
    text = f"{share * 100:+.1f} %"
    colour = "green" if share >= 0.01 else "red" if share <= -0.01 else "dim"
    return f"[{colour}]{text}[/{colour}]"


def rows_of(savings: PolicySavings) -> list[dict[str, Any]]:
    """Returns the rows of a case for --csv, one for each policy: the mean time, and the fraction of the base policy's
    time that is saved."""
    case = {
        "operation": savings.operation,
        "nodes": savings.nodes,
        "ranks": savings.ranks,
        "size_bytes": savings.size_bytes,
    }
    case |= {**savings.swept, "memory_slowdown": savings.slowdown}
    shares = {BASE_POLICY: 0.0, **savings.by_policy}
    return [{**case, "policy": name, "mean_time_ns": savings.base_ns * (1 - share), "saved": share}
            for name, share in shares.items()]  # fmt: skip


def as_dicts(outcome: RequestOutcome, operations: OperationRequest, savings: list[PolicySavings]) -> dict[str, Any]:
    """Returns the results for --json."""
    return {
        "machine": operations.machine.name,
        "complete": outcome.is_complete,
        "cases": [asdict(one) for one in savings],
        "records": outcome.rows,
    }


def list_operations(as_json: bool) -> None:
    """Prints the collectives, applications and policies that can be simulated."""
    policies = simulation.policies()
    kinds: _Kinds = {
        "collective": collectives().values(),
        "application": applications().values(),
    }
    if as_json:
        print(json.dumps({
            **{f"{kind}s": [{"name": s.name, "summary": s.summary, "bytes_are": s.bytes_are} for s in specs]
               for kind, specs in kinds.items()},
            "policies": [{"name": p.name, "summary": p.summary, "parameters": p.parameters} for p in policies],
        }, indent=1))  # fmt: skip
        return
    for table in _list_tables(kinds, policies):
        Terminal().print(table)
        Terminal().print()


def _list_tables(kinds: _Kinds, policies: list[simulation.Policy]) -> list[Table]:
    tables = []
    for kind, specs in kinds.items():
        table = Table(Column(kind, key=True), Column("description", prose=True), Column("bytes are", prose=True))
        for spec in specs:
            table.add_row(spec.name, spec.summary, spec.bytes_are)
        tables.append(table)
    prose = (Column(heading, prose=True) for heading in ("where incoming bytes go", "parameters"))
    table = Table(Column("policy", key=True), *prose)
    for one in policies:
        table.add_row(one.name, escape(one.summary), ", ".join(one.parameters))
    return [*tables, table]
