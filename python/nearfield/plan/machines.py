"""Reads the costs of messages on a described machine, for plans."""

from __future__ import annotations

from nearfield import itself
from nearfield._native import Costs, Link
from nearfield.errors import UsageError
from nearfield.machine import DescribedMachine
from nearfield.machine.communication import Communication, Mode
from nearfield.profile.words import suggestion

_DOUBLE_BYTES = 8


def communication_of(machine: DescribedMachine) -> Communication:
    """Returns the machine's [communication]. Raises UsageError if the file has none."""
    if machine.communication is None:
        raise UsageError(
            f"what messages cost on {machine.name} is not described: its file has no [communication]",
            f"Such a section shows: {itself.command('machine', 'show', 't3e-900', '--toml')}",
        )
    return machine.communication


def mode_of(machine: DescribedMachine, name: str | None = None) -> Mode:
    """Returns the mode of this name, or the first one. Raises UsageError that names the most similar mode."""
    communication = communication_of(machine)
    modes = {mode.name: mode for mode in communication.mode}
    if name is None:
        return communication.mode[0]
    if name not in modes:
        near = suggestion(name, modes)
        raise UsageError(f"{machine.name} has no mode '{name}'", near[:1].upper() + near[1:])
    return modes[name]


def costs_on(machine: DescribedMachine, mode: str | None = None) -> Costs:
    """Returns the costs in a mode. All ranks send messages, which cost the same inside a node as between nodes."""
    costs = Costs()
    costs.same_node = costs.network = link_of(mode_of(machine, mode))
    return costs


def link_of(mode: Mode) -> Link:
    """Returns the costs of messages that are sent in this way."""
    link = Link()
    link.latency_ns = mode.latency_us.value * 1e3 if mode.latency_us else 0.0
    link.ns_per_byte = _ns_per_byte(mode.contiguous_mb_per_s.value)
    apart = {rate.doubles * _DOUBLE_BYTES: _ns_per_byte(rate.mb_per_s) for rate in mode.stride}
    link.strided = {_DOUBLE_BYTES: link.ns_per_byte, **apart}
    link.banked = {rate.doubles * _DOUBLE_BYTES: _ns_per_byte(rate.mb_per_s) for rate in mode.bank}
    if mode.load:
        link.load_factor, link.load_from_bytes = mode.load.factor, mode.load.beyond_bytes + 1
    return link


def _ns_per_byte(mb_per_s: float) -> float:
    return 1e3 / mb_per_s
