"""The result of a check of `nearfield doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """The result of a check of a capability: this machine has it (ok), has it in part (limited), or lacks it (missing).

    `found` is the observation, `means` is its effect on measurements, and `remedy` is what to do about it (empty if
    ok). If `blocks`, nothing can be measured until the problem is fixed."""

    name: str
    status: Literal["ok", "limited", "missing"]
    found: str
    means: str
    remedy: str = ""
    blocks: bool = False
    messages: tuple[str, ...] = ()  # what MPIs print where this is not ok
