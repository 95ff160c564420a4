"""Plans the decomposition of a grid over ranks and nodes by message costs (the planner is src/plan/plan.hpp)."""

from nearfield.plan.cost_source import (
    CostModel,
    costs_file_text,
    costs_on,
    default_model,
    described_model,
    link_of,
    measured_model,
    mode_of,
    parse_model,
    simulated_model,
)
from nearfield.plan.splits import splits

__all__ = [
    "CostModel",
    "costs_on",
    "default_model",
    "described_model",
    "link_of",
    "measured_model",
    "simulated_model",
    "mode_of",
    "splits",
    "costs_file_text",
    "parse_model",
]
