"""Validation: are scores what the ratios say, are measurements that carry no comparison refused, and are records to
which a description was fitted left out?"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearfield.base.errors import ProfileError
from nearfield.base.estimates import Estimate
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.captured import machine_from_profile
from nearfield.machine.files import to_toml
from nearfield.profile import Profile, load, schema
from nearfield.profile.records import from_rows
from nearfield.validate import cases, page, scores, table, trust
from nearfield.validate.validation import read_times, validate

DATA = Path(__file__).parents[1] / "data"
QUIET = DATA / "epyc-vm-quiet"


def pair(
    measured: float, simulated: float, scenario: str = "pingpong", stable: bool = True, **more: Any
) -> cases.TimePair:
    row = {"scenario": scenario, "metric": "half_round_trip", "size_bytes": 8, "state": "reused"} | more
    return cases.TimePair(row, Estimate(measured, measured * 0.95, measured * 1.05), simulated, stable)


def machine(**changes: Any) -> DescribedMachine:
    """Returns a described machine of two cores, with other values."""
    values = load_machine("workstation").model_dump(exclude_none=True)
    for key, value in changes.items():
        section, name = key.split("__")
        values[section][name] = value
    return DescribedMachine.model_validate(values)


def profile_of(rows: list[dict[str, Any]], **run: Any) -> Profile:
    """Returns the quiet profile with other records."""
    known = load(QUIET)
    usual = {"unit": "ns", "n": 9, "stable": True, "source": "live", "distance": "shared-l3", "pair": "0-1"}
    records = from_rows([usual | {"low": one["value"], "high": one["value"]} | one for one in rows])
    return replace(known, records=records, run=known.run.model_copy(update=run))


FLAG = {"scenario": "floor", "metric": "time", "kind": "flag", "value": 100.0, "low": 98.0, "high": 102.0}
MESSAGE = {"scenario": "pingpong", "metric": "half_round_trip", "size_bytes": 8, "state": "reused", "value": 300.0}


# ---- scores


def test_a_score_is_what_the_ratios_say() -> None:
    """Twice as long and half as long: right in the mean, wrong by 2."""
    (one,) = scores.scores_by_metric([pair(100, 200), pair(100, 50, stable=False)])
    assert one.mean == pytest.approx(1) and one.error == pytest.approx(2) and one.cases == 2
    assert one.spread == pytest.approx(2) and one.stable_cases == 1 and one.stable_error == pytest.approx(2)


def test_the_live_repeat_error_is_that_of_the_second_measurement() -> None:
    """Of the records that it has."""
    first, other = pair(100, 100), pair(100, 100, size_bytes=16)
    (one,) = scores.scores_by_metric([first, other], {first.record_key: 150.0})
    assert one.repeat == pytest.approx(1.5)


def test_the_order_of_states_counts_only_those_that_differ() -> None:
    """By 10 %: of three pairs two differ, and one of these is in order."""
    group = [pair(100, 10, state="reused"), pair(105, 5, state="exclusive"), pair(200, 8, state="modified")]
    assert scores.score_state_order(group) == scores.StateOrder(1, 2)


def test_a_step_has_place_sign_and_size() -> None:
    """A step up that is simulated as one down is of the wrong sign."""
    curve = [pair(100, 100, size_bytes=4016), pair(200, 50, size_bytes=4017)]
    switch = schema.ProtocolSwitch(bytes=4016, kind="single-copy")
    (step,) = scores.score_steps(curve, [switch], 4016)
    assert step.is_in_place and not step.has_right_sign and step.error == pytest.approx(4)
    (step,) = scores.score_steps([curve[0], pair(200, 180, size_bytes=4017)], [switch], 4096)
    assert not step.is_in_place and step.has_right_sign and step.error == pytest.approx(2 / 1.8)


# ---- what is refused


def test_a_message_that_is_shorter_than_a_flag_is_a_contradiction() -> None:
    """And is refused with the reason?"""
    assert not list(trust.describe_contradictions(profile_of([FLAG, MESSAGE])))
    (why,) = trust.describe_contradictions(profile_of([FLAG, MESSAGE | {"value": 80.0}]))
    assert "moved" in why and "80 ns" in why


def test_the_place_of_the_records_counts_and_not_that_of_the_start() -> None:
    """Cores that moved after the calibration are no contradiction if the records are of one place."""
    place = schema.Place(pair="0-1", distance="shared-l3", c2c_latency_ns=FLAG["value"], share=0.7, used=True)
    calibration = schema.Calibration(memory_latency_ns=100.0, common_clock=True, flag_ns=4 * FLAG["value"])
    assert list(trust.describe_contradictions(profile_of([FLAG, MESSAGE], calibration=calibration)))
    assert not list(trust.describe_contradictions(profile_of([FLAG, MESSAGE], calibration=calibration, place=[place])))
    moved = place.model_copy(update={"c2c_latency_ns": 4 * FLAG["value"]})
    reasons = list(trust.describe_contradictions(profile_of([FLAG, MESSAGE], place=[moved])))
    assert any("place of the records" in why for why in reasons)


def test_the_protocols_of_a_profile_are_described() -> None:
    """Are the limit of sends that do not wait, and Open MPI's protocol for data in pieces, in the description?"""
    messaging = machine_from_profile(load(DATA / "zen4-vm")).messaging
    assert messaging and messaging.unattended_bytes and messaging.unattended_bytes.value == 256
    assert messaging.pieces and messaging.pieces.value == "copy-in-copy-out"
    assert messaging.min_pieces and messaging.min_pieces.value == 2


