"""What a finding is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from nearfield import itself

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
