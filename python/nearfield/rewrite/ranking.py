"""Ranks legal rewrites by the rules of S0 and the costs of a profile, and says why each is of use."""

from __future__ import annotations

from dataclasses import dataclass

from nearfield.rewrite.parts import Order, Transformation
from nearfield.rewrite.patch import Patch
from nearfield.rewrite.program import Region

# Without a profile, by the rules: send what is cached (1, 3), delay the use of received data (2), then the rest.
BY_RULE = ("warm-send", "overlap", "late-receive", "reverse", "strip-mine", "cut")


@dataclass(frozen=True)
class Costs:
    """What decides between transformations on a machine."""

    eager_bytes: int
    cache_bytes: int


def ranked(patches: list[Patch]) -> list[Patch]:
    """Returns the patches by region, the best first."""
    return sorted(patches, key=lambda patch: (patch.lines, BY_RULE.index(patch.transformation)))


def reason_of(transformation: Transformation, order: Order, region: Region, costs: Costs | None) -> str:
    """Returns why the order is of use, in a sentence."""
    return f"{transformation.summary}: {order.words}"


def costs_of(profile: object, size: str | None) -> Costs | None:
    return None
