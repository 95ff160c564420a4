"""Defines the request: the options of one tune."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nearfield.rules.criterion import MIN_GAIN


@dataclass(frozen=True)
class Request:
    """The options of one tune. It is stored beside unfinished rules, so that the tune can be resumed."""

    mpi: str | None = None
    budget_s: Annotated[float, Field(gt=0, le=1e9)] = 180.0
    exhaustive: bool = False
    memory_limit_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 64 << 20  # of shared memory per rank
    never_below: Annotated[float, Field(gt=0, le=1)] = MIN_GAIN  # of the baseline's speed, at any size
    ranks_per_node: Annotated[int, Field(ge=2, le=1 << 20)] | None = None  # for that cost; default: one per core
    distances: tuple[str, ...] = ()  # default: all inside the machine
    # default: eleven to search, 1 B to four times the last-level cache to confirm
    sizes: tuple[Annotated[int, Field(ge=1, le=1 << 40)], ...] = ()
    command: str = ""
