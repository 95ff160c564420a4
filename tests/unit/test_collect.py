"""Do the engine's lines become the right records, whatever happened to the launches that wrote them?"""

import json
from pathlib import Path
from typing import Any

import pytest
from engine_lines import HEADER, KIND_OF, NO_COUNTER, Line, end, missing, samples, state, write

from nearfield.measure.live.collect import (
    CollectedOutput,
    collect_launches,
    disturbed_repetition_share,
    finished_scenarios,
    output_to_rows,
)
from nearfield.measure.live.describe import PERFORMANCE_COUNTERS
from nearfield.measure.live.layout import RankGroup, RankPlace
from nearfield.measure.live.lines import LaunchLine, SamplesLine, find_damaged_line, read_lines
from nearfield.measure.request import TIERS
from nearfield.profile import records

TIER = TIERS["quick"]


def rows_of(found: CollectedOutput) -> list[Line]:
    """Also checks that the rows are records that a profile accepts."""
    rows = output_to_rows(found, TIER, resolution_ns=10.0)
    records.from_rows(rows)
    return rows


def only(rows: list[Line], metric: str, **columns: Any) -> Line:
    chosen = [r for r in rows if r["metric"] == metric and all(r.get(k) == v for k, v in columns.items())]
    assert len(chosen) == 1, chosen
    return chosen[0]


def test_launches_are_pooled(tmp_path: Path) -> None:
    """Are the samples of several launches one record, over all of them, at the pair's place?"""
    jobs = [
        write(tmp_path, [HEADER, samples([100.0] * 10, side="sender"), end()], number=0),
        write(tmp_path, [HEADER, samples([104.0] * 10, side="sender"), end()], number=1),
    ]
    found = collect_launches(jobs, tmp_path, KIND_OF)
    assert len(found.launch_lines) == 2
    row = only(rows_of(found), "send")
    assert row["n"] == 20
    assert row["low"] <= 100 <= 104 <= row["high"], "the interval knows that launches differ"
    place = {"distance": "shared-l3", "pair": "0-1", "side": "sender", "size_bytes": 8, "unit": "ns", "source": "live"}
    assert row | place == row


def test_a_time_shorter_than_the_clocks_step_is_not_negative(tmp_path: Path) -> None:
    """Do samples that the clock cannot tell from 0 make records that a profile takes?"""
    found = collect_launches(
        [write(tmp_path, [HEADER, samples([0.0, 0.0, 10.0], side="sender"), end()])], tmp_path, KIND_OF
    )
    assert only(rows_of(found), "send")["low"] == 0


def test_visits_are_the_unit(tmp_path: Path) -> None:
    """Does a machine that is now fast, now slow, make a wide interval, however many repetitions each moment has?"""
    values = [100.0 + 30 * (visit % 2) for visit in range(20) for _ in range(50)]
    numbers = [visit for visit in range(20) for _ in range(50)]
    separate = write(tmp_path, [HEADER, samples(values, visits=numbers), end()])
    row = only(rows_of(collect_launches([separate], tmp_path, KIND_OF)), "send")
    assert (row["low"] <= 105, row["high"] >= 125, row["stable"], row["n"]) == (True, True, False, 1000)


def test_disturbed_repetitions_are_excluded(tmp_path: Path) -> None:
    """Does a record leave out what was taken while something else used a core, as long as enough is left?"""
    line = samples([100.0] * 10, side="sender", disturbed=[160.0] * 30)
    found = collect_launches([write(tmp_path, [HEADER, line, end()])], tmp_path, KIND_OF)
    row = only(rows_of(found), "send")
    assert (row["n"], row["stable"]) == (10, True)
    assert row["high"] < 110
    assert disturbed_repetition_share(found) == 0.75


def test_nothing_but_disturbed_repetitions_is_unstable(tmp_path: Path) -> None:
    """With hardly any undisturbed repetition, is everything used and the record unstable, with the reason?"""
    line = samples([100.0], side="sender", disturbed=[160.0] * 30)
    row = only(rows_of(collect_launches([write(tmp_path, [HEADER, line, end()])], tmp_path, KIND_OF)), "send")
    assert (row["n"], row["stable"]) == (31, False)
    assert "something else used the cores" in row["note"]


