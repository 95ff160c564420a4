"""Defines the result of a check, and reads the kernel's files for checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One thing this machine gives (ok), gives in part (limited), or does not give (missing).

    `means` says what that does to measuring and `remedy` what to do about it; `remedy` is empty when ok.
    `blocks` is set when nothing can be measured until it is put right.
    """

    name: str
    status: Literal["ok", "limited", "missing"]
    found: str
    means: str
    remedy: str = ""
    blocks: bool = False


def read(path: str | Path) -> str | None:
    """Returns the stripped text of a small file; None if it does not exist or cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def chosen(path: str | Path) -> str | None:
    """Returns the word in brackets of a file like "always [madvise] never"; None if there is none."""
    text = read(path) or ""
    return text.partition("[")[2].partition("]")[0] or None
