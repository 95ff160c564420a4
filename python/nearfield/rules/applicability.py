"""Decides whether rules apply to an MPI and a machine: whether these are like those for which they were measured."""

from __future__ import annotations

from typing import Any

from nearfield.base.topology import Topology
from nearfield.rules.knobs import version_numbers
from nearfield.rules.schema import MachineTable, Rules


def make_machine_table(topology: Topology, cache_bytes: list[int]) -> MachineTable:
    """Returns the hardware facts by which a rules file recognises this machine."""
    return MachineTable(
        cpu_model=topology.cpu_model,
        cores=len(topology.cores),
        cache_bytes=cache_bytes,
        distances=topology.distances(),
    )


def rules_mismatches(rules: Rules, family: str, version: str, machine: MachineTable) -> list[str]:
    """Returns the reasons why the rules do not apply to this MPI or machine; empty if they apply."""
    found = []
    if family != rules.mpi.family:
        found.append(f"they are for {rules.mpi.family}, the program runs under {family}")
    elif version_numbers(version)[:2] != version_numbers(rules.mpi.version)[:2]:
        found.append(f"they are for {family} {rules.mpi.version}, the program runs under {version}")
    return found + [
        f"they were measured on another machine: {one}" for one in machine_differences(machine, rules.machine)
    ]


def machine_differences(this_machine: MachineTable, rules_machine: MachineTable) -> list[str]:
    """Returns the differences between two machines that make rules inapplicable, as human-readable texts; empty if
    there are none."""
    pairs = (
        ("processor", this_machine.cpu_model, rules_machine.cpu_model),
        ("caches (bytes)", this_machine.cache_bytes, rules_machine.cache_bytes),
        ("core distances", this_machine.distances, rules_machine.distances),
    )
    return [f"{what} {_format_fact(then)}, here {_format_fact(now)}" for what, now, then in pairs if now != then]


def _format_fact(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
