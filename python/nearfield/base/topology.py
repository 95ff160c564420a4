"""Reads the topology of a machine (cores, caches, NUMA nodes, packages) through hwloc: of this machine, from XML, or
from a synthetic description."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from nearfield import _native
from nearfield.base.errors import UsageError

# Classes of distance between two PUs, nearest first. Each class is a type of hardware object; two PUs belong to the
# first class that has an object which contains both (src/topology/distance.hpp).
CORE_DISTANCES: tuple[str, ...] = _native.DISTANCES

SYNTHETIC_EXAMPLE = "package:2 l3:4 core:8 pu:2"
_SYNTHETIC_TYPES = (
    "package", "socket", "die", "group", "numanode", "l5cache", "l4cache", "l3cache", "l2cache", "l1cache",
    "l1dcache", "l1icache", "l2icache", "l3icache", "core", "pu",
)  # fmt: skip


_CAPTURE_REMEDY = "Capture the machine again there: lstopo FILE.xml"

CacheKind = Literal["data", "unified", "instruction"]


@dataclass(frozen=True)
class Cache:
    """A cache. If the source does not state them, `line_bytes` is 0 and `ways` is None."""

    level: int
    kind: CacheKind  # "data", "unified" or "instruction"
    size_bytes: int
    line_bytes: int
    ways: int | None
    pus: tuple[int, ...]


class Topology:
    """The topology of one node, restricted to the PUs that may be used. PUs have the numbers of the operating system.

    Created by `of_this_machine`, `from_xml`, `parse_xml` and `from_synthetic`, which raise UsageError. Immutable.
    """

    def __init__(self, native: _native.Topology, source: str) -> None:
        self._native = native
        self.source = source

    @classmethod
    def of_this_machine(cls) -> Topology:
        """Returns the topology of this machine, without PUs that the cgroup or the affinity mask of this process
        forbids."""
        try:
            return cls(_native.Topology.live(), "this machine")
        except _native.TopologyError as error:
            raise UsageError(
                str(error),
                "Unset HWLOC_XMLFILE, HWLOC_SYNTHETIC and HWLOC_FSROOT; "
                "to look at another machine name an XML file of it, or use --synthetic.",
            ) from error

    @classmethod
    def from_xml(cls, path: str | Path) -> Topology:
        """Returns the topology in a file that hwloc's `lstopo FILE.xml` wrote, or in `topology.xml` of a profile."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}", "Give a file that 'lstopo FILE.xml' wrote.") from error
        return cls.parse_xml(content, str(path))

    @classmethod
    def parse_xml(cls, content: bytes, source: str) -> Topology:
        """Returns the topology in the content of such an XML file; `source` names the file in messages. Content that
        crashes hwloc raises UsageError, too, since a child process parses it first."""
        try:
            content.decode()
            topology = cls(_native.Topology.from_xml(content), source)
        except (_native.TopologyError, UnicodeDecodeError) as error:
            cause = _xml_cause(content.decode(errors="replace"), error)
            raise UsageError(f"{source}: {cause}", _CAPTURE_REMEDY) from error
        if sorted(pu for core in topology.cores for pu in core) != topology.pus:
            raise UsageError(f"{source}: the file is damaged: a PU is in no core, or in two", _CAPTURE_REMEDY)
        return topology

    @classmethod
    def from_synthetic(cls, description: str) -> Topology:
        """Returns the topology of a synthetic description of hwloc: TYPE:COUNT, outermost first, counts per parent."""
        try:
            return cls(_native.Topology.from_synthetic(description), description)
        except _native.TopologyError as error:
            raise UsageError(
                f"synthetic topology '{description}': {_synthetic_cause(description)}",
                "Write TYPE:COUNT from the outside in, counts per parent, PUs last; "
                f"for example '{SYNTHETIC_EXAMPLE}'.",
            ) from error

    @cached_property
    def pus(self) -> list[int]:
        """Returns the PU numbers, ascending; they need not be contiguous."""
        return list(self._native.pus)

    @cached_property
    def cores(self) -> list[tuple[int, ...]]:
        """Returns the PUs of each core, with cores in the order of the tree."""
        return [tuple(pus) for pus in self._native.cores]

    @cached_property
    def caches(self) -> list[Cache]:
        """Returns the caches, sorted by level, kind and PUs."""
        return [Cache(c.level, c.kind, c.size_bytes, c.line_bytes, c.ways, tuple(c.pus)) for c in self._native.caches]

    @cached_property
    def numa_nodes(self) -> list[tuple[int, ...]]:
        """Returns the PUs near each NUMA node; several nodes may have the same PUs (HBM and DDR)."""
        return [tuple(pus) for pus in self._native.numa_nodes]

    @cached_property
    def packages(self) -> list[tuple[int, ...]]:
        return [tuple(pus) for pus in self._native.packages]

    @property
    def line_bytes(self) -> int:
        """Returns the size of the longest cache line in bytes; 64 if the system does not report it."""
        return max((c.line_bytes for c in self.caches if c.line_bytes), default=64)

    @property
    def cpu_model(self) -> str:
        """Returns the name of the CPU model; empty if the source does not state it."""
        return self._native.cpu_model

    def to_xml(self) -> str:
        """Returns this topology as hwloc 2 XML, which `from_xml` can read."""
        return self._native.xml

    def distance(self, pu_a: int, pu_b: int) -> str:
        """Returns the distance between two PUs, which is the smallest hardware object that contains both, in the
        order of CORE_DISTANCES. Raises UsageError for unknown or equal PUs."""
        try:
            return self._native.distance(pu_a, pu_b)
        except _native.TopologyError as error:
            raise UsageError(str(error), f"Take two different PUs of: {format_pu_ranges(self.pus)}.") from error

    def cache_bytes(self, pu: int) -> list[int]:
        """Returns the sizes in bytes of the data caches of a PU, L1 first; typical sizes if the system does not report
        them."""
        caches = [c for c in self.caches if c.kind != "instruction" and (pu in c.pus or pu < 0)]
        by_level = {c.level: c.size_bytes for c in sorted(caches, key=lambda c: c.level)}
        return list(by_level.values()) or [32 << 10, 1 << 20, 32 << 20]

    def distances(self) -> list[str]:
        """Returns the distances that at least one pair of PUs has, nearest first."""
        return self._native.distances()

    def representative_pairs(self) -> dict[str, tuple[int, int]]:
        """Returns distance -> pair of PUs: the first of `pairs_at_distance(distance)`, so that the core of PU 0 is the
        sender if possible."""
        return self._native.representatives()

    def pairs_at_distance(self, distance: str) -> list[tuple[int, int]]:
        """Returns all pairs of PUs at this distance, ascending. A core is represented by its lowest PU; for same-core,
        all pairs of PUs within each core are returned. Raises UsageError for an unknown distance."""
        if distance not in CORE_DISTANCES:
            raise UsageError(f"there is no distance '{distance}'", f"Distances are: {', '.join(CORE_DISTANCES)}.")
        return self._native.pairs(distance)

    def tree(self) -> dict[str, Any]:
        """Returns the tree of hardware as nested dicts {type, name, os_index, attrs, children}; memory comes before the
        objects that it serves."""
        return self._native.tree()