def test_a_disturbed_profile_is_refused() -> None:
    """By its share of disturbed repetitions, or of times that are not stable."""
    assert not list(trust.find_doubts(profile_of([FLAG, MESSAGE])))
    assert list(trust.find_doubts(profile_of([FLAG, MESSAGE], disturbed_share=0.79)))
    unstable = [FLAG, *(MESSAGE | {"size_bytes": size, "stable": False} for size in (8, 16, 32))]
    assert list(trust.find_doubts(profile_of(unstable)))


def test_a_description_of_another_place_is_refused() -> None:
    """The described cores must be as far apart as the measured ones were."""
    clock, known = 2.0, profile_of([FLAG, MESSAGE])
    for ns, refused in ((100.0, False), (250.0, True)):
        changes = {"core__clock_ghz": {"value": clock, "source": "x"}}
        one = machine(**changes).model_dump(exclude_none=True)
        one["cores"] = {"value": 2, "source": "x"}
        one.pop("socket", None)
        for key in ("shared_by", "remote_ns"):
            one["memory"].pop(key, None)
        for cache in one["cache"]:
            cache["shared_by"] = {"value": 1, "source": "x"}
        one["transfers"] = {"remote_cycles": {"value": ns * clock, "source": "x"}}
        two_cores = replace(known, machine=known.machine.model_copy(update={"cores": 2}))
        assert bool(list(trust.find_doubts(two_cores, DescribedMachine.model_validate(one)))) == refused


def test_records_to_which_a_value_was_fitted_are_not_scored() -> None:
    """They are counted instead."""
    fitted = {"value": 90.0, "kind": "fitted", "interval": [80.0, 100.0], "probe": "a message",
              "fitted_to": ["pingpong:half_round_trip:size_bytes=8"]}  # fmt: skip
    rows = [MESSAGE, MESSAGE | {"size_bytes": 64}, MESSAGE | {"state": "modified"}]
    found = cases.simulate_records(machine(messaging__send_ns=fitted), profile_of(rows).records, None)
    assert found.num_fitted_by_scenario == {"pingpong": 2} and [
        one.measured_row["size_bytes"] for one in found.pairs
    ] == [64]


def test_what_cannot_be_simulated_says_why() -> None:
    """And is not scored."""
    found = cases.simulate_records(machine(), profile_of([FLAG, MESSAGE]).records, None)
    assert found.skipped_by_scenario["floor"] == (1, "it is not simulated") and len(found.pairs) == 1


# ---- the whole


@pytest.fixture(scope="module")
def validation() -> Any:
    return validate(machine(), [QUIET], max_message_bytes=4096)


def test_the_table_has_a_row_for_each_metric_and_one_for_all(validation: Any) -> None:
    """As Markdown, with the intervals beside the error."""
    lines = table.format_markdown(validation).splitlines()
    names = [f"{one.scenario} {one.metric}" for one in validation.scores]
    assert len(names) >= 3 and all(any(line.startswith(f"| {name} |") for line in lines) for name in names)
    assert sum(line.startswith("| all |") for line in lines) == 1 and "(intervals)" in lines[2]


def test_the_page_draws_both_over_one_another(validation: Any) -> None:
    """With the names of both in the legend of the same plot."""
    html = page.render_page(validation)
    assert "measured" in html and "simulated" in html and "half_round_trip" in html
    assert html.count("<html") == 1 and "cannot be" not in html.lower().split("<script")[0]


def test_a_profile_repeats_itself_exactly(tmp_path: Path) -> None:
    """Given twice."""
    twice = validate(machine(), [QUIET, QUIET], max_message_bytes=1024)
    assert all(one.repeat == pytest.approx(1) for one in twice.scores)


# ---- a user's own numbers


def test_a_table_of_times_is_compared(tmp_path: Path) -> None:
    """Scenario, parameters and ns are enough."""
    file = tmp_path / "times.csv"
    file.write_text("scenario,size_bytes,state,ns\npingpong,64,reused,700\npingpong,4096,reused,2100.5\n")
    found = validate(machine(), [file])
    (one,) = found.scores
    assert one.cases == 2 and one.metric == "half_round_trip" and math.isfinite(one.error)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        "scenario,ns\n",
        "scenario,ns\npingpong,-3\n",
        "scenario,size_bytes,ns\npingpong,0,3\n",
        "scenario,ns\npingpong,abc\n",
        "scenario,ns\n\0\n",
    ],
)
def test_a_damaged_table_is_refused_by_name(text: str, tmp_path: Path) -> None:
    """In words."""
    file = tmp_path / "times.csv"
    file.write_text(text)
    with pytest.raises(ProfileError, match="times.csv"):
        read_times(file)


def test_a_file_keeps_fitted_values(tmp_path: Path) -> None:
    """Written and read again?"""
    fitted = {"value": 90.0, "kind": "fitted", "interval": [80.0, 100.0], "probe": "x", "fitted_to": ["a chain"]}
    one = machine(messaging__send_ns=fitted)
    one.name = "mine"
    (tmp_path / "mine.toml").write_text(to_toml(one))
    assert load_machine(str(tmp_path / "mine.toml")) == one


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": None}, {"probe": ""}, {"fitted_to": []}, {"interval": [95.0, 100.0]}, {"source": "somewhere"},
        {"kind": "stated", "source": "a table"},
    ],
)  # fmt: skip
def test_a_fitted_value_must_say_how_it_was_found(wrong: dict[str, Any]) -> None:
    """Interval, probe and what it was fitted to; and no other kind has these."""
    fitted = {
        "value": 90.0,
        "kind": "fitted",
        "interval": [80.0, 100.0],
        "probe": "x",
        "fitted_to": ["a chain"],
    } | wrong
    with pytest.raises(ValueError, match=r"fitted|interval"):
        machine(messaging__send_ns={key: one for key, one in fitted.items() if one is not None})
