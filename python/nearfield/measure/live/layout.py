"""Plans the placement of ranks: one group per distance (or per pair), one group on all cores, and one group for the
load scenario.

All hosts in a hostfile are assumed to have the topology of this host. The launch fails if a rank cannot be bound as
planned."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from pathlib import Path

from nearfield.base.errors import UsageError
from nearfield.base.files import read_user_file
from nearfield.base.topology import Topology

NETWORK_DISTANCE = "network-1"
BACKGROUND_KIND = "pair-and-background"  # scenarios that time a pair while the other ranks load the machine


@dataclass(frozen=True)
class RankPlace:
    """The PU and host of a rank."""

    cpu: int  # PU os index; -1: not bound
    host: str = ""


@dataclass(frozen=True)
class RankGroup:
    """Ranks that are launched together, and the kinds of scenarios that they run: "pair", "all" or BACKGROUND_KIND."""

    scenario_kinds: tuple[str, ...]
    places: tuple[RankPlace, ...]
    distance: str | None = None  # between ranks 0 and 1, which are timed
    is_oversubscribed: bool = False  # more ranks than cores: timings are not valid

    @property
    def pair(self) -> str:
        """Returns the PUs of ranks 0 and 1 as '0-1', with hosts as 'a:0-b:0'."""
        return "-".join(f"{p.host}:{p.cpu}" if p.host else str(p.cpu) for p in self.places[:2])

    @property
    def name(self) -> str:
        return re.sub(r"[^A-Za-z0-9.-]", "_", f"{self.scenario_kinds[0]}-{self.pair}")

    @property
    def hosts(self) -> list[tuple[str, int]] | None:
        """Returns (host, number of ranks) in rank order, with consecutive ranks of a host combined; None without a
        hostfile."""
        if not self.places[0].host:
            return None
        return [(host, len(list(run))) for host, run in groupby(place.host for place in self.places)]


@dataclass(frozen=True)
class HostCores:
    """A host and its usable cores."""

    host: str  # empty: this machine
    cpus: tuple[int, ...]  # first PU of each core to use


def read_hostfile(path: Path, default_cpus: tuple[int, ...]) -> list[HostCores]:
    """Parses lines `HOST [slots=N] [cpus=0,2,4]` with # comments. `cpus` defaults to the cores of this host; `slots`
    limits them to the first N. `localhost` is replaced by the name of this host. Raises UsageError with file and
    line."""
    try:
        lines = read_user_file(path).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read the hostfile {path}: {error.strerror}", _HOSTFILE_SYNTAX_REMEDY) from error
    nodes: dict[str, HostCores] = {}
    for number, line in enumerate(lines, 1):
        fields = line.split("#")[0].split()
        if fields:
            location = f"{path}:{number}"
            if fields[0] in LOOPBACK_NAMES:  # ranks are matched by host name
                fields[0] = socket.gethostname()
            if fields[0] in nodes:
                raise UsageError(f"{location}: {fields[0]} is there twice", "one line for each host")
            nodes[fields[0]] = _parse_host_cores(fields, default_cpus, location)
    if not nodes:
        raise UsageError(f"the hostfile {path} names no host", _HOSTFILE_SYNTAX_REMEDY)
    return list(nodes.values())


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_NUMBER_PATTERN = "[0-9]{1,9}"
_HOSTFILE_SYNTAX_REMEDY = "one host a line: HOST [slots=N] [cpus=0,2]"


def _parse_host_cores(fields: list[str], default_cpus: tuple[int, ...], location: str) -> HostCores:
    numbers_by_key: dict[str, list[int]] = {}
    for field in fields[1:]:
        key, _, value = field.partition("=")
        if key not in ("slots", "cpus"):
            raise UsageError(f"{location}: unknown key '{key}'", "known: slots=N, cpus=0,2,4")
        if not re.fullmatch(_NUMBER_PATTERN if key == "slots" else f"{_NUMBER_PATTERN}(,{_NUMBER_PATTERN})*", value):
            raise UsageError(f"{location}: '{field}' is no number or list of numbers", _HOSTFILE_SYNTAX_REMEDY)
        numbers_by_key[key] = [int(number) for number in value.split(",")]
    cpus = tuple(numbers_by_key.get("cpus", default_cpus))
    if len(set(cpus)) < len(cpus):
        raise UsageError(f"{location}: a CPU is there twice", "one rank runs on each")
    slots = numbers_by_key.get("slots", [len(cpus)])[0]
    if slots == 0:
        raise UsageError(f"{location}: slots=0 leaves no CPU to use", "leave the line out")
    return HostCores(fields[0], cpus[:slots])


def plan_groups(
    topology: Topology, kinds: set[str], *, nodes: list[HostCores] | None, all_pairs: bool, ranks: int | None
) -> tuple[list[RankGroup], dict[str, str]]:
    """Returns the groups to launch for the given kinds of scenarios, and a dict from each kind that cannot run to the
    reason.

    Scenarios with the same rank placement share one launch. `ranks` is the number of ranks of "all" and load scenarios;
    None: one rank per core. If there are more ranks than cores, the group is oversubscribed: the scenarios run, but
    their timings are invalid."""
    hosts = nodes or [HostCores("", tuple(core[0] for core in topology.cores))]
    reason_by_kind: dict[str, str] = {}
    groups: list[RankGroup] = []
    if "pair" in kinds:
        groups += _pair_groups_in_node(topology, hosts[0], all_pairs) + _pair_groups_between_nodes(hosts, all_pairs)
        if not groups:
            reason_by_kind["pair"] = "needs 2 free cores; there is 1"
    places = [RankPlace(cpu, node.host) for node in hosts for cpu in node.cpus]
    for kind, min_ranks in (("all", 2), (BACKGROUND_KIND, 4)):
        if kind in kinds:
            if (ranks or len(places)) >= min_ranks:
                groups.append(_make_group(kind, topology, places, ranks or len(places)))
            elif ranks:
                reason_by_kind[kind] = f"needs {min_ranks} ranks; --ranks requests {ranks}"
            else:
                verb = "is 1" if len(places) == 1 else f"are {len(places)}"
                reason_by_kind[kind] = f"needs {min_ranks} free cores; there {verb}"
    return _merge_groups(groups), reason_by_kind


def _pair_groups_in_node(topology: Topology, node: HostCores, all_pairs: bool) -> list[RankGroup]:
    """Returns one group for each pair of usable cores in a node, or with `all_pairs` false for the first pair of each
    distance."""
    usable = {pu for core in topology.cores if set(core) & set(node.cpus) for pu in core}
    groups = []
    for distance in topology.distances():
        pairs = [pair for pair in topology.pairs_at_distance(distance) if set(pair) <= usable]
        for a, b in pairs if all_pairs else pairs[:1]:
            groups.append(RankGroup(("pair",), (RankPlace(a, node.host), RankPlace(b, node.host)), distance))
    return groups


def _pair_groups_between_nodes(nodes: list[HostCores], all_pairs: bool) -> list[RankGroup]:
    """Returns one group for each pair of nodes, or with `all_pairs` false for the first pair, on the first core of each
    node."""
    pairs = list(combinations(nodes, 2))
    return [
        RankGroup(("pair",), (RankPlace(a.cpus[0], a.host), RankPlace(b.cpus[0], b.host)), NETWORK_DISTANCE)
        for a, b in (pairs if all_pairs else pairs[:1])
    ]


def _make_group(kind: str, topology: Topology, places: list[RankPlace], ranks: int) -> RankGroup:
    """Returns a group of `ranks` ranks, distributed over the places round-robin. The ranks of a host are
    consecutive."""
    dealt_places = [places[i % len(places)] for i in range(ranks)]
    hosts = [place.host for place in places]
    sorted_places = sorted(dealt_places, key=lambda place: hosts.index(place.host))
    distance = _distance_between(topology, *sorted_places[:2]) if kind == BACKGROUND_KIND else None
    return RankGroup((kind,), tuple(sorted_places), distance, ranks > len(places))


def _distance_between(topology: Topology, a: RankPlace, b: RankPlace) -> str | None:
    """Returns the distance between two ranks; None if both are on the same PU."""
    if a.host != b.host:
        return NETWORK_DISTANCE
    return topology.distance(a.cpu, b.cpu) if a != b else None


def _merge_groups(groups: list[RankGroup]) -> list[RankGroup]:
    """Merges groups with equal rank placement; on a two-core machine, for example, the group of all cores is also the
    only pair. Groups with background ranks stay separate, because the engine splits all ranks of their launch."""
    merged: dict[tuple[tuple[RankPlace, ...], bool], RankGroup] = {}
    for group in groups:
        key = (group.places, BACKGROUND_KIND in group.scenario_kinds)
        same = merged.get(key)
        merged[key] = replace(same, scenario_kinds=same.scenario_kinds + group.scenario_kinds) if same else group
    return list(merged.values())