def test_records_are_of_the_commonest_place(tmp_path: Path) -> None:
    """Two ranks' cores move: are the times of one place in the records, those during a move in none, and are all places
    listed with their shares?"""
    near, far, moving = [100.0] * 8, [500.0] * 6, [300.0] * 2
    latencies = [55.0, 56.0] * 4 + [240.0] * 6 + [None, None]
    line = samples(near + far + moving, visits=list(range(16)), c2c_latencies=latencies, side="sender")
    found = collect_launches([write(tmp_path, [HEADER, line, end()])], tmp_path, KIND_OF)
    row = only(rows_of(found), "send")
    assert (row["value"], row["n"], row["stable"]) == (100.0, 8, True)
    assert [(place.c2c_latency_ns, place.share, place.used) for place in found.places()] == [
        (55.5, 0.5, True), (240.0, 0.375, False),
    ]  # fmt: skip
    assert {(place.pair, place.distance) for place in found.places()} == {("0-1", "shared-l3")}


def test_a_case_that_was_measured_at_another_place_is_unstable(tmp_path: Path) -> None:
    """Most of the time the cores were near each other, but not while this case was measured: is it said why?"""
    usual = samples([100.0] * 30, visits=list(range(30)), c2c_latencies=[55.0] * 30, side="sender")
    other = samples([500.0] * 8, "receive", visits=list(range(8)), c2c_latencies=[240.0] * 8, side="receiver")
    rows = rows_of(collect_launches([write(tmp_path, [HEADER, usual, other, end()])], tmp_path, KIND_OF))
    row = only(rows, "receive")
    assert (row["value"], row["stable"]) == (500.0, False) and "another place" in row["note"]
    assert only(rows, "send")["stable"]


def test_scenarios_of_all_ranks_have_no_pair(tmp_path: Path) -> None:
    """Launched together with the pair, is a scenario of all ranks still recorded without a place?"""
    line = samples([100.0] * 10, "first_touch", "pages", visits=list(range(10)), c2c_latencies=[55.0] * 10)
    found = collect_launches([write(tmp_path, [HEADER, line, end("pages")])], tmp_path, KIND_OF)
    row = only(rows_of(found), "first_touch")
    assert (row["distance"], row["pair"], row["side"]) == (None, None, None)
    assert [place.pair for place in found.places()] == ["0-1"], "its cores are the pair's"


def test_samples_that_were_not_taken_do_not_count(tmp_path: Path) -> None:
    """Are nulls (a rank that had nothing to measure) left out, and a metric of nulls no record?"""
    job = write(tmp_path, [HEADER, samples([None, 50.0] * 6), samples([None, None], "receive"), end()])
    rows = rows_of(collect_launches([job], tmp_path, KIND_OF))
    assert only(rows, "send")["n"] == 6
    assert not [row for row in rows if row["metric"] == "receive"]


def test_interrupted_attempt_counts_until_another_is_whole(tmp_path: Path) -> None:
    """Is what was measured before Ctrl-C kept, and replaced once --resume has measured the scenario to its end?"""
    cut = [HEADER, samples([999.0] * 8), end(cut=True), {"type": "stopped"}]
    job = write(tmp_path, cut)
    assert finished_scenarios(job, tmp_path) == set()
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")["n"] == 8
    job = write(tmp_path, cut, [HEADER, samples([100.0] * 10), end(), {"type": "end"}])
    assert finished_scenarios(job, tmp_path) == {"pingpong"}
    row = only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")
    assert (row["n"], row["value"]) == (10, 100.0)


def test_killed_attempt_counts_until_another_is_whole(tmp_path: Path) -> None:
    """Does an attempt count, too, that was killed while it reported half of its cases, and no end?"""
    killed = [HEADER, samples([999.0] * 8)]
    job = write(tmp_path, killed)
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")["value"] == 999.0
    job = write(tmp_path, killed, [HEADER, samples([100.0] * 10), end()])
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")["value"] == 100.0


