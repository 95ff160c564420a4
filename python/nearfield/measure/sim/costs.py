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
from nearfield.measure.sim.cases import Case, cases_of_tier, select_scenarios
from nearfield.measure.sim.describe import SIMULATOR
from nearfield.measure.sim.places import Place, choose_places
from nearfield.measure.sim.store import simulate_rows
from nearfield.profile import records

SIZES = (8, 64 << 10)  # bytes: an almost empty message, and the face of a grid
STRIDES = (1, 2, 8, 64)  # in doubles


def message_records(machine: DescribedMachine, jobs: int, report: Report) -> pl.DataFrame:
    """Returns records of ping-pong and strided messages between the most distant cores of a node, and between nodes;
    from the disk cache if possible. Raises UsageError if the machine cannot be simulated."""
    question = [machine.model_dump(mode="json", exclude={"name"}), SIMULATOR, nearfield.__version__, SIZES, STRIDES]

    def simulate_costs() -> list[Row]:
        report(f"simulating what messages cost on {machine.name}, once")
        return simulate_rows(_cost_cases(machine), pool.runner_on_cores(jobs), report, jobs)

    return records.from_rows(disk_cache.get_or_compute("message-costs", question, simulate_costs, ()))


def _cost_cases(machine: DescribedMachine) -> list[Case]:
    places = _farthest_places(choose_places(machine, "quick", ()))
    cases, _ = cases_of_tier(machine, select_scenarios(("pingpong", "stride")), places, "quick", SIZES)
    return [case for case in cases if _is_needed(case)]


def _farthest_places(places: list[Place]) -> list[Place]:
    """Returns the most distant pair inside a node, and the most distant pair of nodes, where the machine has them."""
    inside = [place for place in places if not place.between_nodes]
    return inside[-1:] + [place for place in places if place.between_nodes][-1:]


def _is_needed(case: Case) -> bool:
    """Returns whether a plan uses this case. Send buffers are in state modified, since a program writes its cells just
    before it sends them."""
    values = case.values
    if case.scenario == "pingpong":
        return values["state"] == "modified"
    wanted = values["stride"] in STRIDES and values["size_bytes"] == SIZES[-1]
    return wanted and values["method"] in ("contiguous", "manual-pack") and values["mode"] == "standard"
