"""Does `nearfield verify` compare a node with itself, and fail closed?"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tuning import in_process

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.cli.verbs import verify
from nearfield.measure import Request
from nearfield.mpi import Installation
from nearfield.profile import load

DATA = Path(__file__).parents[1] / "data"
CORES = len(os.sched_getaffinity(0))


@pytest.fixture
def is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "LAUNCHES", 1)
    monkeypatch.setattr(verify, "MAX_START_S", 0)


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
@pytest.mark.usefixtures("is_short")
def test_a_node_is_compared_with_itself(installations: list[Installation], tmp_path: Path) -> None:
    """Are the profile's own scenarios, sizes and MPI measured again, is what is measured kept, and is the verdict one
    that the numbers carry? A quiet machine says 0, a busy one 6."""
    before, now = tmp_path / "before", tmp_path / "now"
    inst = installations[0]
    words = ["--quick", "--launches", "1", "--scenario", "floor,pingpong", "--sizes", "64,4KiB", "--mpi", inst.name]
    assert in_process("probe", *words, "-o", before).code == 0
    done = in_process("verify", before, "--json", "--out", now, "--fail-if-slower", "99%")
    assert done.code in (0, NOT_DECIDED_EXIT_CODE), done.err
    printed = json.loads(done.out)
    gate = printed["gate"]
    assert gate["exit_code"] == done.code
    assert set(gate["scenarios"]) == set(verify.SCENARIOS)
    assert all(one["times"] > 0 for one in gate["scenarios"].values())
    assert (now / "run.toml").is_file() and inst.version in (now / "run.toml").read_text()


def test_a_profile_of_one_scenario_is_enough() -> None:
    """From a profile without the floor, whose records have no column for it, are the ping-pongs taken that are measured
    again, and nothing else?"""
    whole = load(DATA / "epyc-vm-quiet")
    records = whole.records.filter(whole.records["scenario"] == "pingpong").drop("kind")
    request = Request(scenarios=("pingpong",), sizes=(64, 4096))
    taken = verify._select_requested_records(replace(whole, records=records), request)
    assert set(taken["size_bytes"]) == {64, 4096} and set(taken["state"]) == {verify.STATE}


def test_profiles_that_cannot_be_measured_again_are_refused(tmp_path: Path) -> None:
    """Is a simulated profile refused, one without these scenarios, and a limit without a unit?"""
    assert "was simulated" in in_process("verify", DATA / "leo3-simulated").words
    assert in_process("verify", tmp_path / "none").code == 4
    assert in_process("verify", DATA / "epyc-vm-quiet", "--fail-if-slower", "5").code == 2
