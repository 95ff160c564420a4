"""Defines a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nearfield import itself

Level = Literal["warning", "loss", "fact", "good", "note"]
# The advice after a change that is worth trying.
AND_COMPARE = f"Then measure again: `{itself.command('diff', 'A', 'B')}` compares the two profiles."
LEVELS: tuple[Level, ...] = ("warning", "loss", "fact", "good", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that the records show, in words.

    `level` is warning (why the rest is to be read with care), loss (time that could be saved), fact (how this machine
    or MPI behaves), good (nothing to do) or note (about the measurement itself). `weight`, the factor at stake, orders
    findings of one level. `numbers` has the numbers of the words for scripts and tests; times in ns, sizes in bytes,
    shares and factors plain.
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
