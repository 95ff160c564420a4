"""The options of one tune, as stored in its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nearfield.rules.criterion import MIN_GAIN


@dataclass(frozen=True)
class TuneRequest:
    """The options of one tune. They are stored in the log, so that the tune can be resumed."""

    mpi: str | None = None
    budget_s: Annotated[float, Field(gt=0, le=1e9)] = 180.0
    exhaustive: bool = False
    memory_limit_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 64 << 20  # limit for the MPI's shared memory per rank
    # lower limit at any message size, as a fraction of the baseline's speed
    never_below: Annotated[float, Field(gt=0, le=1)] = MIN_GAIN
    # number of ranks for the memory limit; default: one per core
    ranks_per_node: Annotated[int, Field(ge=2, le=1 << 20)] | None = None
    distances: tuple[str, ...] = ()  # core distances to tune; default: all on this machine
    # message sizes; default: eleven for the search, 1 B to four times the last-level cache to confirm
    sizes: tuple[Annotated[int, Field(ge=1, le=1 << 40)], ...] = ()
    command: str = ""