def test_attempts_are_distinguished_from_launches(tmp_path: Path) -> None:
    """Does a whole attempt of one launch leave what an interrupted other launch measured as it is?"""
    first = write(tmp_path, [HEADER, samples([100.0] * 10), end()], number=0)
    second = write(tmp_path, [HEADER, samples([100.0] * 7), end(cut=True)], number=1)
    assert only(rows_of(collect_launches([first, second], tmp_path, KIND_OF)), "send")["n"] == 17


def test_many_attempts_are_all_read(tmp_path: Path) -> None:
    """After more than ten interruptions, are the attempts found, in order?"""
    job = write(tmp_path, *([HEADER, samples([float(i + 1)] * 6), end(cut=True)] for i in range(12)))
    assert [path.name.split(".")[-2] for path in job.attempt_files(tmp_path)] == [str(i) for i in range(12)]
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")["n"] == 72


def test_skipped_scenario_is_finished(tmp_path: Path) -> None:
    """Is a scenario that this place cannot measure not tried again, and its reason kept with the place?"""
    job = write(tmp_path, [HEADER, {"type": "skipped", "scenario": "floor", "reason": "no shared memory"}])
    assert finished_scenarios(job, tmp_path) == {"floor"}
    skipped = collect_launches([job], tmp_path, KIND_OF).skipped
    assert [(one.reason, one.distance) for one in skipped] == [("no shared memory", "shared-l3")]


# ---- verdicts


@pytest.mark.parametrize(
    ("sender", "receiver", "whole"),
    [
        ("verified", "verified", "verified"),
        ("verified", "unverifiable", "unverifiable"),
        ("refuted", "unverifiable", "refuted"),
        ("verified", "refuted", "refuted"),
    ],
)
def test_verdict_of_side_and_whole(tmp_path: Path, sender: str, receiver: str, whole: str) -> None:
    """Does each side's record carry its own verdict, and that of the whole operation the worse of both?"""
    lines = [samples([9.0] * 8, side=side) for side in ("sender", "receiver")]
    lines += [samples([9.0] * 8, "half_round_trip")]
    job = write(tmp_path, [HEADER, *lines, state("sender", sender), state("receiver", receiver), end()])
    rows = rows_of(collect_launches([job], tmp_path, KIND_OF))
    assert only(rows, "send", side="sender")["verdict"] == sender
    assert only(rows, "send", side="receiver")["verdict"] == receiver
    assert only(rows, "half_round_trip")["verdict"] == whole


def test_verdict_is_of_the_case(tmp_path: Path) -> None:
    """Does a verdict of another size, or none at all, leave a record without one?"""
    job = write(tmp_path, [HEADER, samples([9.0] * 8), state("sender", "refuted", size=4096), end()])
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")["verdict"] is None


def test_worst_verdict_of_launches(tmp_path: Path) -> None:
    """If one launch refutes the state, does the pooled record say so, and show the share of lines of both?"""
    jobs = [
        write(tmp_path, [HEADER, samples([9.0] * 8), state("sender", "verified", cached=1.0), end()], number=0),
        write(tmp_path, [HEADER, samples([9.0] * 8), state("sender", "refuted", cached=0.2), end()], number=1),
    ]
    rows = rows_of(collect_launches(jobs, tmp_path, KIND_OF))
    assert only(rows, "send")["verdict"] == "refuted"
    cached = only(rows, "lines_cached")
    assert (cached["low"], cached["high"], cached["n"], cached["side"]) == (0.2, 1.0, 2, "sender")


# ---- what is not a plain time


def test_start_skew_is_one_record_of_a_place(tmp_path: Path) -> None:
    """Is the skew of all cases pooled into one record, without parameters?"""
    sizes = [samples([5.0] * 10, "start_skew", parameters={"size_bytes": size}) for size in (8, 4096)]
    job = write(tmp_path, [HEADER, *sizes, end()])
    row = only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "start_skew")
    assert row["n"] == 20
    assert "size_bytes" not in row


