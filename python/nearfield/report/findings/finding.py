"""What a finding is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal

from nearfield import itself
from nearfield.profile import Profile
from nearfield.report.evidence import Place, one_per_distance

Level = Literal["warning", "loss", "fact", "good", "note"]
# After a change that is worth a try.
AND_COMPARE = f"Then measure again: `{itself.command('diff', 'A', 'B')}` compares the two profiles."
LEVELS: tuple[Level, ...] = ("warning", "loss", "fact", "good", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that the records show, in words.

    level: warning (why the rest is to be read with care), loss (time that could be had back), fact (how this machine
    or MPI behaves), good (nothing to do), note (about the measurement itself). weight orders findings of one level: the
    factor at stake.
    numbers: what the words say, for scripts and tests; times in ns, sizes in bytes, shares and factors plain.
    """

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


Finder = Callable[[Profile], Iterable[Finding]]


def at_each_distance(scenario: str) -> Callable[[Callable[[Profile, Place], Iterable[Finding]]], Finder]:
    """Returns a decorator, which makes a finder of a function that looks at one place: the finder looks at one pair of
    each distance at which the scenario was measured."""

    def made(look: Callable[[Profile, Place], Iterable[Finding]]) -> Finder:
        @wraps(look)
        def finder(profile: Profile) -> Iterator[Finding]:
            for place in one_per_distance(profile.records, scenario):
                yield from look(profile, place)

        return finder

    return made
