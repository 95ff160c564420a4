"""What the user asked the simulator for, and the cases that come of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from nearfield._native import simulation
from nearfield.errors import UsageError
from nearfield.machine import DescribedMachine
from nearfield.machine.native import native
from nearfield.profile.words import suggestion
from nearfield.simulate.case import Case

BASE = "memory"  # the policy that others are compared with; simulated in every case
LARGEST_SIZE = (1 << 31) - 1  # MPI counts are ints
MOST_REPETITIONS = 10_000


@dataclass(frozen=True)
class Request:
    """UsageError if it cannot be simulated, before anything is."""

    machine: DescribedMachine
    collectives: tuple[str, ...]
    sizes: tuple[int, ...]  # of what Collective.bytes_are says, or of the whole buffer
    nodes: tuple[int, ...]
    policies: tuple[str, ...]  # empty: all that the machine has caches for
    slowdowns: tuple[float, ...] = (1.0,)
    ranks_per_node: int = 1
    repetitions: int = 7
    whole: bool = False  # sizes are of the whole buffer, of which a rank's block is a part
    root: int = 0

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
        for collective, nodes in product(self.collectives, self.nodes):
            for size in self._sizes_of(collective, nodes):
                for some, speeds in product(policies, slowdowns):
                    yield Case(
                        self.machine, collective, size, nodes, self.ranks_per_node, (BASE, *some), speeds,
                        self.repetitions, self.root,
                    )  # fmt: skip

    @cached_property
    def specs(self) -> dict[str, simulation.Collective]:
        return {spec.name: spec for spec in simulation.collectives()}

    def _sizes_of(self, collective: str, nodes: int) -> list[int]:
        """What one call is given; a barrier has no size."""
        ranks = nodes * self.ranks_per_node
        unit = self.specs[collective].whole_bytes(1, ranks)  # bytes of the buffer for a size of 1
        if unit == 0:
            return [0]
        return sorted({max(1, size // unit) if self.whole else size for size in self.sizes})

    def _check_names(self) -> None:
        for name in self.collectives:
            if name not in self.specs:
                raise UsageError(f"there is no collective '{name}'", _sentence(suggestion(name, self.specs)))
        known = {policy.name: policy for policy in simulation.policies()}
        for text in self.policies:
            name = text.partition(":")[0]
            if name not in known:
                raise UsageError(f"there is no policy '{name}'", _sentence(suggestion(name, known)))
        if not self.collectives:
            raise UsageError("there is no collective to simulate", _sentence(suggestion("", self.specs)))

    def _check_numbers(self) -> None:
        for size in self.sizes:
            if not 0 <= size <= LARGEST_SIZE:
                raise UsageError(f"{size} B is not a size of 0 B to {LARGEST_SIZE} B", "An MPI count is an int.")
        if not 1 <= self.repetitions <= MOST_REPETITIONS:
            raise UsageError(f"{self.repetitions} repetitions: from 1 to {MOST_REPETITIONS}")
        if not (self.sizes and self.nodes and self.slowdowns):
            raise UsageError("sizes, nodes and memory slowdowns: at least one of each")

    def _with_base(self) -> tuple[str, ...]:
        levels = len(self.machine.cache)
        every = tuple(policy.name for policy in simulation.policies() if policy.levels <= levels)
        return tuple(dict.fromkeys((BASE, *(self.policies or every))))

    def _check_by_simulator(self, collective: str, nodes: int) -> None:
        """What only it knows: policies' parameters, the network's size. Without caches, and nothing is called."""
        try:
            machine = native(self.machine)
            for policy in self.policies:
                simulation.check_policy(policy, machine)
            simulation.run_collective(
                machine, collective, 0, nodes, self.ranks_per_node, [BASE], [1.0], 0, self.root, memory_effects=False
            )
            for factor in self.slowdowns:
                simulation.run_collective(machine, "barrier", 0, 1, 1, [BASE], [factor], 0, 0, memory_effects=False)
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
