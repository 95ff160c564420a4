"""Defines findings, and a decorator for functions that find them at each core distance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal

from nearfield.base import own_command
from nearfield.profile import Profile
from nearfield.profile.curves import Place, one_place_per_distance

FindingLevel = Literal["warning", "loss", "fact", "good", "note"]
# This is appended to an action that suggests a change whose gain has not been measured.
MEASURE_AGAIN_ADVICE = f"Then measure again: `{own_command.command_line('diff', 'A', 'B')}` compares the two profiles."
LEVELS: tuple[FindingLevel, ...] = ("warning", "loss", "fact", "good", "note")


@dataclass(frozen=True)
class Finding:
    """A statement that the records support.

    `level` is warning (the other findings are unreliable), loss (time that could be saved), fact (how this machine or
    MPI behaves), good (nothing to do) or note (about the measurement itself). Findings of the same level are ordered by
    `weight`, which is the size of the effect as a factor. `numbers` has the numbers of the text, for scripts and tests:
    times in ns, sizes in bytes, fractions and factors without a unit."""

    topic: str
    title: str
    statement: str
    level: FindingLevel = "fact"
    action: str = ""
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    weight: float = 1.0

    @property
    def text(self) -> str:
        return f"{self.statement} {self.action}".strip()


def select_headlines(findings: Sequence[Finding]) -> list[Finding]:
    """Returns the findings to show first: only the warnings if there are any, because all other findings are then
    unreliable; otherwise all findings except notes on the measurement."""
    warnings = [finding for finding in findings if finding.level == "warning"]
    return warnings or [finding for finding in findings if finding.level != "note"]


Finder = Callable[[Profile], Iterable[Finding]]


def finder_at_each_distance(scenario: str) -> Callable[[Callable[[Profile, Place], Iterable[Finding]]], Finder]:
    """Returns a decorator that converts a function of a profile and a pair of cores to a finder. The finder calls the
    function for one pair of each core distance at which the scenario was measured."""

    def decorate(find_at_place: Callable[[Profile, Place], Iterable[Finding]]) -> Finder:
        @wraps(find_at_place)
        def finder(profile: Profile) -> Iterator[Finding]:
            for place in one_place_per_distance(profile.records, scenario):
                yield from find_at_place(profile, place)

        return finder

    return decorate
