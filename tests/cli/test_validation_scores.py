"""How far are simulated messages from those that were measured, and has a change of the simulator changed it?

tests/data/zen4-vm holds a profile of two cores of a virtual Zen 4 that were 242 ns apart, and the description that
`nearfield machine calibrate` made of them. Whoever changes the model looks at the new scores and writes them down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tuning import in_process

PROFILE = Path(__file__).parents[1] / "data" / "zen4-vm"
ERRORS = {  # the mean error as a factor, up to 64 KiB
    "pingpong send": 1.12,
    "pingpong receive": 1.15,
    "pingpong half_round_trip": 1.14,
    "stride half_round_trip": 1.21,
    "pollution traverse": 1.31,
    "collective time": 1.19,
    "pages first_touch": 3.01,
    "pages traverse": 1.29,
}


@pytest.fixture(scope="module")
def validated() -> Any:
    options = ("--against", str(PROFILE), "--max-size", "64KiB", "--json")
    done = in_process("machine", "validate", str(PROFILE / "calibrated.toml"), *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_errors_are_those_that_are_written_down(validated: Any) -> None:
    """To two digits, whether a change made them larger or smaller?"""
    found = {f"{one['scenario']} {one['metric']}": one["error"] for one in validated["scores"]}
    assert found == pytest.approx(ERRORS, abs=0.006)


def test_buffer_states_are_in_the_measured_order(validated: Any) -> None:
    """Of each two states whose times differ by a tenth?"""
    order = validated["order_of_states"]
    assert order["of"] > 50 and order["right"] >= 0.95 * order["of"]


def test_steps_are_where_they_were_measured(validated: Any) -> None:
    """At the right size, upwards, and by a factor within 25 %?"""
    assert validated["steps"]
    for step in validated["steps"]:
        assert step["in_place"] and step["right_sign"], step
        assert step["simulated"] == pytest.approx(step["measured"], rel=0.25)
