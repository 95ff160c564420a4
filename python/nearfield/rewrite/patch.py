"""A patch: a source file with the communication of one region moved, and everything that a reviewer needs to judge the
patch."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from pathlib import Path

from nearfield.base.units import counted
from nearfield.rewrite.analysis.program import MissedOptimization
from nearfield.rewrite.frontend.text import split_lines
from nearfield.rewrite.gain import ExpectedGain

CONTEXT = 3  # unchanged lines of context around a change in a diff
LONG_FACTOR = 3  # a patch is long if it makes the code more than this many times as long


@dataclass(frozen=True)
class Patch:
    """A proved rewrite of one region of a file. `original` and `rewritten` are the whole file before and after;
    `changed_lines` are the first and the last changed line of the original."""

    path: Path
    original: str
    rewritten: str
    function: str
    transformation: str
    reason: str
    changed_lines: tuple[int, int]
    assumptions: list[str] = field(default_factory=list)
    expected_gain: ExpectedGain = field(default_factory=ExpectedGain)
    order_description: str = ""  # the new order of execution, in words
    checks: list[str] = field(default_factory=list)  # results of compiling and running the rewritten program, in words
    measured_checks: list[str] = field(default_factory=list)  # entries of `checks` with measured gains

    @property
    def diff(self) -> str:
        """Returns the patch as a unified diff for `patch -p1` and `git apply`."""
        name = self.path.as_posix().lstrip("/")
        before, after = split_lines(self.original), split_lines(self.rewritten)
        diff_lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=CONTEXT)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff_lines
        )

    @property
    def replacement_lines(self) -> list[str]:
        """Returns the lines of the rewritten file that replace the lines `changed_lines` of the original."""
        before, after = split_lines(self.original), split_lines(self.rewritten)
        return after[self.changed_lines[0] - 1 : len(after) - (len(before) - self.changed_lines[1])]

    @property
    def num_code_lines_before_and_after(self) -> tuple[int, int]:
        """Returns the number of lines of code before and after the patch, without blank lines."""
        first, last = self.changed_lines
        return _count_code_lines(split_lines(self.original)[first - 1 : last]), _count_code_lines(
            self.replacement_lines
        )

    @property
    def num_changed_lines(self) -> int:
        """Returns the number of lines of code that the patch adds or changes, which a reviewer has to read."""
        added = (line[1:] for line in self.diff.split("\n")[2:] if line.startswith("+"))
        return sum(1 for line in added if line.strip())

    @property
    def is_long(self) -> bool:
        """Returns whether the patch makes the code more than LONG_FACTOR times as long."""
        before, after = self.num_code_lines_before_and_after
        return after > LONG_FACTOR * before

    @property
    def size_text(self) -> str:
        """Returns the size of the patch as text: '12 lines for 7 (5 added or changed)'."""
        before, after = self.num_code_lines_before_and_after
        return f"{counted(after, 'line')} for {before} ({self.num_changed_lines} added or changed)"


@dataclass
class Analysis:
    """The rewrites of one source file: patches, ranked best first within each region, and missed optimizations by
    line."""

    path: Path
    patches: list[Patch] = field(default_factory=list)
    missed: list[MissedOptimization] = field(default_factory=list)


def _count_code_lines(lines: list[str]) -> int:
    """Returns the number of lines that are not blank."""
    return sum(1 for line in lines if line.strip())
