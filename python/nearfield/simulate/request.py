"""What the user asked the simulator for, and the cases that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from nearfield._native import simulation
from nearfield.errors import UsageError
from nearfield.machine import DescribedMachine
from nearfield.machine.native import native
from nearfield.profile.words import suggestion
from nearfield.simulate.case import Case, applications, collectives, is_application

BASE = "memory"  # the policy that others are compared with; simulated in every case


def policy_order(policy: str) -> tuple[bool, int, str]:
    """Returns a key for sorting: the base comes first, then the policies in the order of their list, each before its
    versions with other parameters."""
    names = [known.name for known in simulation.policies()]
    name = policy.partition(":")[0]
    return policy != BASE, names.index(name) if name in names else len(names), policy


COLLECTIVE_SIZES = tuple(1 << exponent for exponent in range(10, 21))
CALLS, RUNS = 7, 1  # of a collective, as S4's micro-benchmark has them, and of an application
LARGEST_SIZE = (1 << 31) - 1  # MPI counts are ints
MOST_REPETITIONS = 10_000


@dataclass(frozen=True)
class Request:
    """UsageError if it cannot be simulated, before anything is."""

    machine: DescribedMachine
    collectives: tuple[str, ...]  # and applications
    sizes: tuple[int, ...]  # of what bytes_are says, or of a collective's whole buffer; empty: those usual for each
    nodes: tuple[int, ...]
    policies: tuple[str, ...]  # empty: all that the machine has caches for
    slowdowns: tuple[float, ...] = (1.0,)
    ranks_per_node: int = 1
    repetitions: int | None = None  # None: those usual for each
    whole: bool = False  # sizes of collectives are of the whole buffer, of which a rank's block is a part

    def __post_init__(self) -> None:
        self._check_names()
        self._check_numbers()
        object.__setattr__(self, "policies", self._with_base())
        for collective in self.collectives:
            for nodes in self.nodes:
                self._check_by_simulator(collective, nodes)

    def cases(self) -> Iterator[Case]:
        """Every combination; policies and memory speeds together, as many as one run carries."""
        others = [policy for policy in self.policies if policy != BASE]
        policies = _groups(others, simulation.most_policies - 1) or [()]
        slowdowns = _groups(sorted(set(self.slowdowns)), simulation.most_slowdowns)
        for operation, nodes in product(self.collectives, self.nodes):
            for size in self._sizes_of(operation, nodes):
                for some, speeds in product(policies, slowdowns):
                    yield Case(
                        self.machine, operation, size, nodes, self.ranks_per_node, (BASE, *some), speeds,
                        self.repetitions or (RUNS if is_application(operation) else CALLS),
                    )  # fmt: skip

    def _sizes_of(self, operation: str, nodes: int) -> list[int]:
        """What one call is given; a barrier has no size."""
        if is_application(operation):
            return sorted(set(self.sizes or applications()[operation].usual_bytes))
        ranks = nodes * self.ranks_per_node
        unit = collectives()[operation].whole_bytes(1, ranks)  # bytes of the buffer for a size of 1
        if unit == 0:
            return [0]
        return sorted({max(1, size // unit) if self.whole else size for size in self.sizes or COLLECTIVE_SIZES})

    def _check_names(self) -> None:
        specs = collectives() | applications()
        for name in self.collectives:
            if name not in specs:
                raise UsageError(f"there is no collective or application '{name}'", _sentence(suggestion(name, specs)))
        known = {policy.name: policy for policy in simulation.policies()}
        for text in self.policies:
            name = text.partition(":")[0]
            if name not in known:
                raise UsageError(f"there is no policy '{name}'", _sentence(suggestion(name, known)))
        if not self.collectives:
            raise UsageError("there is no collective or application to simulate", _sentence(suggestion("", specs)))

    def _check_numbers(self) -> None:
        for size in self.sizes:
            if not 0 <= size <= LARGEST_SIZE:
                raise UsageError(f"{size} B is not a size of 0 B to {LARGEST_SIZE} B", "An MPI count is an int.")
        if self.repetitions is not None and not 1 <= self.repetitions <= MOST_REPETITIONS:
            raise UsageError(f"{self.repetitions} repetitions: from 1 to {MOST_REPETITIONS}")
        alone = not all(map(is_application, self.collectives)) and min(self.nodes, default=2) * self.ranks_per_node < 2
        if alone:
            raise UsageError(
                f"one rank has nobody to call a collective with (on 1 node of {self.machine.name})",
                "Give it more: --ranks-per-node 2, or --nodes 2 where the machine has a network.",
            )
        if not (self.nodes and self.slowdowns):
            raise UsageError("nodes and memory slowdowns: at least one of each")

    def _with_base(self) -> tuple[str, ...]:
        levels = len(self.machine.cache)
        every = tuple(policy.name for policy in simulation.policies() if policy.levels <= levels)
        return tuple(dict.fromkeys((BASE, *(self.policies or every))))

    def _check_by_simulator(self, operation: str, nodes: int) -> None:
        """What only it knows: policies' parameters, the network's size. Without caches, and nothing is called."""
        try:
            machine = native(self.machine)
            for policy in self.policies:
                simulation.check_policy(policy, machine)
            run = simulation.run_application if is_application(operation) else simulation.run_collective
            for size in self._sizes_of(operation, nodes) if is_application(operation) else [0]:
                run(machine, operation, size, nodes, self.ranks_per_node, repetitions=0, memory_effects=False)
            for factor in self.slowdowns:
                simulation.run_collective(
                    machine, "barrier", 0, 1, memory_slowdown=[factor], repetitions=0, memory_effects=False
                )
        except ValueError as error:
            raise refused(error) from error


def refused(error: ValueError) -> UsageError:
    """The simulator's sentence; what follows a semicolon says what would be right."""
    cause, _, remedy = str(error).partition("; ")
    return UsageError(cause, _sentence(remedy) if remedy else "")


def _groups(items: list, most: int) -> list[tuple]:
    return [tuple(items[first : first + most]) for first in range(0, len(items), most)]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")
