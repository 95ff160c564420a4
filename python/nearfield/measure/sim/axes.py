"""Distributes NIC policies and memory slowdowns of a request over simulation runs. One run can simulate several of
each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import TypeVar

from nearfield._native import simulation
from nearfield.base.errors import UsageError
from nearfield.base.words import as_sentence, suggest_name
from nearfield.machine import DescribedMachine
from nearfield.machine.native import MAX_MEMORY_SLOWDOWN, to_native
from nearfield.measure.sim.cases import BASE_POLICY, SimulationAxes, SimulationCase, scenarios

Item = TypeVar("Item")
ALL_POLICIES_OPTION = ("all",)  # the value of --policy that requests every policy


def policy_sort_key(policy: str) -> tuple[bool, int, str]:
    """Returns a sort key for policies: the base policy first, then the order of the simulator's list; variants with
    parameters follow their policy."""
    names = [policy_spec.name for policy_spec in simulation.policies()]
    name = policy.partition(":")[0]
    return policy != BASE_POLICY, names.index(name) if name in names else len(names), policy


def policies_of(machine: DescribedMachine) -> tuple[str, ...]:
    """Returns the policies for which the machine has enough cache levels."""
    return tuple(policy.name for policy in simulation.policies() if policy.levels <= len(machine.cache))


def select_policies(machine: DescribedMachine, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the requested policies; every policy of the machine if ALL_POLICIES_OPTION is requested."""
    return policies_of(machine) if requested == ALL_POLICIES_OPTION else requested


def check_axes(machine: DescribedMachine, policies: Iterable[str], slowdowns: Iterable[float]) -> None:
    """Raises UsageError for an unknown policy, a policy that needs more cache levels than the machine has, or a memory
    slowdown out of range."""
    policy_by_name = {policy.name: policy for policy in simulation.policies()}
    native_machine = to_native(machine)
    for text in policies:
        name = text.partition(":")[0]
        if name not in policy_by_name:
            raise UsageError(f"there is no policy '{name}'", as_sentence(suggest_name(name, policy_by_name)))
        try:
            simulation.check_policy(text, native_machine)
        except ValueError as error:
            raise to_usage_error(error) from error
    for factor in slowdowns:
        if not 1 <= factor <= MAX_MEMORY_SLOWDOWN:
            raise UsageError(f"memory_slowdown: from 1 to {MAX_MEMORY_SLOWDOWN:g}, not {factor:g}")


def split_by_axes(cases: Iterable[SimulationCase], axes: SimulationAxes) -> Iterator[SimulationCase]:
    """Yields every case with the policies and slowdowns of `axes`, split into as many cases as the simulator needs
    runs. A case with several policies always contains the base policy. Cases inside a node get no policy, since they do
    not involve a NIC."""
    for case in cases:
        max_policies_per_run = scenarios()[case.scenario].policies
        policies = axes.policies if crosses_the_network(case) else ()
        slowdowns = split_into_chunks(sorted(set(axes.slowdowns)), simulation.max_slowdowns) or [()]
        for some, speeds in product(_split_policies(policies, max_policies_per_run), slowdowns):
            yield replace(case, axes=SimulationAxes(some, speeds, axes.repetitions))


def crosses_the_network(case: SimulationCase) -> bool:
    """Returns whether messages of the case pass through NICs."""
    if case.place.distance:
        return case.place.is_between_nodes
    if case.scenario == "decomposition":
        return case.machine.network is not None
    return int(case.value_by_parameter.get("nodes", 1)) > 1


def _split_policies(policies: tuple[str, ...], max_policies_per_run: int) -> list[tuple[str, ...]]:
    """Returns the policies in groups of at most `max_policies_per_run`; each group contains the base policy unless
    `max_policies_per_run` is 1."""
    if not policies or max_policies_per_run == 1:
        return [(policy,) for policy in policies] or [()]
    others = [policy for policy in policies if policy != BASE_POLICY]
    return [(BASE_POLICY, *some) for some in split_into_chunks(others, max_policies_per_run - 1) or [()]]


def split_into_chunks(items: list[Item], max_size: int) -> list[tuple[Item, ...]]:
    """Returns the items in groups of at most `max_size`."""
    return [tuple(items[first : first + max_size]) for first in range(0, len(items), max_size)]


def to_usage_error(error: ValueError) -> UsageError:
    """Converts an error of the simulator to a UsageError: in its text, the cause precedes the semicolon, and the remedy
    follows it."""
    cause, _, remedy = str(error).partition("; ")
    return UsageError(cause, as_sentence(remedy) if remedy else "")
