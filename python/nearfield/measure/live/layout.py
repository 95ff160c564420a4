"""Plans the placement of ranks: one group per distance (or per pair), one group on all cores, and one group for the
load scenario.

All nodes of a hostfile are assumed to have the topology of this host. The launch fails if a rank cannot be bound as
planned."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.files import read_file
from nearfield.base.topology import Topology

NETWORK_DISTANCE = "network-1"
BACKGROUND_KIND = "pair-and-background"  # scenarios that time a pair while the other ranks load the machine


@dataclass(frozen=True)
class Place:
    """The PU and host of a rank."""

    cpu: int  # PU os index; -1: not bound
    host: str = ""


@dataclass(frozen=True)
class Group:
    """Ranks that are launched together, and the kinds of scenarios that they run: "pair", "all" or BACKGROUND_KIND."""

    kinds: tuple[str, ...]
    places: tuple[Place, ...]
    distance: str | None = None  # between ranks 0 and 1, which are timed
    oversubscribed: bool = False  # more ranks than cores: timings are not valid

    @property
    def pair(self) -> str:
        """Returns the PUs of ranks 0 and 1 as '0-1', with hosts as 'a:0-b:0'."""
        return "-".join(f"{p.host}:{p.cpu}" if p.host else str(p.cpu) for p in self.places[:2])

    @property
    def name(self) -> str:
        return re.sub(r"[^A-Za-z0-9.-]", "_", f"{self.kinds[0]}-{self.pair}")

    @property
    def hosts(self) -> list[tuple[str, int]] | None:
        """Returns (host, number of ranks) in rank order, with consecutive ranks of a host combined; None without a
        hostfile."""
        if not self.places[0].host:
            return None
        return [(host, len(list(run))) for host, run in groupby(place.host for place in self.places)]


@dataclass(frozen=True)
class Node:
    """A host and its usable cores."""

    host: str  # empty: this machine
    cpus: tuple[int, ...]  # first PU of each core to use


def read_hostfile(path: Path, default_cpus: tuple[int, ...]) -> list[Node]:
    """Parses lines `HOST [slots=N] [cpus=0,2,4]` with # comments. `cpus` defaults to the cores of this host; `slots`
    limits them to the first N. `localhost` is replaced by the name of this host. Raises UsageError with file and
    line."""
    try:
        lines = read_file(path).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the hostfile {path}: {error.strerror}", _HOSTFILE) from error
    nodes: dict[str, Node] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if words:
            where = f"{path}:{number}"
            if words[0] in LOOPBACK_NAMES:  # ranks are matched by host name
                words[0] = socket.gethostname()
            if words[0] in nodes:
                raise UsageError(f"{where}: {words[0]} is there twice", "one line for each host")
            nodes[words[0]] = _parse_node(words, default_cpus, where)
    if not nodes:
        raise UsageError(f"the hostfile {path} names no host", _HOSTFILE)
    return list(nodes.values())


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_NUMBER = "[0-9]{1,9}"
_HOSTFILE = "one host a line: HOST [slots=N] [cpus=0,2]"


def _parse_node(words: list[str], default_cpus: tuple[int, ...], where: str) -> Node:
    given: dict[str, list[int]] = {}
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key not in ("slots", "cpus"):
            raise UsageError(f"{where}: unknown key '{key}'", "known: slots=N, cpus=0,2,4")
        if not re.fullmatch(_NUMBER if key == "slots" else f"{_NUMBER}(,{_NUMBER})*", value):
            raise UsageError(f"{where}: '{word}' is no number or list of numbers", _HOSTFILE)
        given[key] = [int(number) for number in value.split(",")]
    cpus = tuple(given.get("cpus", default_cpus))
    if len(set(cpus)) < len(cpus):
        raise UsageError(f"{where}: a CPU is there twice", "one rank runs on each")
    slots = given.get("slots", [len(cpus)])[0]
    if slots == 0:
        raise UsageError(f"{where}: slots=0 leaves no CPU to use", "leave the line out")
    return Node(words[0], cpus[:slots])


def plan_groups(
    topology: Topology, kinds: set[str], *, nodes: list[Node] | None, all_pairs: bool, ranks: int | None
) -> tuple[list[Group], dict[str, str]]:
    """Returns the groups to launch for the given kinds of scenarios, and for each kind that cannot run the reason.

    Scenarios with the same rank placement share one launch. `ranks` replaces one rank per core in "all" and load
    scenarios. If there are more ranks than cores, the group is oversubscribed: the scenarios run, but their timings are
    invalid."""
    local = nodes or [Node("", tuple(core[0] for core in topology.cores))]
    missing: dict[str, str] = {}
    groups: list[Group] = []
    if "pair" in kinds:
        groups += _pair_groups(topology, local[0], all_pairs) + _pair_groups_between_nodes(local, all_pairs)
        if not groups:
            missing["pair"] = "needs 2 free cores; there is 1"
    places = [Place(cpu, node.host) for node in local for cpu in node.cpus]
    for kind, least in (("all", 2), (BACKGROUND_KIND, 4)):
        if kind in kinds:
            if (ranks or len(places)) >= least:
                groups.append(_group_of(kind, topology, places, ranks or len(places)))
            elif ranks:
                missing[kind] = f"needs {least} ranks; --ranks asks for {ranks}"
            else:
                verb = "is 1" if len(places) == 1 else f"are {len(places)}"
                missing[kind] = f"needs {least} free cores; there {verb}"
    return _merge_groups(groups), missing


def _pair_groups(topology: Topology, node: Node, all_pairs: bool) -> list[Group]:
    """Returns one group for each pair of usable cores in a node, or with `all_pairs` false for the first pair of each
    distance."""
    usable = {pu for core in topology.cores if set(core) & set(node.cpus) for pu in core}
    groups = []
    for distance in topology.distances():
        pairs = [pair for pair in topology.pairs(distance) if set(pair) <= usable]
        for a, b in pairs if all_pairs else pairs[:1]:
            groups.append(Group(("pair",), (Place(a, node.host), Place(b, node.host)), distance))
    return groups


def _pair_groups_between_nodes(nodes: list[Node], all_pairs: bool) -> list[Group]:
    """Returns one group for each pair of nodes, or with `all_pairs` false for the first pair, on the first core of each
    node."""
    pairs = list(combinations(nodes, 2))
    return [
        Group(("pair",), (Place(a.cpus[0], a.host), Place(b.cpus[0], b.host)), NETWORK_DISTANCE)
        for a, b in (pairs if all_pairs else pairs[:1])
    ]


def _group_of(kind: str, topology: Topology, places: list[Place], ranks: int) -> Group:
    """Returns a group of `ranks` ranks, which are dealt to the places in turn. The ranks of a host are consecutive."""
    dealt = [places[i % len(places)] for i in range(ranks)]
    hosts = [place.host for place in places]
    chosen = sorted(dealt, key=lambda place: hosts.index(place.host))
    distance = _distance_between(topology, *chosen[:2]) if kind == BACKGROUND_KIND else None
    return Group((kind,), tuple(chosen), distance, ranks > len(places))


def _distance_between(topology: Topology, a: Place, b: Place) -> str | None:
    """Returns the distance between two ranks; None if both are on the same PU."""
    if a.host != b.host:
        return NETWORK_DISTANCE
    return topology.distance(a.cpu, b.cpu) if a != b else None


def _merge_groups(groups: list[Group]) -> list[Group]:
    """Returns the groups with those of equal rank placement merged; on a two-core machine, the group of all cores is
    also the only pair. Groups with background ranks stay separate, because the engine splits all ranks of their
    launch."""
    merged: dict[tuple[tuple[Place, ...], bool], Group] = {}
    for group in groups:
        key = (group.places, BACKGROUND_KIND in group.kinds)
        same = merged.get(key)
        merged[key] = replace(same, kinds=same.kinds + group.kinds) if same else group
    return list(merged.values())
