"""Converts the symbolic sizes and distances of claims (eager, llc/2, network-1) to those of this machine and MPI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearfield.profile import Profile
from nearfield.profile.curves import Place, is_network_distance, one_place_per_distance
from nearfield.report.derived_metrics import switch_size_bytes
from nearfield.reproduce.schema import SymbolicSize

FACTS_SCENARIO = "protocol"  # scenario that finds the MPI's protocol switches; its profile also describes the machine


@dataclass(frozen=True)
class MachineSizes:
    """The values of symbolic sizes and distances on this machine, from a profile of the scenario `protocol`."""

    profile: Profile

    def find_place(self, distance: str) -> Place | None:
        """Returns the pair of ranks that stands for a distance of a paper: a pair on two nodes for a network distance,
        otherwise the nearest pair inside a node. Returns None if no such pair was measured."""
        spans_nodes = is_network_distance(distance)
        return next((p for p in self._places() if is_network_distance(p.distance) == spans_nodes), None)

    def bytes_of(self, size: SymbolicSize, place: Place | None) -> int | None:
        """Returns a symbolic size in bytes, for the pair of ranks `place`; None if it is unknown on this machine."""
        if isinstance(size, int | float):
            return int(size)
        match = re.fullmatch(r"(?:(\d+)\*)?(\w+?)(?:/(\d+))?", size)
        assert match, "the schema lets nothing else through"
        base_bytes = self._named_size_bytes(match[2], place)
        return None if base_bytes is None else base_bytes * int(match[1] or 1) // int(match[3] or 1)

    def resolve_known_sizes(self, sizes: Iterable[SymbolicSize]) -> tuple[int, ...]:
        """Returns the values in bytes that the sizes have at any pair of ranks, in ascending order. Omits unknown
        ones."""
        places: list[Place | None] = [*self._places()] or [None]
        resolved = {self.bytes_of(size, place) for size in sizes for place in places}
        return tuple(sorted(size for size in resolved if size))

    def _places(self) -> list[Place]:
        return one_place_per_distance(self.profile.records, FACTS_SCENARIO)

    def _named_size_bytes(self, name: str, place: Place | None) -> int | None:
        if name == "eager":
            return switch_size_bytes(self.profile.run.switch, "eager-limit", place) if place else None
        if name == "llc":
            return self.profile.machine.llc_bytes
        level = int(name[1:])
        return next((c.size_bytes for c in self.profile.machine.data_caches if c.level == level), None)