def format_pu_ranges(pus: list[int] | tuple[int, ...]) -> str:
    """Returns PU numbers in the syntax of taskset: 0-3,8, or 0-30:2 for at least five PUs with a constant step."""
    words, rest = [], sorted(pus)
    while rest:
        step = rest[1] - rest[0] if len(rest) > 1 else 1
        run = next((i for i in range(1, len(rest)) if rest[i] - rest[i - 1] != step), len(rest))
        if step > 1 and run < 5:
            run = 1
        first, last = rest[0], rest[run - 1]
        words.append(f"{first}" if run == 1 else f"{first}-{last}" + (f":{step}" if step > 1 else ""))
        rest = rest[run:]
    return ",".join(words)


def _xml_cause(text: str, error: Exception) -> str:
    """Returns the reason why an XML file cannot be read; hwloc reports only "Invalid argument"."""
    if not text.strip():
        return "the file is empty"
    if "<topology" not in text:
        return "this is not an hwloc topology: there is no <topology> element"
    if "</topology>" not in text:
        return "the file is cut off: </topology> is missing"
    version = re.search(r'<topology[^>]*version="(\d+)', text)
    if version and int(version.group(1)) > 2:
        return f"the file is of hwloc {version.group(1)}, which this hwloc 2 cannot read"
    if isinstance(error, UnicodeDecodeError):
        return f"the file is damaged: byte {error.start} is not UTF-8"
    return "hwloc cannot read this topology; the file is damaged"


def _synthetic_cause(description: str) -> str:
    """Returns the first error in a synthetic description; hwloc reports only "Invalid argument"."""
    # Attributes in parentheses and attached memory in brackets may hold anything.
    levels = re.sub(r"\([^)]*\)|\[[^]]*\]", "", description).split()
    if not levels:
        return "the description is empty"
    for level in levels:
        name, _, count = level.rpartition(":")
        if not count.isdigit() or int(count) == 0:
            return f"'{level}' has no count; it should be like '{name or level}:2'"
        if name and not any(known.startswith(name.lower()) for known in _SYNTHETIC_TYPES):
            near = difflib.get_close_matches(name.lower(), _SYNTHETIC_TYPES, n=1)
            return f"hwloc has no type '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")
    if levels[-1].rpartition(":")[0].lower() not in ("pu", ""):
        return f"the last level must be 'pu:COUNT', not '{levels[-1]}'"
    return "the levels are in an order, or have attributes, that hwloc does not accept"
