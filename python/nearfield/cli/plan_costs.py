"""The costs of messages for `nearfield plan`, from the source that the options name."""

from __future__ import annotations

from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.machine import load_machine
from nearfield.measure.sim.costs import message_records
from nearfield.measure.sim.pool import num_usable_cores
from nearfield.plan import CostModel, default_model, described_model, measured_model, simulated_model
from nearfield.profile import load
from nearfield.ui.progress import ProgressDisplay


def load_message_costs(profile: Path | None, on: str | None, mode: str | None, messages: bool) -> CostModel:
    """Returns the costs of messages from the profile or the machine that the options name, or the default costs. With
    `messages`, ranks of a node do not read in place."""
    if profile is not None and on is not None:
        raise UsageError("--profile and --on name two machines", "Give one of them.")
    if mode is not None and on is None:
        raise UsageError("--mode is of a described machine", "Name it: --on t3e-900.")
    known = (
        costs_of_machine(on, mode)
        if on is not None
        else measured_model(load(profile))
        if profile is not None
        else default_model()
    )
    if messages:
        known.costs.in_place = None
    return known


def costs_of_machine(name: str, mode: str | None) -> CostModel:
    """Returns the costs that a described machine's file states; if it states none, simulates them."""
    machine = load_machine(name)
    if machine.communication or mode is not None or not machine.is_simulable:
        return described_model(machine, mode)
    with ProgressDisplay() as display:
        return simulated_model(machine, message_records(machine, num_usable_cores(), display))
