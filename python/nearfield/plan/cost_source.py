"""Creates cost models of messages from a described machine, simulation, a profile, or defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nearfield._native import Costs, Link, costs_text, default_costs, parse_costs
from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.frames import pl
from nearfield.base.words import capitalize, suggest_name
from nearfield.machine import DescribedMachine
from nearfield.machine.communication import Communication, Mode
from nearfield.plan.from_profile import DOUBLE_BYTES, costs_from_records
from nearfield.profile import Profile
from nearfield.profile.store import DEFAULT_PROFILE_NAME


@dataclass(frozen=True)
class CostModel:
    """Message costs, their origin as text, and notes on missing costs."""

    costs: Costs
    origin: str
    ranks_per_node: int | None = None  # None if unknown
    notes: list[str] = field(default_factory=list)


def default_model() -> CostModel:
    """Returns a cost model with the default costs."""
    if Path(DEFAULT_PROFILE_NAME).is_dir():
        remedy = f"There is a profile here: --profile {DEFAULT_PROFILE_NAME}."
    else:
        remedy = f"Measure this machine with: {own_command.command_line('probe')}; --profile uses the result."
    note = "No profile is named: times are of a two-core EPYC VM, and of a guess at a 100 Gb/s network."
    return CostModel(default_costs(), "nearfield's defaults", notes=[f"{note} {remedy}"])


def described_model(machine: DescribedMachine, mode: str | None = None) -> CostModel:
    """Returns a cost model from the section [communication] of a machine file. Raises UsageError if the machine has no
    such section or no such mode."""
    chosen = find_mode(machine, mode)
    notes = [f"Latency counts as 0: {chosen.latency_reason}."] if chosen.latency_us is None else []
    for what, one in (("contiguous bandwidth", [chosen.contiguous_mb_per_s]), ("strides", chosen.stride + chosen.bank)):
        if kinds := sorted({number.kind for number in one} - {"stated"}):
            notes.append(f"Its {what}: {', '.join(kinds)}; the file states the sources.")
    origin = f"the described machine {machine.name}, {chosen.name}: {chosen.summary}"
    return CostModel(
        costs_of_machine(machine, mode), origin, int(communication_of(machine).ranks_per_node.value), notes
    )


def simulated_model(machine: DescribedMachine, records: pl.DataFrame) -> CostModel:
    """Returns a cost model from simulated ping-pongs and strides, for a machine whose file has no message costs. It
    assumes that all ranks send messages, since no scenario simulates reading in place."""
    costs, lacks = costs_from_records(records, machine.cache[-1].line_bytes.value)
    costs.in_place = None
    inside = any(not d.startswith("network") for d in records["distance"].drop_nulls())
    across = any(d.startswith("network") for d in records["distance"].drop_nulls())
    kinds = [what for what, found in (("inside a node", inside), ("between nodes", across)) if found]
    shown = own_command.command_line("machine", "show", "t3e-900", "--toml")
    notes = [
        f"Messages {' and '.join(kinds)}, and their strides, are simulated: the machine's file has no [communication]. "
        f"Where one is, it is used instead, as of: {shown}"
    ]
    notes += [note for note in lacks if "in place" not in note and "flag" not in note and "copying" not in note]
    ranks_per_node = machine.cores.value if machine.cores and machine.network else None
    return CostModel(costs, f"the described machine {machine.name}, simulated", ranks_per_node, notes)


def measured_model(profile: Profile) -> CostModel:
    """Returns a cost model from the records of a profile. A cost without stable records has its default, and a note
    says so; if all costs have their defaults, the model's origin says so."""
    costs, notes = costs_from_records(profile.records, profile.machine.line_bytes)
    if costs_text(costs, "") == costs_text(default_costs(), ""):
        why = f"the profile {profile.path} has no stable record of message times"
        return CostModel(costs, f"nearfield's defaults, since {why}", notes=notes)
    return CostModel(
        costs, f"the profile {profile.path} ({profile.run.mpi.name} on {profile.machine.name})", notes=notes
    )


def costs_file_text(model: CostModel) -> str:
    """Returns the text of a costs file for the halo library (the file that NEARFIELD_HALO_COSTS names)."""
    return costs_text(model.costs, model.origin)


def parse_model(text: str, name: str) -> CostModel:
    """Parses the text of a costs file. Raises UsageError with the file and the wrong line."""
    try:
        return CostModel(*parse_costs(text, name))
    except ValueError as error:
        raise UsageError(str(error)) from error


# ---- message costs of a described machine


def communication_of(machine: DescribedMachine) -> Communication:
    """Returns the section [communication] of a machine. Raises UsageError if its file has none."""
    if machine.communication is None:
        raise UsageError(
            f"the message times of {machine.name} are unknown: its file has no [communication]",
            f"Such a section shows: {own_command.command_line('machine', 'show', 't3e-900', '--toml')}",
        )
    return machine.communication


def find_mode(machine: DescribedMachine, name: str | None = None) -> Mode:
    """Returns the communication mode of this name, or the first mode for None. If there is none, raises UsageError with
    the most similar name."""
    communication = communication_of(machine)
    modes = {mode.name: mode for mode in communication.mode}
    if name is None:
        return communication.mode[0]
    if name not in modes:
        raise UsageError(f"{machine.name} has no mode '{name}'", capitalize(suggest_name(name, modes)))
    return modes[name]


def costs_of_machine(machine: DescribedMachine, mode: str | None = None) -> Costs:
    """Returns the message costs of a machine in a communication mode, which are the same inside a node and between
    nodes."""
    costs = Costs()
    costs.same_node = costs.network = link_costs_of(find_mode(machine, mode))
    return costs


def link_costs_of(mode: Mode) -> Link:
    """Returns the message costs of a communication mode."""
    link = Link()
    link.latency_ns = mode.latency_us.value * 1e3 if mode.latency_us else 0.0
    link.ns_per_byte = _ns_per_byte(mode.contiguous_mb_per_s.value)
    strided = {rate.doubles * DOUBLE_BYTES: _ns_per_byte(rate.mb_per_s) for rate in mode.stride}
    link.strided = {DOUBLE_BYTES: link.ns_per_byte, **strided}
    link.banked = {rate.doubles * DOUBLE_BYTES: _ns_per_byte(rate.mb_per_s) for rate in mode.bank}
    if mode.load:
        link.load_factor, link.load_from_bytes = mode.load.factor, mode.load.beyond_bytes + 1
    return link


def _ns_per_byte(mb_per_s: float) -> float:
    return 1e3 / mb_per_s
