"""Plans: how a grid is best split over ranks and nodes, from what messages cost (src/plan/plan.hpp decides)."""

from nearfield.plan.known import (
    Known,
    costs_on,
    default,
    described,
    link_of,
    measured,
    mode_of,
    simulated,
    text_of,
    written,
)
from nearfield.plan.splits import splits

__all__ = [
    "Known",
    "costs_on",
    "default",
    "described",
    "link_of",
    "measured",
    "simulated",
    "mode_of",
    "splits",
    "text_of",
    "written",
]
