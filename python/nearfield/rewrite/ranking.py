"""Ranks legal rewrites by a profile's costs, or without one by the rules of S0, and says why each is of use.

With a profile the expected gain compares the time of a message with its buffers in the caches and without, and the
time of reading it at once and later. What overlap gains depends on how an MPI progresses messages while the program
computes, which no record says; so it has no expected gain, and its place is by the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nearfield.profile import Profile, load
from nearfield.profile.records import deciding
from nearfield.rewrite.parts import Order, Transformation
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.program import Region
from nearfield.topology import DISTANCES
from nearfield.units import format_bytes, parse_bytes

# Without a profile: send what is cached and receive late (rules 1 and 3), delay the use of received data (rule 2).
BY_RULE = ("warm-send", "overlap", "late-receive", "reverse", "cut", "strip-mine")


@dataclass
class Costs:
    """What messages cost on a profile's machine. `size_bytes` is for messages whose size the source does not say."""

    profile: Profile
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        self._records = deciding(self.profile.records)
        measured = set(self._records["distance"].drop_nulls())
        inside = [distance for distance in DISTANCES if distance in measured]
        self.distance = inside[-1] if inside else min(measured, default=None)

    def time(self, scenario: str, metric: str, state: str, size_bytes: int) -> float | None:
        """Returns the time in ns at the nearest size that was measured; None if there is none."""
        if "state" not in self._records.columns:
            return None
        rows = self._records.filter(
            (self._records["scenario"] == scenario) & (self._records["metric"] == metric)
            & (self._records["state"] == state) & (self._records["distance"] == self.distance)
        )  # fmt: skip
        if scenario == "pollution":
            rows = rows.filter(rows["side"] == "receiver")
        found = rows.select("size_bytes", "value").drop_nulls().iter_rows()
        pairs = [(abs(math.log(max(size, 1) / size_bytes)), value) for size, value in found]
        return float(min(pairs)[1]) if pairs else None

    def gain(self, transformation: str, size_bytes: int) -> float | None:
        """Returns how many times as fast a message is sent and read; None if the records do not say it."""
        cold, warm = (self.time("pingpong", "half_round_trip", state, size_bytes) for state in ("invalid", "modified"))
        later, at_once = (
            self.time("pollution", "traverse", state, size_bytes) for state in ("base-invalid", "invalid")
        )
        if cold is None or warm is None:
            return None
        later = later or 0.0
        at_once = later if at_once is None else at_once
        after = {"warm-send": warm + later, "late-receive": cold + at_once, "reverse": warm + at_once}.get(
            transformation
        )
        return (cold + later) / after if after else None

    def gain_of_cutting(self, size_bytes: int, piece_bytes: int) -> float | None:
        """Returns how many times as fast a long message is made, sent and read in pieces; None if no record says."""
        rows = self._records.filter((self._records["scenario"] == "cut") & (self._records["metric"] == "time"))
        if rows.is_empty():
            return None
        near = [
            (abs(math.log(size / size_bytes)), abs(math.log(piece / piece_bytes)) if piece else -1.0, float(value))
            for size, piece, value in rows.select("size_bytes", "piece_bytes", "value").drop_nulls().iter_rows()
        ]
        nearest = min((far for far, _, _ in near), default=0.0)
        whole = [value for far, other, value in near if far == nearest and other < 0]
        cut = sorted((other, value) for far, other, value in near if far == nearest and other >= 0)
        return whole[0] / cut[0][1] if whole and cut else None


def costs_of(profile: Path | None, size: str | None) -> Costs | None:
    """Returns the costs that the options name."""
    return Costs(load(profile), parse_bytes(size) if size else None) if profile is not None else None


def message_bytes(region: Region) -> int | None:
    """Returns the size of a region's longest message, if constants say it."""
    sizes = []
    for call in region.calls:
        for message in call.messages:
            total = 0
            for monomial, factor in message.count.terms.items() if message.count is not None else ():
                values = [region.symbols[key].value for key in monomial]
                if any(value is None for value in values):
                    return None
                total += factor * math.prod(value for value in values if value is not None)
            sizes.append(total * message.element_bytes)
    return max(sizes, default=None) or None


def expected_gain(transformation: str, region: Region, costs: Costs | None) -> float | None:
    """Returns the expected gain in communication of a transformation; None if it is not known."""
    size = message_bytes(region) or (costs.size_bytes if costs else None)
    if not costs or not size:
        return None
    for call in region.calls:
        if call.piece:
            return costs.gain_of_cutting(size, call.piece.elements * call.messages[0].element_bytes)
    return costs.gain(transformation, size)


def ranked(patches: Sequence[Patch]) -> list[Patch]:
    """Returns the patches by region, the best first: by expected gain, then by the rules."""

    def key(patch: Patch) -> tuple[tuple[int, int], float, int]:
        return patch.lines, -(patch.gain or 1.0), BY_RULE.index(patch.transformation)

    return sorted(patches, key=key)


def reason_of(transformation: Transformation, order: Order, region: Region) -> str:
    """Returns why the order is of use, in a sentence."""
    size = message_bytes(region)
    of = f" (messages of {format_bytes(size)})" if size else ""
    return f"{transformation.summary}{of}: {order.words}"
