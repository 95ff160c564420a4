"""Distributes the policies and memory speeds of a request over runs of the simulator, each of which supports several of
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import TypeVar

from nearfield._native import simulation
from nearfield.base.errors import UsageError
from nearfield.base.words import as_sentence, suggest
from nearfield.machine import DescribedMachine
from nearfield.machine.native import LARGEST_SLOWDOWN, to_native
from nearfield.measure.sim.cases import BASE_POLICY, Axes, Case, scenarios

Item = TypeVar("Item")
ALL_POLICIES = ("all",)  # policies


def policy_order(policy: str) -> tuple[bool, int, str]:
    """Returns a sort key: the base comes first, then the policies in the order of their list, each before its variants
    with other parameters."""
    names = [known.name for known in simulation.policies()]
    name = policy.partition(":")[0]
    return policy != BASE_POLICY, names.index(name) if name in names else len(names), policy


def policies_of(machine: DescribedMachine) -> tuple[str, ...]:
    """Returns the policies that the machine has caches for."""
    return tuple(policy.name for policy in simulation.policies() if policy.levels <= len(machine.cache))


def select_policies(machine: DescribedMachine, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the requested policies, or all if ALL are requested."""
    return policies_of(machine) if requested == ALL_POLICIES else requested


def check_axes(machine: DescribedMachine, policies: Iterable[str], slowdowns: Iterable[float]) -> None:
    """Raises UsageError for a policy that does not exist or for which the machine has no cache, and for an impossible
    memory slowdown."""
    known = {policy.name: policy for policy in simulation.policies()}
    struct = to_native(machine)
    for text in policies:
        name = text.partition(":")[0]
        if name not in known:
            raise UsageError(f"there is no policy '{name}'", as_sentence(suggest(name, known)))
        try:
            simulation.check_policy(text, struct)
        except ValueError as error:
            raise usage_error_from(error) from error
    for factor in slowdowns:
        if not 1 <= factor <= LARGEST_SLOWDOWN:
            raise UsageError(f"memory_slowdown: from 1 to {LARGEST_SLOWDOWN:g}, not {factor:g}")


def with_axes(cases: Iterable[Case], axes: Axes) -> Iterator[Case]:
    """Yields every case with all policies and memory speeds of `axes`, as many per run as the simulator supports; then
    the base is always among them. A case inside a node has no NIC, and so no policies."""
    for case in cases:
        at_once = scenarios()[case.scenario].policies
        policies = axes.policies if crosses_the_network(case) else ()
        slowdowns = split_into_chunks(sorted(set(axes.slowdowns)), simulation.max_slowdowns) or [()]
        for some, speeds in product(_split_policies(policies, at_once), slowdowns):
            yield replace(case, axes=Axes(some, speeds, axes.repetitions))


def crosses_the_network(case: Case) -> bool:
    """Returns whether messages of the case go through NICs."""
    if case.place.distance:
        return case.place.between_nodes
    if case.scenario == "decomposition":
        return case.machine.network is not None
    return int(case.values.get("nodes", 1)) > 1


def _split_policies(policies: tuple[str, ...], at_once: int) -> list[tuple[str, ...]]:
    if not policies or at_once == 1:
        return [(policy,) for policy in policies] or [()]
    others = [policy for policy in policies if policy != BASE_POLICY]
    return [(BASE_POLICY, *some) for some in split_into_chunks(others, at_once - 1) or [()]]


def split_into_chunks(items: list[Item], max_size: int) -> list[tuple[Item, ...]]:
    """Returns the items in groups of at most `max_size`."""
    return [tuple(items[first : first + max_size]) for first in range(0, len(items), max_size)]


def usage_error_from(error: ValueError) -> UsageError:
    """Returns the simulator's message as an error; the text after its semicolon is the remedy."""
    cause, _, remedy = str(error).partition("; ")
    return UsageError(cause, as_sentence(remedy) if remedy else "")
