"""Defines a measuring request: scenarios, machine and thoroughness. The durations of tiers are those of a whole probe
with the default MPI, including the start-up of the ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Literal

from pydantic import AwareDatetime

from nearfield.base.errors import UsageError
from nearfield.base.words import suggest_name

MAX_MESSAGE_BYTES = (1 << 31) - 1  # MPI counts are ints


_FILTER_SYNTAX_REMEDY = "A filter is a scenario, a parameter and its values: pingpong:state=reused,fresh."


def parse_filter(text: str) -> str:
    """Returns 'pingpong:state=reused,fresh' in the engine's form: 'pingpong state reused fresh'. Raises UsageError if
    the text is no filter."""
    match = re.fullmatch(r"([\w-]+):([\w-]+)=([^\s,]+(?:,[^\s,]+)*)", text)
    if not match:
        raise UsageError(f"--filter {text}: this is no filter", _FILTER_SYNTAX_REMEDY)
    return " ".join([match[1], match[2], *match[3].split(",")])


def format_filter(engine_filter: str) -> str:
    """Returns 'pingpong state reused fresh' in the form of `--filter`: 'pingpong:state=reused,fresh'."""
    scenario, parameter, *values = engine_filter.split()
    return f"{scenario}:{parameter}={','.join(values)}"


@dataclass(frozen=True)
class Tier:
    """A preset of duration and precision for a probe."""

    name: Literal["quick", "default", "full"]
    summary: str
    budget_s: float
    num_launches: int  # per group of ranks: page placement differs between launches
    tolerance: float  # a case is finished when the relative half-width of its interval is at most this
    min_samples: int  # repetitions of a case per launch, regardless of the budget
    max_stable_half_width: float  # maximum relative half-width of the interval of a stable record


TIERS: dict[str, Tier] = {
    tier.name: tier
    for tier in (
        Tier("quick", "about a minute and a half", 80.0, 2, 0.02, 7, 0.05),
        Tier("default", "about five minutes", 285.0, 3, 0.02, 15, 0.05),
        Tier("full", "half an hour", 1800.0, 5, 0.01, 50, 0.05),
    )
}


@dataclass(frozen=True)
class Request:
    """The options of a probe, as saved with an unfinished profile. Raises UsageError for options that no probe can
    satisfy."""

    tier: str = "default"
    budget_s: float | None = None  # time limit for measuring, instead of the tier's budget
    target_s: float | None = None  # target for the measuring time; a longer measurement is not stopped
    scenarios: tuple[str, ...] = ()  # names; empty: all of the tier
    sizes: tuple[int, ...] = ()  # empty: the tier's
    mpi: str | None = None
    ranks: int | None = None
    all_pairs: bool = False
    launches: int | None = None  # per group of ranks, instead of the tier's
    only: tuple[str, ...] = ()  # 'SCENARIO PARAMETER VALUE...': restricts the scenario to these values
    hostfile: str | None = None
    launcher: str | None = None
    on: str | None = None  # simulate this described machine instead of measuring
    # ---- options of a simulation
    distances: tuple[str, ...] = ()  # empty: the tier's
    nodes: tuple[int, ...] = ()  # empty: those usual for each scenario
    policies: tuple[str, ...] = ()  # policies of the NICs; empty: the machine's own
    slowdowns: tuple[float, ...] = ()  # slowdown factors of memory; empty: none
    # pair of cores -> core-to-core latency in ns: if the cores were at several places, records are those of this one
    preferred_latencies_ns: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    created: AwareDatetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def __post_init__(self) -> None:
        if self.tier not in TIERS:
            raise UsageError(f"there is no tier '{self.tier}'", suggest_name(self.tier, TIERS))
        if self.budget_s is not None and not self.budget_s > 0:
            raise UsageError(f"--budget {self.budget_s:g}: must be more than 0 seconds")
        for which in self.only:
            if len(which.split()) < 3:
                raise UsageError(f"'{which}' filters nothing", _FILTER_SYNTAX_REMEDY)
        for size in self.sizes:
            if not 1 <= size <= MAX_MESSAGE_BYTES:
                raise UsageError(
                    f"--sizes: {size} B is not a size of 1 B to {MAX_MESSAGE_BYTES} B", "an MPI count is an int"
                )
        object.__setattr__(self, "sizes", tuple(sorted(set(self.sizes))))

    @property
    def effective_tier(self) -> Tier:
        """Returns the tier with the requested budget and number of launches in place of its own."""
        tier = TIERS[self.tier]
        budget_s = self.budget_s or self.target_s or tier.budget_s
        return replace(tier, budget_s=budget_s, num_launches=self.launches or tier.num_launches)
