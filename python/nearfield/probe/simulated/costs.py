"""Simulates what messages cost on a described machine whose file does not say it. Only the few cases that a plan needs
are simulated, once; the cache folder keeps them."""

from __future__ import annotations

from typing import Any

import polars as pl

import nearfield
from nearfield import answers
from nearfield.machine import DescribedMachine
from nearfield.machine.profiled import SIMULATOR
from nearfield.probe.simulated.cases import Case, Job, Values, all_cases, case_rows, chosen_scenarios, run_job
from nearfield.probe.simulated.places import Place, choose_places
from nearfield.probe.simulated.session import Watcher
from nearfield.profile import records
from nearfield.simulate import pool

SIZES = (8, 64 << 10)  # nearly an empty message, and the face of a grid
STRIDES = (1, 2, 8, 64)  # in doubles


def message_records(machine: DescribedMachine, jobs: int, watcher: Watcher) -> pl.DataFrame:
    """Returns records of ping-pongs and strides between the farthest cores of a node, and between nodes. A machine that
    was simulated before is taken from the cache folder. Raises UsageError if the machine cannot be simulated."""
    question = [machine.model_dump(mode="json", exclude={"name"}), SIMULATOR, nearfield.__version__, SIZES, STRIDES]
    found = answers.recall("message-costs", question)
    if found is None:
        found = _simulated(machine, jobs, watcher)
        answers.remember("message-costs", question, found)
    return records.from_rows(found)


def _simulated(machine: DescribedMachine, jobs: int, watcher: Watcher) -> list[dict[str, Any]]:
    cases = _cases(machine)
    todo = [Job(machine, case) for case in cases]
    watcher.plan(todo, 0, jobs)
    values: dict[Case, Values] = {}
    for job, found in pool.on_cores(jobs, of_case=run_job)(todo):
        values[job.case] = found
        watcher.done(job)
    return [row for case in cases for row in case_rows(case, values[case])]


def _cases(machine: DescribedMachine) -> list[Case]:
    places = _farthest(choose_places(machine, "quick", ()))
    cases, _ = all_cases(machine, chosen_scenarios(("pingpong", "stride")), places, "quick", SIZES)
    return [case for case in cases if _is_needed(case.scenario, dict(case.parameters))]


def _farthest(places: list[Place]) -> list[Place]:
    """Returns the farthest cores of a node, and of two nodes."""
    inside = [place for place in places if not place.between_nodes]
    return inside[-1:] + [place for place in places if place.between_nodes][-1:]


def _is_needed(scenario: str, parameters: dict[str, int | str]) -> bool:
    """Whether a plan needs this case. Its buffers are modified, since a program writes its cells just before it sends
    them."""
    if scenario == "pingpong":
        return parameters["state"] == "modified"
    wanted = parameters["stride"] in STRIDES and parameters["size_bytes"] == SIZES[-1]
    return wanted and parameters["method"] in ("contiguous", "manual-pack") and parameters["mode"] == "standard"
