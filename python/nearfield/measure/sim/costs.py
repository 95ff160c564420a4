"""Simulates message costs for `nearfield plan` on a described machine whose file does not state them. Only the few
cases that a plan needs are simulated; their records are cached on disk."""

from __future__ import annotations

import nearfield
from nearfield.base import disk_cache
from nearfield.base.frames import pl
from nearfield.base.progress import Report
from nearfield.machine import DescribedMachine
from nearfield.measure.row import Row
from nearfield.measure.sim import pool
from nearfield.measure.sim.cases import SimulationCase, cases_of_tier, select_simulated_scenarios
from nearfield.measure.sim.describe import SIMULATOR_VERSION
from nearfield.measure.sim.places import SimulatedPair, choose_places
from nearfield.measure.sim.store import simulate_rows
from nearfield.profile import records

MESSAGE_SIZES_BYTES = (8, 64 << 10)  # bytes: an almost empty message, and the face of a grid
STRIDES_DOUBLES = (1, 2, 8, 64)  # in doubles


def message_records(machine: DescribedMachine, jobs: int, report: Report) -> pl.DataFrame:
    """Returns records of ping-pong and strided messages between the most distant cores of a node, and between nodes;
    from the disk cache if possible. Raises UsageError if the machine cannot be simulated."""
    cache_key = [
        machine.model_dump(mode="json", exclude={"name"}),
        SIMULATOR_VERSION,
        nearfield.__version__,
        MESSAGE_SIZES_BYTES,
        STRIDES_DOUBLES,
    ]

    def simulate_costs() -> list[Row]:
        report(f"simulating the times of messages on {machine.name}, once")
        return simulate_rows(_select_cost_cases(machine), pool.make_runner_on_cores(jobs), report, jobs)

    return records.from_rows(disk_cache.get_or_compute("message-costs", cache_key, simulate_costs, ()))


def _select_cost_cases(machine: DescribedMachine) -> list[SimulationCase]:
    places = _select_farthest_places(choose_places(machine, "quick", ()))
    cases, _ = cases_of_tier(
        machine, select_simulated_scenarios(("pingpong", "stride")), places, "quick", MESSAGE_SIZES_BYTES
    )
    return [case for case in cases if _is_needed_for_plan(case)]


def _select_farthest_places(places: list[SimulatedPair]) -> list[SimulatedPair]:
    """Returns the most distant pair inside a node, and the most distant pair of nodes, where the machine has them."""
    inside = [place for place in places if not place.is_between_nodes]
    return inside[-1:] + [place for place in places if place.is_between_nodes][-1:]


def _is_needed_for_plan(case: SimulationCase) -> bool:
    """Returns whether a plan uses this case. Send buffers are in state modified, since a program writes its cells just
    before it sends them."""
    values = case.value_by_parameter
    if case.scenario == "pingpong":
        return values["state"] == "modified"
    is_plan_size = values["stride"] in STRIDES_DOUBLES and values["size_bytes"] == MESSAGE_SIZES_BYTES[-1]
    return is_plan_size and values["method"] in ("contiguous", "manual-pack") and values["mode"] == "standard"
