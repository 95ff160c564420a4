"""Resolves symbolic sizes and distances of a claim (eager, llc/2, between nodes) for this machine and MPI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nearfield.profile import Profile
from nearfield.profile.curves import Place, is_network, one_per_distance
from nearfield.report.derived_metrics import switch_size_bytes
from nearfield.reproduce.schema import Size

FACTS = "protocol"  # the scenario of the first launch, which finds the protocol switches


@dataclass(frozen=True)
class Sizes:
    """The symbolic sizes of this machine, from a profile that is measured first."""

    profile: Profile

    def place(self, distance: str) -> Place | None:
        """Returns the pair of cores for a paper's distance: between nodes, or the nearest pair inside a node; None if
        this machine has none."""
        between = is_network(distance)
        return next((p for p in self._places() if is_network(p.distance) == between), None)

    def bytes(self, size: Size, place: Place | None) -> int | None:
        """Returns the size in bytes; None if it is unknown on this machine."""
        if isinstance(size, int | float):
            return int(size)
        found = re.fullmatch(r"(?:(\d+)\*)?(\w+?)(?:/(\d+))?", size)
        assert found, "the schema lets nothing else through"
        one = self._named_size(found[2], place)
        return None if one is None else one * int(found[1] or 1) // int(found[3] or 1)

    def all_bytes(self, sizes: Iterable[Size]) -> tuple[int, ...]:
        """Returns the known sizes, at any place, ascending."""
        places: list[Place | None] = [*self._places()] or [None]
        found = {self.bytes(size, place) for size in sizes for place in places}
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
