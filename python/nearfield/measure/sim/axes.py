"""Distributes NIC policies and memory slowdowns of a request over simulation runs. One run can simulate several of
each."""

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
ALL_POLICIES = ("all",)  # the value of --policy that requests every policy


def policy_order(policy: str) -> tuple[bool, int, str]:
    """Returns a sort key for policies: the base policy first, then the order of the simulator's list; variants with
    parameters follow their policy."""
    names = [known.name for known in simulation.policies()]
    name = policy.partition(":")[0]
    return policy != BASE_POLICY, names.index(name) if name in names else len(names), policy


def policies_of(machine: DescribedMachine) -> tuple[str, ...]:
    """Returns the policies for which the machine has enough cache levels."""
    return tuple(policy.name for policy in simulation.policies() if policy.levels <= len(machine.cache))


def select_policies(machine: DescribedMachine, requested: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the requested policies; every policy of the machine if ALL_POLICIES are requested."""
    return policies_of(machine) if requested == ALL_POLICIES else requested


def check_axes(machine: DescribedMachine, policies: Iterable[str], slowdowns: Iterable[float]) -> None:
    """Raises UsageError for an unknown policy, a policy that needs more cache levels than the machine has, or a memory
    slowdown out of range."""
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
    """Yields every case with the policies and slowdowns of `axes`, split into as many runs as the simulator needs. A
    case with several policies always contains the base policy. Cases inside a node get no policy, since no NIC takes
    part."""
    for case in cases:
        at_once = scenarios()[case.scenario].policies
        policies = axes.policies if crosses_the_network(case) else ()
        slowdowns = split_into_chunks(sorted(set(axes.slowdowns)), simulation.max_slowdowns) or [()]
        for some, speeds in product(_split_policies(policies, at_once), slowdowns):
            yield replace(case, axes=Axes(some, speeds, axes.repetitions))


def crosses_the_network(case: Case) -> bool:
    """Returns whether messages of the case pass through NICs."""
    if case.place.distance:
        return case.place.between_nodes
    if case.scenario == "decomposition":
        return case.machine.network is not None
    return int(case.values.get("nodes", 1)) > 1


def _split_policies(policies: tuple[str, ...], at_once: int) -> list[tuple[str, ...]]:
    """Returns the policies in groups of at most `at_once`; each group contains the base policy unless `at_once` is
    1."""
    if not policies or at_once == 1:
        return [(policy,) for policy in policies] or [()]
    others = [policy for policy in policies if policy != BASE_POLICY]
    return [(BASE_POLICY, *some) for some in split_into_chunks(others, at_once - 1) or [()]]


def split_into_chunks(items: list[Item], max_size: int) -> list[tuple[Item, ...]]:
    """Returns the items in groups of at most `max_size`."""
    return [tuple(items[first : first + max_size]) for first in range(0, len(items), max_size)]


def usage_error_from(error: ValueError) -> UsageError:
    """Converts an error of the simulator: the text before the semicolon is the cause, the text after it the remedy."""
    cause, _, remedy = str(error).partition("; ")
    return UsageError(cause, as_sentence(remedy) if remedy else "")
