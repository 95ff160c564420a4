"""Defines the answer of a check."""

from __future__ import annotations

from dataclasses import dataclass
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
