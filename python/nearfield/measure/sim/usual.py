"""Defaults of a simulation: one rank per core, on the minimum number of nodes for the ranks of a program; for
collectives and applications, a cluster that is still fast to simulate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearfield.machine import DescribedMachine

MIN_SIMULATED_RANKS = 64  # minimum number of ranks of a simulated collective or application


def default_ranks_per_node(machine: DescribedMachine, names: Iterable[str]) -> int:
    """Returns the number of cores of a node; if an application is among `names`, rounded down to a power of two, since
    applications decompose their problem by powers of two."""
    from nearfield.measure.sim.cases import applications

    cores = machine.cores.value if machine.cores else 1
    return 1 << (cores.bit_length() - 1) if any(name in applications() for name in names) else cores


def min_nodes_for_ranks(machine: DescribedMachine, ranks: int) -> int:
    """Returns the minimum number of nodes to which the ranks can be distributed evenly with at most one rank per
    core."""
    cores = machine.cores.value if machine.cores else 1
    return next(nodes for nodes in range(1, ranks + 1) if ranks % nodes == 0 and ranks <= nodes * cores)


def default_num_nodes(machine: DescribedMachine, ranks_per_node: int) -> int:
    """Returns the smallest power of two, at least 2, that is a number of nodes on which MIN_SIMULATED_RANKS ranks fit;
    at most the number of nodes of the machine."""
    max_nodes = machine.network.max_nodes.value if machine.network else 1
    nodes = 2
    while nodes * ranks_per_node < MIN_SIMULATED_RANKS:
        nodes *= 2
    return min(nodes, max_nodes)
