"""A patch: one function of one file with its communication moved, and everything that a person needs to judge it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path

CONTEXT = 3  # unchanged lines around a change


@dataclass(frozen=True)
class Patch:
    """A proved rewrite of one region of a file. `original` and `rewritten` are the whole file before and after;
    `lines` are the first and the last line of the original that change."""

    path: Path
    original: str
    rewritten: str
    function: str
    transformation: str
    reason: str
    lines: tuple[int, int]
    assumptions: list[str] = field(default_factory=list)
    gain: float | None = None  # expected, a ratio of speeds of an iteration's communication; None without a profile
    steps: str = ""  # the new order of the region in words
    checks: list[str] = field(default_factory=list)  # what compiling and running it said

    @property
    def diff(self) -> str:
        """Returns the unified diff, which `patch -p1` and `git apply` take."""
        name = self.path.as_posix().lstrip("/")
        before, after = (text.splitlines(keepends=True) for text in (self.original, self.rewritten))
        made = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=CONTEXT)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)


@dataclass(frozen=True)
class Refusal:
    """Says why the communication at a line stays as it is. `assumption` is the option that would allow more, if one
    would."""

    line: int
    reason: str
    function: str = ""
    assumption: str = ""