def test_missing_counter_is_null_with_the_reason_once(tmp_path: Path) -> None:
    """Does a counter that no launch has become one null record, and one that some launch has none?"""
    counted = samples([3.0], "page_faults", unit="count", side="sender")
    lines = [HEADER, counted, missing("llc_misses"), end()]
    jobs = [write(tmp_path, lines, number=number) for number in range(2)]
    rows = rows_of(collect_launches(jobs, tmp_path, KIND_OF))
    null = only(rows, "llc_misses")
    assert (null["value"], null["n"], null["stable"], null["note"]) == (None, 0, False, NO_COUNTER)
    assert only(rows, "page_faults")["value"] == 3.0
    assert {"llc_misses", "page_faults"} <= set(PERFORMANCE_COUNTERS)


def test_counter_missing_in_one_launch_only(tmp_path: Path) -> None:
    """If another launch could count, is there no null record beside the value?"""
    jobs = [
        write(tmp_path, [HEADER, samples([3.0], "llc_misses", unit="count"), end()], number=0),
        write(tmp_path, [HEADER, missing("llc_misses"), end()], number=1),
    ]
    rows = rows_of(collect_launches(jobs, tmp_path, KIND_OF))
    assert only(rows, "llc_misses")["value"] == 3.0


def test_missing_case_is_null_among_measured_ones(tmp_path: Path) -> None:
    """Is one case that cannot be measured null, although the metric's other cases have values?"""
    lines = [samples([9.0] * 8), missing("send", "no huge pages", {"size_bytes": 4096}) | {"unit": "ns"}]
    rows = rows_of(collect_launches([write(tmp_path, [HEADER, *lines, end()])], tmp_path, KIND_OF))
    assert only(rows, "send", size_bytes=8)["value"] == 9.0
    assert only(rows, "send", size_bytes=4096)["note"] == "no huge pages"


def test_case_for_which_one_launch_had_no_time(tmp_path: Path) -> None:
    """Is there no null beside what another launch measured, on either side?"""
    over = missing("send", "not measured: the time was over", {"size_bytes": 8}) | {"unit": "ns"}
    late = {"type": "scenario_end", "scenario": "pingpong", "cut": True, "missed": 1}
    jobs = [
        write(tmp_path, [HEADER, samples([9.0] * 8, side="sender"), end()], number=0),
        write(tmp_path, [HEADER, over, late, {"type": "end", "measuring_s": 5.0}], number=1),
    ]
    rows = rows_of(collect_launches(jobs, tmp_path, KIND_OF))
    assert [(row["value"], row["n"]) for row in rows if row["metric"] == "send"] == [(9.0, 8)]
    assert finished_scenarios(jobs[1], tmp_path) == set()


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        ([[100.0] * 3], "only 3 repetitions"),
        ([[50.0, 100.0, 150.0, 200.0] * 3], "% of the median"),
        ([[100.0] * 10, [200.0] * 10], "launches differ by 100 %"),
    ],
)
def test_unstable_says_why(tmp_path: Path, launches: list[list[float]], words: str) -> None:
    """Does a record with a wide interval say that it is unstable, and what is behind it?"""
    jobs = [write(tmp_path, [HEADER, samples(values), end()], number=n) for n, values in enumerate(launches)]
    row = only(rows_of(collect_launches(jobs, tmp_path, KIND_OF)), "send")
    assert not row["stable"]
    assert words in row["note"]


def test_counts_are_never_unstable(tmp_path: Path) -> None:
    """Is a count, which is exact, not judged by its interval?"""
    job = write(tmp_path, [HEADER, samples([0.0, 1.0, 40.0], "page_faults", unit="count"), end()])
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "page_faults")["stable"]


