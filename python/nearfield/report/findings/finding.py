"""The type of findings, and decorators for functions that find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal

from nearfield.base import own_command
from nearfield.profile import Profile
from nearfield.profile.curves import Place, one_per_distance

Level = Literal["warning", "loss", "fact", "good", "note"]
# Appended to an action that suggests a change whose gain has not been measured.
AND_COMPARE = f"Then measure again: `{own_command.line('diff', 'A', 'B')}` compares the two profiles."
LEVELS: tuple[Level, ...] = ("warning", "loss", "fact", "good", "note")


@dataclass(frozen=True)
class Finding:
    """A statement that the records support.

    `level` is warning (read the rest with care), loss (time that could be saved), fact (how this machine or MPI
    behaves), good (nothing to do) or note (about the measurement itself). `weight`, the factor at stake, orders
    findings of the same level. `numbers` holds the numbers of the text, for scripts and tests: times in ns, sizes in
    bytes, fractions and factors without unit."""

    topic: str
    title: str
    statement: str
    level: Level = "fact"
    action: str = ""
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def text(self) -> str:
        return f"{self.statement} {self.action}".strip()


def select_headlines(found: Sequence[Finding]) -> list[Finding]:
    """Returns the findings to show first. If there are warnings, only these, because the other findings are then
    unreliable; otherwise all but notes on the measurement."""
    warnings = [finding for finding in found if finding.level == "warning"]
    return warnings or [finding for finding in found if finding.level != "note"]


Finder = Callable[[Profile], Iterable[Finding]]


def at_each_distance(scenario: str) -> Callable[[Callable[[Profile, Place], Iterable[Finding]]], Finder]:
    """Returns a decorator that converts a function of a profile and a pair of cores to a finder. The finder calls the
    function for one pair of each core distance at which the scenario was measured."""

    def decorate(look: Callable[[Profile, Place], Iterable[Finding]]) -> Finder:
        @wraps(look)
        def finder(profile: Profile) -> Iterator[Finding]:
            for place in one_per_distance(profile.records, scenario):
                yield from look(profile, place)

        return finder

    return decorate
