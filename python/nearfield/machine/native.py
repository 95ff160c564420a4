"""Converts a described machine, member by member, into the simulator's struct Machine (src/machine/machine.hpp)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from nearfield._native import machine as structs
from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.machine.described import DescribedMachine
from nearfield.machine.quantity import ValueFact

MAX_MEMORY_SLOWDOWN = 1000.0  # maximum factor by which a simulation may slow memory down
# Member of a table -> its enumeration.
_ENUM_BY_MEMBER = {
    "inclusion": structs.Inclusion,
    "write": structs.WritePolicy,
    "coherence": structs.Coherence,
    "placement": structs.PagePlacement,
    "read_of_modified": structs.DmaRead,
    "polling": structs.Polling,
    "start": structs.StreamStart,
    "carries": structs.SocketTraffic,
    "headers": structs.PacketHeader,
    "collectives": structs.CollectiveAlgorithms,
}
# Table of the machine file -> struct of the same name.
_STRUCT_BY_TABLE = {
    "core": structs.Core,
    "socket": structs.Socket,
    "links": structs.Links,
    "pages": structs.Pages,
    "transfers": structs.Transfers,
    "prefetcher": structs.Prefetcher,
    "nic": structs.Nic,
    "network": structs.Network,
    "messaging": structs.Messaging,
}


def to_native(machine: DescribedMachine) -> structs.Machine:
    """Returns the simulator's struct for the machine. Raises UsageError if the file describes only messages."""
    if not (machine.cores and machine.core and machine.memory):
        raise UsageError(
            f"{machine.name} cannot be simulated: its file has no cores, [core], [[cache]] and [memory]",
            f"Add them; what they hold shows: {own_command.command_line('machine', 'show', 'power5-redstorm')}",
        )
    native_machine = structs.Machine()
    native_machine.name = machine.name
    native_machine.cores = machine.cores.value
    if machine.coherence:
        native_machine.coherence = structs.Coherence[machine.coherence.value]
    native_machine.caches = [_fill_struct(structs.Cache(), cache) for cache in machine.cache]
    native_machine.dram = _fill_struct(structs.Dram(), machine.memory)
    native_machine.dram.tiers = [_fill_struct(structs.MemoryTier(), tier) for tier in machine.memory.tier]
    for name, struct in _STRUCT_BY_TABLE.items():
        if table := getattr(machine, name):
            setattr(native_machine, name, _fill_struct(struct(), table))
    if machine.pages:
        native_machine.pages.tlbs = [_fill_struct(structs.Tlb(), tlb) for tlb in machine.pages.tlb]
    if machine.network:
        native_machine.max_nodes = machine.network.max_nodes.value
    return native_machine


def _fill_struct(struct: Any, table: BaseModel) -> Any:
    """Copies the values of a table into the struct and returns the struct. Absent values keep the struct's defaults."""
    for name in type(table).model_fields:
        fact = getattr(table, name)
        if isinstance(fact, ValueFact) and name != "max_nodes":  # max_nodes belongs to the machine, not to the network
            setattr(struct, name, _ENUM_BY_MEMBER[name][fact.value] if name in _ENUM_BY_MEMBER else fact.value)
    return struct