def test_oversubscribed_times_are_never_stable(tmp_path: Path) -> None:
    """With more ranks than cores, does every time say that it means nothing, however narrow its interval?"""
    crowded = RankGroup(("all",), (RankPlace(0), RankPlace(0)), None, is_oversubscribed=True)
    job = write(tmp_path, [HEADER, samples([100.0] * 50, "first_touch", "pages"), end("pages")], group=crowded)
    row = only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "first_touch")
    assert not row["stable"]
    assert "more ranks than cores" in row["note"]


# ---- damaged files


def test_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    """Is everything before a cut last line kept, and the scenario measured again?"""
    job = write(tmp_path, [HEADER, samples([100.0] * 10), end()])
    file = job.attempt_files(tmp_path)[0]
    file.write_text(file.read_text()[:-10])
    assert [type(line) for line in read_lines(file)] == [LaunchLine, SamplesLine]
    assert find_damaged_line(file, job.budget_s_by_scenario) is None, "that is how every crash ends"
    assert finished_scenarios(job, tmp_path) == set()
    assert only(rows_of(collect_launches([job], tmp_path, KIND_OF)), "send")["n"] == 10


DAMAGE = [
    "\0\0\0\0",
    '{"type":"samples","scen',
    "17",
    '{"metric":"send"}',
    "\xff\xfe",
    *(
        json.dumps(line)
        for line in (
            HEADER | {"variables": []},
            HEADER | {"level_latency_ns": ["22"]},
            {"type": "scenario_end", "scenario": "flor", "cut": False},
            {"type": "scenario_end", "scenario": [], "cut": False},
            {"type": "switch", "kind": "step", "size_bytes": 8},
            samples([9.0] * 6, "receive", visits=[1.0]),
            samples([9.0] * 6, "receive", side=["sender"]),
            samples([float("nan")] * 6, "receive"),
            samples(9.0, "receive"),  # type: ignore[arg-type]
            samples([9.0] * 6, "receive", parameters=["size_bytes"]),
            samples([9.0] * 6, "receive", parameters={"size_bytes": 1 << 80}),
            samples([9.0] * 6, "receive", parameters={"value": 8}),
            samples([9.0] * 6, "receive", unit="parsec"),
            state("sender", "perhaps"),
            state("sender", "verified", cached={}),  # type: ignore[arg-type]
        )
    ),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_after_damage_is_trusted(tmp_path: Path, damage: str) -> None:
    """Does a file damaged in the middle count up to there, and is what follows measured again on --resume?"""
    job = write(tmp_path, [HEADER, samples([100.0] * 10), end(), samples([9.0] * 6, "receive"), end("floor")])
    file = job.attempt_files(tmp_path)[0]
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], damage, *lines[3:]]) + "\n", encoding="latin-1")
    assert find_damaged_line(file, job.budget_s_by_scenario) == 4
    assert finished_scenarios(job, tmp_path) == {"pingpong"}
    rows = rows_of(collect_launches([job], tmp_path, KIND_OF))
    assert {row["metric"] for row in rows} == {"send"}


def test_empty_file_is_no_launch(tmp_path: Path) -> None:
    """Does a launch that died before it wrote anything give neither records nor an error?"""
    found = collect_launches([write(tmp_path, [])], tmp_path, KIND_OF)
    assert (found.launch_lines, found.series) == ([], {})


def test_records_are_of_the_preferred_place(tmp_path: Path) -> None:
    """If the cores were at two places, are the records those of the preferred one, even if the other one is more
    frequent, and those of the most frequent one if the preferred place was not seen?"""
    near, far = [100.0] * 8, [500.0] * 12
    line = samples(near + far, visits=list(range(20)), c2c_latencies=[60.0] * 8 + [240.0] * 12, side="sender")
    job = write(tmp_path, [HEADER, line, end()])
    for preferred_ns, value, latency_ns in ((61.0, 100.0, 60.0), (239.0, 500.0, 240.0), (110.0, 500.0, 240.0)):
        found = collect_launches([job], tmp_path, KIND_OF, {"0-1": preferred_ns})
        assert only(rows_of(found), "send")["value"] == value
        assert [place.c2c_latency_ns for place in found.places() if place.used] == [latency_ns]
