"""Plans the decomposition of a grid over ranks and nodes by message costs (the planner is src/plan/plan.hpp)."""

from nearfield.plan.cost_source import (
    CostModel,
    costs_file_text,
    costs_of_machine,
    default_model,
    described_model,
    find_mode,
    link_costs_of,
    measured_model,
    parse_model,
    simulated_model,
)
from nearfield.plan.splits import find_plans

__all__ = [
    "CostModel",
    "costs_of_machine",
    "default_model",
    "described_model",
    "link_costs_of",
    "measured_model",
    "simulated_model",
    "find_mode",
    "find_plans",
    "costs_file_text",
    "parse_model",
]
