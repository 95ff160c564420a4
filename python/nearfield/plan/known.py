"""Collects the known costs of messages from a described machine or a profile, or else the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearfield import itself
from nearfield._native import Costs, costs_text, default_costs, parse_costs
from nearfield.errors import UsageError
from nearfield.machine import DescribedMachine
from nearfield.plan.from_profile import costs_of
from nearfield.plan.machines import communication_of, costs_on, mode_of
from nearfield.profile import Profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Known:
    """Costs, a phrase that names their origin, and sentences on costs that are missing."""

    costs: Costs
    origin: str
    ranks_per_node: int | None = None  # None: not known
    notes: list[str] = field(default_factory=list)


def default() -> Known:
    """Returns the costs that are assumed where nothing is known."""
    return Known(
        default_costs(),
        "nearfield's defaults",
        notes=[
            "Nothing of this machine is known: times are of a two-core EPYC VM, and of a guess at a 100 Gb/s network. "
            f"Measure it with: {itself.command('probe')}; --profile uses what it finds."
        ],
    )


def described(machine: DescribedMachine, mode: str | None = None) -> Known:
    """Returns the costs of a machine's [communication]. Raises UsageError if it has none, or not that mode."""
    chosen = mode_of(machine, mode)
    notes = [f"Latency counts as 0: {chosen.latency_reason}."] if chosen.latency_us is None else []
    for what, one in (("contiguous bandwidth", [chosen.contiguous_mb_per_s]), ("strides", chosen.stride + chosen.bank)):
        if kinds := sorted({number.kind for number in one} - {"stated"}):
            notes.append(f"Its {what}: {', '.join(kinds)}; the file says how.")
    origin = f"the described machine {machine.name}, {chosen.name}: {chosen.summary}"
    return Known(costs_on(machine, mode), origin, int(communication_of(machine).ranks_per_node.value), notes)


def simulated(machine: DescribedMachine, records: pl.DataFrame) -> Known:
    """Returns costs from simulated ping-pongs and strides, for a machine whose file states no costs of messages. All
    ranks send messages, since no scenario simulates reading in place."""
    costs, lacks = costs_of(records, machine.cache[-1].line_bytes.value)
    costs.in_place = None
    inside = any(not d.startswith("network") for d in records["distance"].drop_nulls())
    across = any(d.startswith("network") for d in records["distance"].drop_nulls())
    kinds = [what for what, found in (("inside a node", inside), ("between nodes", across)) if found]
    shown = itself.command("machine", "show", "t3e-900", "--toml")
    notes = [
        f"Messages {' and '.join(kinds)}, and their strides, are simulated: the machine's file has no [communication]. "
        f"Where one is, it is used instead, as of: {shown}"
    ]
    notes += [note for note in lacks if "in place" not in note and "flag" not in note and "copying" not in note]
    return Known(costs, f"the described machine {machine.name}, simulated", _cores(machine), notes)


def _cores(machine: DescribedMachine) -> int | None:
    """Returns the ranks per node, one per core; None if the machine has one node."""
    return machine.cores.value if machine.cores and machine.network else None


def measured(profile: Profile) -> Known:
    """Returns the costs of a profile. Costs without stable records are defaults, and the notes list these."""
    costs, notes = costs_of(profile.records, profile.machine.line_bytes)
    return Known(costs, f"the profile {profile.path} ({profile.run.mpi.name} on {profile.machine.name})", notes=notes)


def text_of(known: Known) -> str:
    """Returns the text of the file from which the halo library reads costs; NEARFIELD_HALO_COSTS names that file."""
    return costs_text(known.costs, known.origin)


def written(text: str, name: str) -> Known:
    """Returns the costs of such a file. Raises UsageError that names the file and the wrong line."""
    try:
        return Known(*parse_costs(text, name))
    except ValueError as error:
        raise UsageError(str(error)) from error
