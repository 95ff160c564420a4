"""Resolves symbolic sizes and distances in claims (eager, llc/2, network-1) for this machine and MPI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearfield.profile import Profile
from nearfield.profile.curves import Place, is_network, one_per_distance
from nearfield.report.derived_metrics import switch_size_bytes
from nearfield.reproduce.schema import Size

FACTS = "protocol"  # scenario that finds the protocol switches; its profile also describes the machine


@dataclass(frozen=True)
class Sizes:
    """The symbolic sizes and distances of this machine, from a profile of scenario `protocol`."""

    profile: Profile

    def place_at(self, distance: str) -> Place | None:
        """Returns the pair of ranks for a paper's distance: a pair of nodes, or the nearest pair inside a node; None if
        this machine has none."""
        between = is_network(distance)
        return next((p for p in self._places() if is_network(p.distance) == between), None)

    def bytes_of(self, size: Size, place: Place | None) -> int | None:
        """Returns a symbolic size in bytes; None if it is unknown on this machine."""
        if isinstance(size, int | float):
            return int(size)
        found = re.fullmatch(r"(?:(\d+)\*)?(\w+?)(?:/(\d+))?", size)
        assert found, "the schema lets nothing else through"
        one = self._named_size(found[2], place)
        return None if one is None else one * int(found[1] or 1) // int(found[3] or 1)

    def known_bytes(self, sizes: Iterable[Size]) -> tuple[int, ...]:
        """Returns the sizes in bytes that are known at any pair of ranks, in ascending order."""
        places: list[Place | None] = [*self._places()] or [None]
        found = {self.bytes_of(size, place) for size in sizes for place in places}
        return tuple(sorted(size for size in found if size))

    def _places(self) -> list[Place]:
        return one_per_distance(self.profile.records, FACTS)

    def _named_size(self, name: str, place: Place | None) -> int | None:
        if name == "eager":
            return switch_size_bytes(self.profile.run.switch, "eager-limit", place) if place else None
        if name == "llc":
            return self.profile.machine.llc_bytes
        level = int(name[1:])
        return next((c.size_bytes for c in self.profile.machine.data_caches if c.level == level), None)
