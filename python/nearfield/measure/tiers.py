"""How thorough a probe is. Times are for the whole probe on the default MPI, set-up of the ranks included."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Tier:
    """How long a probe takes, and how sure it is."""

    name: Literal["quick", "default", "full"]
    summary: str
    budget_s: float
    launches: int  # of each group of ranks: page placement differs from launch to launch
    tolerance: float  # a case is done when its interval is this narrow, relative to its median
    min_samples: int  # repetitions of a case per launch, whatever the budget
    stable: float  # records with wider intervals are marked unstable


TIERS: dict[str, Tier] = {
    tier.name: tier
    for tier in (
        Tier("quick", "about a minute and a half", 80.0, 2, 0.02, 7, 0.05),
        Tier("default", "about five minutes", 285.0, 3, 0.02, 15, 0.05),
        Tier("full", "half an hour", 1800.0, 5, 0.01, 50, 0.05),
    )
}
