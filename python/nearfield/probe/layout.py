"""Which ranks run where: one group per distance (or per pair), one of all cores, one for the load scenario.

Nodes of a hostfile are taken to be like this one; a rank that cannot be bound as planned ends the launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from nearfield.errors import UsageError
from nearfield.topology import Topology

NETWORK = "network-1"


@dataclass(frozen=True)
class Place:
    cpu: int  # PU os index; -1: not bound
    host: str = ""


@dataclass(frozen=True)
class Group:
    """Ranks that are launched together, and for what: "pair", "all" or "pair-and-background"."""

    kinds: tuple[str, ...]
    places: tuple[Place, ...]
    distance: str | None = None
    oversubscribed: bool = False

    @property
    def pair(self) -> str:
        """Of its first two ranks: '0-1', with hosts 'a:0-b:0'."""
        return "-".join(f"{p.host}:{p.cpu}" if p.host else str(p.cpu) for p in self.places[:2])

    @property
    def name(self) -> str:
        return re.sub(r"[^A-Za-z0-9.-]", "_", f"{self.kinds[0]}-{self.pair}")

    @property
    def hosts(self) -> list[tuple[str, int]] | None:
        """(host, ranks) in rank order, consecutive ranks of a host together; None without a hostfile."""
        if not self.places[0].host:
            return None
        runs: list[tuple[str, int]] = []
        for place in self.places:
            if runs and runs[-1][0] == place.host:
                runs[-1] = (place.host, runs[-1][1] + 1)
            else:
                runs.append((place.host, 1))
        return runs


@dataclass(frozen=True)
class Node:
    host: str
    cpus: tuple[int, ...]  # first PU of each core to use


def read_hostfile(path: Path, default_cpus: tuple[int, ...]) -> list[Node]:
    """Lines `HOST [slots=N] [cpus=0,2,4]`, # comments. Without cpus: the first N of this node's cores."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the hostfile {path}: {error.strerror}") from error
    nodes = []
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if words:
            nodes.append(_node(words, default_cpus, f"{path}:{number}"))
    if not nodes:
        raise UsageError(f"the hostfile {path} names no host", "one host a line: HOST [slots=N] [cpus=0,2]")
    return nodes


def _node(words: list[str], default_cpus: tuple[int, ...], where: str) -> Node:
    cpus = default_cpus
    for word in words[1:]:
        key, _, value = word.partition("=")
        try:
            if key == "slots":
                cpus = cpus[: int(value)]
            elif key == "cpus":
                cpus = tuple(int(cpu) for cpu in value.split(","))
            else:
                raise UsageError(f"{where}: unknown key '{key}'", "known: slots=N, cpus=0,2,4")
        except ValueError as error:
            raise UsageError(f"{where}: '{word}' is no number or list of numbers") from error
    return Node(words[0], cpus)


def plan_groups(
    topology: Topology, kinds: set[str], *, nodes: list[Node] | None, all_pairs: bool, ranks: int | None
) -> tuple[list[Group], dict[str, str]]:
    """The groups to launch for these kinds of scenarios, and for kinds that cannot run: why.

    Groups of the same ranks in the same places are one launch. `ranks`: how many take part in `all` scenarios
    instead of one per core; more than there are cores makes them oversubscribed (function only).
    """
    first_pus = tuple(core[0] for core in topology.cores)
    here = nodes or [Node("", first_pus)]
    missing: dict[str, str] = {}
    groups: list[Group] = []
    if "pair" in kinds:
        groups += _pairs(topology, here[0], all_pairs) + _pairs_across(here, all_pairs)
        if not groups:
            missing["pair"] = "needs two cores; this machine lets us use one"
    places = [Place(cpu, node.host) for node in here for cpu in node.cpus]
    for kind, least in (("all", 2), ("pair-and-background", 4)):
        if kind in kinds:
            wanted = max(ranks or len(places), 2 if kind == "all" else 0)
            if wanted < least or (len(places) < least and not ranks):
                missing[kind] = f"needs {least} free cores; there are {len(places)}"
            else:
                groups.append(_group_of(kind, places, wanted))
    return _merged(groups), missing


def _pairs(topology: Topology, node: Node, all_pairs: bool) -> list[Group]:
    groups = []
    for distance, representative in topology.representatives().items():
        for a, b in topology.pairs(distance) if all_pairs else [representative]:
            groups.append(Group(("pair",), (Place(a, node.host), Place(b, node.host)), distance))
    return groups


def _pairs_across(nodes: list[Node], all_pairs: bool) -> list[Group]:
    pairs = list(combinations(nodes, 2))
    chosen = pairs if all_pairs else pairs[:1]
    return [
        Group(("pair",), (Place(a.cpus[0], a.host), Place(b.cpus[0], b.host)), NETWORK) for a, b in chosen
    ]


def _group_of(kind: str, places: list[Place], ranks: int) -> Group:
    oversubscribed = ranks > len(places)
    chosen = tuple(places[i % len(places)] for i in range(ranks))
    return Group((kind,), chosen, None, oversubscribed)


def _merged(groups: list[Group]) -> list[Group]:
    """All cores of a two-core machine are also its only pair: one launch serves both."""
    merged: dict[tuple[Place, ...], Group] = {}
    for group in groups:
        same = merged.get(group.places)
        if same and "pair-and-background" not in group.kinds:
            merged[group.places] = Group((*same.kinds, *group.kinds), group.places, same.distance, same.oversubscribed)
        else:
            merged[group.places if not same else (*group.places, Place(-2))] = group
    return list(merged.values())
