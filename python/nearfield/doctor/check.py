"""Defines the result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """A capability that this machine has (ok), has in part (limited), or lacks (missing).

    `means` is the effect on measurements and `remedy` what to do about it; `remedy` is empty when ok. `blocks` is set
    if nothing can be measured until it is fixed."""

    name: str
    status: Literal["ok", "limited", "missing"]
    found: str
    means: str
    remedy: str = ""
    blocks: bool = False
