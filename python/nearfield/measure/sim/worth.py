"""Draws conclusions from the savings of NIC policies in simulated collectives and applications: which policy is best at
which message sizes, and how many cache ways are sufficient."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from nearfield.base.units import format_bytes
from nearfield.measure.sim.operations import PolicySavings

MIN_SAVED_SHARE = 0.01  # a policy that saves a smaller share of the time counts as saving nothing
_MAX_SHARE_BELOW_BEST = 0.1  # relative difference to the best saving up to which a saving is as good
_WAYS_PATTERN = re.compile(r"(.*\bways=)(\d+)(.*)")


@dataclass(frozen=True)
class BestPolicy:
    """A range of consecutive sizes at which the same policy saves the most time. `policy` is empty if no policy saves
    MIN_SAVED_SHARE."""

    policy: str
    from_bytes: int
    to_bytes: int
    min_saved: float
    max_saved: float

    def __str__(self) -> str:
        sizes = _format_span(format_bytes(self.from_bytes), format_bytes(self.to_bytes))
        if not self.policy:
            return f"no policy saves {100 * MIN_SAVED_SHARE:g} % at {sizes}"
        saved = _format_span(f"{100 * self.min_saved:.1f}", f"{100 * self.max_saved:.1f}")
        return f"{self.policy} saves most at {sizes}: {saved} %"


@dataclass(frozen=True)
class SufficientWays:
    """A range of consecutive sizes at which the same number of ways saves nearly as much as the best simulated
    number."""

    policy: str  # the policy, with 0 in place of its number of ways: "ddio:ways=0"
    from_bytes: int
    to_bytes: int
    ways: int

    def __str__(self) -> str:
        return f"{self.ways} at {_format_span(format_bytes(self.from_bytes), format_bytes(self.to_bytes))}"


def best_policies(savings: Sequence[PolicySavings]) -> list[BestPolicy]:
    """Returns the best policy for each range of sizes, for cases that differ only in size. If a policy was simulated
    with several numbers of ways, only the smallest sufficient number is considered."""
    best: list[tuple[str, float, int]] = []
    for one in _sort_by_size(savings):
        policies = dict(one.by_policy)
        for family, by_ways in _savings_by_ways(one).items():
            enough = _smallest_sufficient_ways(by_ways)
            for ways in by_ways:
                if ways != enough:
                    del policies[_WAYS_PATTERN.sub(rf"\g<1>{ways}\g<3>", family)]
        name = max(policies, key=lambda policy: policies[policy], default="")
        is_worth_it = bool(name) and policies[name] >= MIN_SAVED_SHARE
        best.append((name, policies[name], one.size_bytes) if is_worth_it else ("", 0.0, one.size_bytes))
    spans = []
    for policy, group in groupby(best, lambda one: one[0]):
        _, saved, sizes = zip(*group, strict=True)
        spans.append(BestPolicy(policy, sizes[0], sizes[-1], min(saved), max(saved)))
    return spans


def sufficient_ways(savings: Sequence[PolicySavings]) -> dict[str, list[SufficientWays]]:
    """Returns policy -> sufficient number of ways by ranges of sizes, for policies that were simulated with several
    numbers of ways and that save MIN_SAVED_SHARE with one of them."""
    sizes: dict[str, list[tuple[int, int]]] = {}
    for one in _sort_by_size(savings):
        for family, by_ways in _savings_by_ways(one).items():
            if max(by_ways.values()) >= MIN_SAVED_SHARE:
                sizes.setdefault(family, []).append((_smallest_sufficient_ways(by_ways), one.size_bytes))
    enough: dict[str, list[SufficientWays]] = {}
    for family, of_size in sizes.items():
        for ways, group in groupby(of_size, lambda pair: pair[0]):
            sizes_in_span = [size for _, size in group]
            enough.setdefault(family, []).append(SufficientWays(family, sizes_in_span[0], sizes_in_span[-1], ways))
    return enough


def _savings_by_ways(savings: PolicySavings) -> dict[str, dict[int, float]]:
    """Returns policy (with 0 in place of its number of ways) -> number of ways -> saved share, for policies that were
    simulated with several numbers of ways."""
    families: dict[str, dict[int, float]] = {}
    for policy, saved in savings.by_policy.items():
        if match := _WAYS_PATTERN.fullmatch(policy):
            families.setdefault(f"{match[1]}0{match[3]}", {})[int(match[2])] = saved
    return {family: by_ways for family, by_ways in families.items() if len(by_ways) > 1}


def _smallest_sufficient_ways(by_ways: Mapping[int, float]) -> int:
    """Returns the smallest number of ways whose saving is at most _MAX_SHARE_BELOW_BEST below the best one."""
    best = max(by_ways.values())
    return min(ways for ways, saved in by_ways.items() if saved >= best - abs(best) * _MAX_SHARE_BELOW_BEST)


def _sort_by_size(savings: Sequence[PolicySavings]) -> list[PolicySavings]:
    return sorted(savings, key=lambda one: one.size_bytes)


def _format_span(first_bytes: str, last_bytes: str) -> str:
    return first_bytes if first_bytes == last_bytes else f"{first_bytes} to {last_bytes}"
