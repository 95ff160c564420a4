"""Is a variant one file, and nothing else? Every file in a folder of variants is in the list that users choose from,
and everything in the list is a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nearfield import mpi
from nearfield._native import simulation, trace
from nearfield.measure.live.launch import query_scenarios
from nearfield.measure.sim.describe import describe_scenario
from nearfield.mpi import Installation

SOURCES = Path(__file__).parents[2] / "src"
LISTS = {
    "sim/nic/policies": lambda: simulation.words("policy"),
    "sim/network/topologies": lambda: simulation.words("topology"),
    "sim/memory/replacements": lambda: simulation.words("replacement"),
    "sim/mpi/collectives": lambda: [spec.name for spec in simulation.collectives()],
    "sim/run/app": lambda: [spec.name for spec in simulation.applications()],
    "trace/formats": lambda: [spec.name for spec in trace.formats()],
    "sim/run/scenarios": lambda: [spec.name for spec in simulation.scenarios()],
}
# Protocols have names for pairs of them, too; a name that is no file, and the files behind it.
PAIRED = {"eager-rendezvous": {"eager", "rendezvous"}, "buffered-synchronous": {"buffered", "synchronous"}}


def variants(folder: str) -> list[str]:
    """The names of the variants' files; a file beside which a header of its name stands is a helper."""
    files = (SOURCES / folder).glob("*.cpp")
    return sorted(file.stem for file in files if not file.with_suffix(".hpp").exists())


@pytest.mark.parametrize("folder", LISTS)
def test_files_and_lists_agree(folder: str) -> None:
    named = [re.sub(r"[-.]", "_", name) for name in LISTS[folder]()]
    assert sorted(named) == variants(folder)


def test_a_machine_file_can_name_every_protocol() -> None:
    named = {name for key in ("network", "node") for name in simulation.words(key)}
    assert {name.replace("-", "_") for name in named - set(PAIRED)} == set(variants("sim/mpi/protocols"))
    assert set(PAIRED) <= named and all(PAIRED[name] <= named for name in PAIRED)


def test_what_both_backends_have_is_declared_once() -> None:
    """Has a scenario of both backends a declaration, and every declaration both implementations?"""
    both = set(variants("probe/scenarios")) & set(variants("sim/run/scenarios"))
    helpers = {"scenario", "size_ladder"}
    assert {file.stem for file in (SOURCES / "scenario").glob("*.hpp")} - helpers == both


def test_both_backends_describe_a_scenario_alike(installations: list[Installation]) -> None:
    """And is every file of the engine one of its scenarios?"""
    inst = installations[0]
    live = {one.name: one for one in query_scenarios(inst, mpi.build_target(inst))}
    assert sorted(name.replace("-", "_") for name in live) == variants("probe/scenarios")
    for spec in simulation.scenarios():
        if spec.name in live:
            assert live[spec.name].model_dump(exclude={"ranks", "weight"}) == describe_scenario(spec).model_dump()
