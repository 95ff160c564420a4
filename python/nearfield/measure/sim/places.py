"""Finds one pair of ranks per distance on a described machine, nearest first, by the rules that apply to a live
machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearfield._native import memory, simulation
from nearfield.base.errors import UsageError
from nearfield.base.topology import Topology
from nearfield.base.words import suggest
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native

MAX_NODES = 256  # maximum number of nodes among which distances are searched


@dataclass(frozen=True)
class Place:
    """A pair of ranks at a distance. Inside a node, `own` and `peer` are core numbers. Between nodes, the ranks are on
    core 0 of node 0 and on core 0 of node `peer`."""

    distance: str
    own: int
    peer: int

    @property
    def between_nodes(self) -> bool:
        return self.distance.startswith("network-")

    @property
    def pair(self) -> str:
        return f"n0:0-n{self.peer}:0" if self.between_nodes else f"{self.own}-{self.peer}"

    def native(self) -> simulation.Place:
        return simulation.Place(self.between_nodes, self.own, self.peer)


NO_PAIR = Place("", 0, 1)  # stands for all cores, in scenarios that are not of a pair


def topology_of(machine: DescribedMachine) -> Topology:
    """Returns the hwloc topology of one node, so that distances follow the rules of live machines. The cores of one
    memory form a package, since a description has no other information on packages."""
    assert machine.cores and machine.memory
    objects = [(1, "core:{}"), (1, "pu:{}")]
    for level, cache in enumerate(machine.cache, 1):
        objects.append((cache.shared_by.value, f"l{level}:{{}}(size={cache.size_bytes.value})"))
    if machine.memory.shared_by:
        objects.append((machine.memory.shared_by.value, "pack:{} [numa]"))
    words, outer = ["" if machine.memory.shared_by else "[numa]"], machine.cores.value
    for covered, word in sorted(objects, key=lambda o: (-o[0], _object_order(o[1]))):
        words.append(word.format(max(1, outer // covered)))
        outer = covered
    return Topology.from_synthetic(" ".join(words).strip())


def topology_xml(machine: DescribedMachine) -> str:
    """Returns hwloc's XML of a node, with the memory size set to 0, because hwloc invents a size that no description
    states."""
    return re.sub(r'local_memory="\d+"', 'local_memory="0"', topology_of(machine).xml())


def _object_order(word: str) -> int:
    """Returns the nesting order of topology objects that cover the same cores: package, caches from the outermost,
    core, PU."""
    order = ["pack", "l8", "l7", "l6", "l5", "l4", "l3", "l2", "l1", "core", "pu"]
    return order.index(word.partition(":")[0])


def all_places(machine: DescribedMachine) -> list[Place]:
    """Returns one pair of ranks per distance, nearest first."""
    inside = topology_of(machine).representatives()
    if linked := _pairs_between_hubs(machine):
        inside.pop("same-node", None)  # the routers-* distances subdivide it
    return [Place(distance, *cores) for distance, cores in inside.items()] + linked + _pairs_between_nodes(machine)


def _pairs_between_hubs(machine: DescribedMachine) -> list[Place]:
    """Returns the pairs of core 0 with the first core at each number of routers; [] if the machine has no linked
    hubs."""
    if not (machine.links and machine.memory and machine.memory.shared_by):
        return []
    first: dict[int, int] = {}
    for hub, links in list(enumerate(memory.hops_of_hubs(to_native(machine))))[1:]:
        first.setdefault(links + 1, hub * machine.memory.shared_by.value)
    return [Place(f"routers-{count}", 0, core) for count, core in sorted(first.items())]


def _pairs_between_nodes(machine: DescribedMachine) -> list[Place]:
    """Returns the pairs of node 0 with the first node at each number of hops; [] without a network."""
    if not machine.network or not machine.nic or machine.network.max_nodes.value < 2:
        return []
    hops = simulation.hops(to_native(machine), min(machine.network.max_nodes.value, MAX_NODES))
    first: dict[int, int] = {}
    for node, count in list(enumerate(hops))[1:]:
        first.setdefault(count, node)
    return [Place(f"network-{count}", 0, node) for count, node in sorted(first.items())]


def choose_places(machine: DescribedMachine, tier: str, wanted: tuple[str, ...]) -> list[Place]:
    """Returns the pairs at the wanted distances, or those of the tier: all distances inside a node, and of the
    distances between nodes the nearest (quick), the nearest and the farthest (default), or all (full). Raises
    UsageError for a distance that the machine does not have."""
    places = all_places(machine)
    names = [place.distance for place in places]
    for name in wanted:
        if name not in names:
            has = f"It has {', '.join(names)}." if names else "It has one core and no network."
            near = suggest(name, names) if names else ""
            raise UsageError(f"{machine.name} has no distance '{name}'", f"{has} {near}".strip())
    if wanted:
        return [place for place in places if place.distance in wanted]
    across = [place for place in places if place.between_nodes]
    of_network = {"quick": across[:1], "default": across[:1] + across[1:][-1:]}.get(tier, across)
    return [place for place in places if not place.between_nodes] + of_network
