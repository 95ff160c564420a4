"""Analyses one C or C++ file: finds its regions of communication, and returns every legal rewrite of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearfield.rewrite.patch import Patch, Refusal


@dataclass
class Analysis:
    """What was found in a file: legal variants, ranked best first within each region, and refusals by line."""

    path: Path
    patches: list[Patch] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def analyse(
    path: Path,
    arguments: Sequence[str],
    *,
    function: str | None = None,
    only: frozenset[str] | None = None,
    assume_noalias: Sequence[str] = (),
) -> Analysis:
    """Returns the legal rewrites of a file, and why the rest stays as it is. `arguments` are those of the compiler
    (-I, -D, -std), `only` are names of transformations. Raises UsageError if the file cannot be parsed."""
    return Analysis(path)
