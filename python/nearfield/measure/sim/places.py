"""Finds one pair of ranks per distance on a described machine, nearest first, by the rules that apply to a live
machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearfield._native import memory, simulation
from nearfield.base.errors import UsageError
from nearfield.base.topology import Topology
from nearfield.base.words import suggest_name
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native

MAX_SEARCHED_NODES = 256  # maximum number of nodes among which distances are searched


@dataclass(frozen=True)
class SimulatedPair:
    """A pair of ranks at a distance. Inside a node, the ranks are on the cores `core` and `peer_core_or_node`. Between
    nodes, they are on core 0 of node 0 and on core 0 of node `peer_core_or_node`."""

    distance: str
    core: int
    peer_core_or_node: int

    @property
    def is_between_nodes(self) -> bool:
        return self.distance.startswith("network-")

    @property
    def pair(self) -> str:
        return f"n0:0-n{self.peer_core_or_node}:0" if self.is_between_nodes else f"{self.core}-{self.peer_core_or_node}"

    def to_native_place(self) -> simulation.Place:
        return simulation.Place(self.is_between_nodes, self.core, self.peer_core_or_node)


ALL_CORES = SimulatedPair("", 0, 1)  # stands for all cores, in scenarios that are not of a pair


def topology_of(machine: DescribedMachine) -> Topology:
    """Returns the hwloc topology of one node, so that distances follow the rules of live machines. The cores of one
    memory form a package, since a description has no other information on packages."""
    assert machine.cores and machine.memory
    objects = [(1, "core:{}"), (1, "pu:{}")]
    for level, cache in enumerate(machine.cache, 1):
        objects.append((cache.shared_by.value, f"l{level}:{{}}(size={cache.size_bytes.value})"))
    if machine.memory.shared_by:
        objects.append((machine.memory.shared_by.value, "pack:{} [numa]"))
    levels, num_outer = ["" if machine.memory.shared_by else "[numa]"], machine.cores.value
    for covered, word in sorted(objects, key=lambda o: (-o[0], _object_order(o[1]))):
        levels.append(word.format(max(1, num_outer // covered)))
        num_outer = covered
    return Topology.from_synthetic(" ".join(levels).strip())


def topology_xml(machine: DescribedMachine) -> str:
    """Returns hwloc's XML of a node. The memory size is set to 0, since the description of the machine has none and
    hwloc would make one up."""
    return re.sub(r'local_memory="\d+"', 'local_memory="0"', topology_of(machine).to_xml())


def _object_order(topology_object: str) -> int:
    """Returns the nesting order of topology objects that cover the same cores: package, caches from the outermost,
    core, PU."""
    order = ["pack", "l8", "l7", "l6", "l5", "l4", "l3", "l2", "l1", "core", "pu"]
    return order.index(topology_object.partition(":")[0])


def all_places(machine: DescribedMachine) -> list[SimulatedPair]:
    """Returns one pair of ranks per distance, nearest first."""
    inside = topology_of(machine).representative_pairs()
    if linked := _pairs_between_hubs(machine):
        inside.pop("same-node", None)  # the routers-* distances subdivide it
    return (
        [SimulatedPair(distance, *cores) for distance, cores in inside.items()] + linked + _pairs_between_nodes(machine)
    )


def _pairs_between_hubs(machine: DescribedMachine) -> list[SimulatedPair]:
    """Returns the pairs of core 0 with the first core at each number of routers; [] if the machine has no linked
    hubs."""
    if not (machine.links and machine.memory and machine.memory.shared_by):
        return []
    first: dict[int, int] = {}
    for hub, links in list(enumerate(memory.hops_of_hubs(to_native(machine))))[1:]:
        first.setdefault(links + 1, hub * machine.memory.shared_by.value)
    return [SimulatedPair(f"routers-{count}", 0, core) for count, core in sorted(first.items())]


def _pairs_between_nodes(machine: DescribedMachine) -> list[SimulatedPair]:
    """Returns the pairs of node 0 with the first node at each number of hops; [] without a network."""
    if not machine.network or not machine.nic or machine.network.max_nodes.value < 2:
        return []
    hops = simulation.hops(to_native(machine), min(machine.network.max_nodes.value, MAX_SEARCHED_NODES))
    first: dict[int, int] = {}
    for node, count in list(enumerate(hops))[1:]:
        first.setdefault(count, node)
    return [SimulatedPair(f"network-{count}", 0, node) for count, node in sorted(first.items())]


def choose_places(machine: DescribedMachine, tier: str, distances: tuple[str, ...]) -> list[SimulatedPair]:
    """Returns the pairs at these distances. Without distances, returns those of the tier: all distances inside a node,
    and of the distances between nodes the nearest (quick), the nearest and the farthest (default), or all (full).
    Raises UsageError for a distance that the machine does not have."""
    places = all_places(machine)
    names = [place.distance for place in places]
    for name in distances:
        if name not in names:
            machine_distances = f"It has {', '.join(names)}." if names else "It has one core and no network."
            suggestion = suggest_name(name, names) if names else ""
            raise UsageError(f"{machine.name} has no distance '{name}'", f"{machine_distances} {suggestion}".strip())
    if distances:
        return [place for place in places if place.distance in distances]
    between_nodes = [place for place in places if place.is_between_nodes]
    selected = {"quick": between_nodes[:1], "default": between_nodes[:1] + between_nodes[1:][-1:]}.get(
        tier, between_nodes
    )
    return [place for place in places if not place.is_between_nodes] + selected
