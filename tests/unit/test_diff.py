"""`nearfield diff`: are ratios, intervals and verdicts right, on recorded numbers and by laws that must
always hold?"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.estimates import Estimate, estimate_mean, ratio_of_estimates, t_quantile
from nearfield.cli.verbs.diff import command
from nearfield.profile import Profile, from_rows, load, save
from nearfield.profile.compare import (
    Comparison,
    compare_records,
    count_agreeing_times,
    find_unmatched_values,
    is_near_one,
    largest_changes,
    summarize_by_scenario,
    values_agree,
    verdict_of,
)
from nearfield.profile.schema import Place

DATA = Path(__file__).parents[1] / "data"
QUIET, BUSY = load(DATA / "epyc-vm-quiet"), load(DATA / "epyc-vm-busy")
INVERSE = {"faster": "slower", "slower": "faster"}

app = typer.Typer()
app.command()(command)


def diff(*arguments: str | Path) -> str:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False).output


def compared(a: Profile, b: Profile, threshold: float = 0.05) -> Comparison:
    return compare_records(a.records, b.records, (a.run, b.run), threshold)


def row(value: float | None = 100.0, **changes: Any) -> dict[str, Any]:
    """A stable record with an interval of 1 %."""
    interval = {"low": None, "high": None} if value is None else {"low": value * 0.99, "high": value * 1.01}
    return {
        "scenario": "pingpong", "metric": "half_round_trip", "unit": "ns", "value": value, **interval,
        "n": 21, "stable": value is not None, "note": "why" if value is None else None, "source": "live",
        "distance": "shared-l3", "pair": "0-1", "size_bytes": 8, **changes,
    }  # fmt: skip


def changes_of(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Comparison:
    run = QUIET.run.model_copy(update={"scenario": []})
    return compare_records(from_rows(a), from_rows(b), (run, run), 0.05)


# ---- the numbers


def test_a_ratio_by_hand() -> None:
    """Is the interval what one gets with pencil and paper? 100 [90, 110] against 200 [190, 230]."""
    ratio = ratio_of_estimates(Estimate(100, 90, 110), Estimate(200, 190, 230))
    assert ratio is not None and ratio.value == 2
    assert math.log(2 / ratio.low) == pytest.approx(math.sqrt(math.log(200 / 190) ** 2 + math.log(110 / 100) ** 2))
    assert math.log(ratio.high / 2) == pytest.approx(math.sqrt(math.log(230 / 200) ** 2 + math.log(100 / 90) ** 2))


def test_a_recorded_ratio() -> None:
    """On one recorded pair (pingpong, 1 KiB, modified): are the numbers those computed apart from this
    code?"""
    change = next(
        c for c in compared(QUIET, BUSY).changes
        if c.key["metric"] == "half_round_trip"
        and (c.key["size_bytes"], c.key["state"]) == (1024, "modified")
    )  # fmt: skip
    assert change.a and change.b and change.ratio
    assert (change.a.value, change.b.value) == pytest.approx((386.436, 967.112), abs=5)
    assert change.ratio.value == pytest.approx(2.50, abs=0.01)
    assert (change.ratio.low, change.ratio.high) == pytest.approx((2.47, 2.54), abs=0.01)
    assert change.verdict == "slower"


def test_the_interval_holds_as_often_as_it_says() -> None:
    """If both sides are drawn with a known true ratio and 95 % intervals, does the ratio's interval contain it in
    95 %?"""
    rng, inside, trials = random.Random(7), 0, 4000
    for _ in range(trials):
        a, b = (math.exp(rng.gauss(mean, sigma)) for mean, sigma in ((0.0, 0.05), (math.log(3), 0.02)))
        ratio = ratio_of_estimates(
            Estimate(a, a * math.exp(-1.96 * 0.05), a * math.exp(1.96 * 0.05)),
            Estimate(b, b * math.exp(-1.96 * 0.02), b * math.exp(1.96 * 0.02)),
        )
        assert ratio is not None
        inside += ratio.low <= 3 <= ratio.high
    assert inside / trials == pytest.approx(0.95, abs=0.015)


def test_ratios_with_zero() -> None:
    """Are two zeros the same, one zero no ratio, and an interval that reaches 0 one without an upper end?"""
    zero, one = Estimate(0, 0, 0), Estimate(1, 1, 1)
    assert ratio_of_estimates(zero, zero) == Estimate(1, 1, 1)
    assert ratio_of_estimates(zero, one) is None and ratio_of_estimates(one, zero) is None
    wide = ratio_of_estimates(Estimate(1, 0, 2), one)
    assert wide is not None and wide.high == math.inf and wide.low == 0.5


@pytest.mark.parametrize(
    ("ratio", "stable", "unit", "verdict"),
    [
        (Estimate(0.80, 0.78, 0.82), True, "ns", "faster"),
        (Estimate(1.30, 1.20, 1.40), True, "ns", "slower"),
        (Estimate(1.30, 0.95, 1.90), True, "ns", "same"),
        (Estimate(1.04, 1.03, 1.05), True, "ns", "same"),
        (Estimate(1.051, 1.05, 1.06), True, "ns", "slower"),
        (Estimate(2.00, 1.90, 2.10), False, "ns", "unstable"),
        (Estimate(2.00, 2.00, 2.00), True, "count", "changed"),
        (None, True, "count", "changed"),
        (None, False, "count", "unstable"),
    ],
)
def test_verdicts(ratio: Estimate | None, stable: bool, unit: str, verdict: str) -> None:
    """Does each rule of docs/reference/profile.md give its verdict?"""
    assert verdict_of(ratio, stable, unit, 0.05) == verdict


def test_a_mean_has_students_interval() -> None:
    """Are the quantiles those of tables of Student's t, and is the interval of a mean made of them?"""
    for freedom, value in ((1, 12.706), (2, 4.3027), (3, 3.1824), (4, 2.7764), (7, 2.3646), (30, 2.0423)):
        assert t_quantile(0.975, freedom) == pytest.approx(value, rel=0.012 if freedom > 2 else 1e-4)
    mean = estimate_mean([1.0, 2.0, 3.0])
    assert (mean.value, mean.high - mean.value) == pytest.approx((2.0, 4.3027 / 3**0.5), rel=1e-4)
    assert estimate_mean([5.0]) == Estimate(5.0, 5.0, 5.0)


def test_agreement_of_two_estimates() -> None:
    """Do overlapping intervals agree, and near values without overlap, and nothing else?"""
    assert values_agree(Estimate(100, 80, 120), Estimate(130, 115, 140))
    assert values_agree(Estimate(100, 100, 100), Estimate(104, 104, 104))
    assert not values_agree(Estimate(100, 99, 101), Estimate(110, 109, 111))
    assert values_agree(Estimate(0, 0, 0), Estimate(0, 0, 0))
    assert not values_agree(Estimate(0, 0, 0), Estimate(1, 1, 1))


def test_near_is_the_same_in_both_directions() -> None:
    """At the very threshold: is 5.2 % more as far from 1 as its inverse, which is only 4.9 % less?"""
    assert not is_near_one(1.052, 0.05) and not is_near_one(1 / 1.052, 0.05)
    assert is_near_one(1.049, 0.05) and is_near_one(1 / 1.049, 0.05)


# ---- laws


def random_estimate(rng: random.Random) -> Estimate:
    value = math.exp(rng.uniform(0, 15))
    return Estimate(value, value * rng.uniform(0.5, 1), value * rng.uniform(1, 2))


def test_laws_of_ratios() -> None:
    """For any two estimates: does swapping invert ratio, interval and verdict, and does A/A give 1?"""
    rng = random.Random(3)
    for _ in range(500):
        a, b = random_estimate(rng), random_estimate(rng)
        there, back = ratio_of_estimates(a, b), ratio_of_estimates(b, a)
        assert there and back
        assert there.low <= there.value <= there.high
        assert (back.low, back.value, back.high) == pytest.approx((1 / there.high, 1 / there.value, 1 / there.low))
        word = verdict_of(there, True, "ns", 0.05)
        assert verdict_of(back, True, "ns", 0.05) == INVERSE.get(word, word)
        itself = ratio_of_estimates(a, a)
        assert itself and itself.value == 1 and verdict_of(itself, True, "ns", 0.0) == "same"
        assert values_agree(a, b) == values_agree(b, a) and values_agree(a, a)
        assert is_near_one(there.value, 0.05) == is_near_one(back.value, 0.05)


def test_a_profile_is_the_same_as_itself() -> None:
    """Does every record of a recorded profile match itself with ratio 1, and does all that is stable
    agree?"""
    comparison = compared(QUIET, QUIET)
    assert len(comparison.changes) == QUIET.records.height
    assert (
        comparison.only_a.is_empty()
        and comparison.only_b.is_empty()
        and not find_unmatched_values(QUIET.records, QUIET.records)
    )
    assert all(c.ratio is None or c.ratio.value == 1 for c in comparison.changes)
    assert {c.verdict for c in comparison.changes} == {"same", "unstable", None}
    assert count_agreeing_times(comparison.changes)["share"] == 1
    assert largest_changes(comparison.changes) == []


def test_swapping_two_profiles_inverts_everything() -> None:
    """For every recorded pair of records: is B against A the inverse of A against B, also in the summary?"""
    there, back = compared(QUIET, BUSY), compared(BUSY, QUIET)
    assert [c.key for c in there.changes] == [c.key for c in back.changes]
    for one, other in zip(there.changes, back.changes, strict=True):
        assert (one.ratio is None) == (other.ratio is None)
        if one.ratio and other.ratio:
            assert other.ratio.value == pytest.approx(1 / one.ratio.value)
        assert other.verdict == INVERSE.get(one.verdict or "", one.verdict)
    assert count_agreeing_times(there.changes) == count_agreeing_times(back.changes)
    for scenario, summary in summarize_by_scenario(there.changes).items():
        mirrored = summarize_by_scenario(back.changes)[scenario]
        assert summary["faster"] == mirrored["slower"]
        if summary["geometric_mean"]:
            assert summary["geometric_mean"] * mirrored["geometric_mean"] == pytest.approx(1)


def test_every_record_is_counted_once() -> None:
    """Do the verdicts of a summary, and what only one profile has, add up to the records there are?"""
    fewer = QUIET.records.filter(pl.col("size_bytes").fill_null(0) != 4096)
    comparison = compare_records(fewer, BUSY.records, (QUIET.run, BUSY.run), 0.05)
    assert len(comparison.changes) + comparison.only_a.height == fewer.height
    assert len(comparison.changes) + comparison.only_b.height == BUSY.records.height
    for summary in summarize_by_scenario(comparison.changes).values():
        words = ("faster", "slower", "changed", "same", "unstable", "missing")
        assert sum(summary[word] for word in words) == summary["records"]


# ---- which records are compared


def test_pairs_are_names_only_where_a_distance_has_several() -> None:
    """Are two machines whose representative pairs differ comparable, and are the pairs of a full matrix kept
    apart?"""
    assert len(changes_of([row(pair="0-1")], [row(pair="0-64")]).changes) == 1
    matrix = [row(pair="0-1"), row(200.0, pair="0-2")]
    assert [c.key["pair"] for c in changes_of(matrix, matrix).changes] == ["0-1", "0-2"]
    assert len(changes_of(matrix, [row(pair="0-1")]).changes) == 1


def test_a_simulated_profile_can_be_compared_with_a_live_one() -> None:
    """Is the source no reason to keep two records apart?"""
    assert len(changes_of([row()], [row(source="sim")]).changes) == 1


def test_a_parameter_that_only_one_has() -> None:
    """Are records without the new parameter matched, and is the axis named for the others?"""
    a, b = [row()], [row(ranks=None), row(ranks=4)]
    comparison = changes_of(a, b)
    assert len(comparison.changes) == 1 and comparison.only_b.height == 1
    [axis] = find_unmatched_values(from_rows(a), from_rows(b))
    assert (axis.profile, axis.column, axis.values) == ("B", "ranks", [4])


def test_a_null_decides_nothing_and_says_why() -> None:
    """Does a value that one side cannot give have no verdict, and the reason of that side?"""
    [change] = changes_of([row()], [row(None)]).changes
    assert (change.verdict, change.ratio, change.note) == (None, None, "B: why")


def test_unstable_records_never_decide() -> None:
    """Does a huge but unstable change stay out of geometric mean, largest changes and agreement?"""
    a, b = [row(), row(size_bytes=16)], [row(), row(9999.0, size_bytes=16, stable=False)]
    changes = changes_of(a, b).changes
    assert Counter(c.verdict for c in changes) == {"same": 1, "unstable": 1}
    assert summarize_by_scenario(changes)["pingpong"]["geometric_mean"] == 1 and largest_changes(changes) == []
    assert count_agreeing_times(changes) == {"share": 1, "agreeing": 1, "stable": 1, "unstable": 1}


def test_diagnostics_and_counts_do_not_flatter_the_agreement() -> None:
    """Are start_skew and the counts of the recorded profile left out of it?"""
    agreed = count_agreeing_times(compared(QUIET, BUSY).changes)
    declared = {(s.name, m.name) for s in QUIET.run.scenario for m in s.metrics if m.unit == "ns"}
    stable_in_both = sum(
        (c.key["scenario"], c.key["metric"]) in declared and c.verdict not in (None, "unstable")
        for c in compared(QUIET, BUSY).changes
    )
    assert agreed["stable"] == stable_in_both == 78
    assert agreed["agreeing"] == 22  # the second was disturbed, and it shows


def test_largest_changes_come_first() -> None:
    """Is a halving as large as a doubling, and something from nothing larger than either?"""
    a = [row(size_bytes=8), row(size_bytes=16), row(0.0, metric="f", unit="count", size_bytes=32)]
    b = [
        row(150.0, size_bytes=8),
        row(40.0, size_bytes=16),
        row(5.0, metric="f", unit="count", size_bytes=32),
    ]
    assert [c.key["size_bytes"] for c in largest_changes(changes_of(a, b).changes)] == [32, 16, 8]


# ---- the command


def test_what_a_person_sees() -> None:
    """Are the summary, the agreement and the largest change there?"""
    text = diff(QUIET.path, BUSY.path)
    assert "the same machine, the same MPI" in text
    assert "28.2 % agree: 22 of 78 times" in text
    first = next(line for line in text.splitlines() if "x2." in line)
    assert "size 1 KiB, state modified" in first and "slower" in first


def test_another_machine_and_mpi_are_named(tmp_path: Path) -> None:
    """Does the header say what differs? And are the MPIs' variables, which may be dozens, counted below the result and
    listed on request?"""
    p = QUIET
    variables = p.run.mpi.variables | {"btl_vader_eager_limit": 65536}
    mpi = p.run.mpi.model_copy(update={"version": "5.0.11", "variables": variables})
    machine = p.machine.model_copy(update={"cpu_model": "Xeon"})
    records = p.records.filter(pl.col("scenario") != "floor", pl.col("size_bytes").fill_null(0) < 4097)
    run = p.run.model_copy(update={"mpi": mpi})
    save(tmp_path / "b", machine=machine, topology_xml=p.topology_xml, run=run, records=records)
    text = diff(p.path, tmp_path / "b")
    assert "different machines, different MPIs" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "processor AMD EPYC Xeon" in lines
    counted = lines.index("control variables of the MPI that differ: 1 (-v lists them)")
    assert counted > next(number for number, line in enumerate(lines) if line.endswith("geometric mean B/A"))
    listed = [" ".join(line.split()) for line in diff("-v", p.path, tmp_path / "b").splitlines()]
    assert "btl_vader_eager_limit 4096 65536" in listed and "btl_vader_eager_limit 4096 65536" not in lines
    assert "only in A: the scenario floor" in text
    assert "only in A: pingpong size 16 KiB, 64 KiB, 256 KiB" in text


def test_cores_that_moved_are_named(tmp_path: Path) -> None:
    """Does the header say how far apart the cores were in each, and only if that may explain a ratio?"""
    place = Place(pair="0-1", distance="shared-l3", c2c_latency_ns=60.0, share=0.9, used=True)
    for name, latency_ns in (("near", 60.0), ("still", 66.0), ("far", 240.0)):
        run = QUIET.run.model_copy(update={"place": [place.model_copy(update={"c2c_latency_ns": latency_ns})]})
        save(tmp_path / name, machine=QUIET.machine, topology_xml=QUIET.topology_xml, run=run, records=QUIET.records)
    lines = [" ".join(line.split()) for line in diff(tmp_path / "near", tmp_path / "far").splitlines()]
    assert "latency of 0-1 60 ns 240 ns" in lines
    assert "latency of 0-1" not in diff(tmp_path / "near", tmp_path / "still")


def test_two_profiles_without_a_common_record(tmp_path: Path) -> None:
    """Is that said, and what each has instead?"""
    records = from_rows([row(scenario="load")])
    save(tmp_path / "b", machine=QUIET.machine, topology_xml=QUIET.topology_xml, run=QUIET.run, records=records)
    text = diff(QUIET.path, tmp_path / "b")
    assert "no record in common" in text and "only in B: the scenario load" in text
    assert "no time is stable in both" in diff(QUIET.path, tmp_path / "b", "--agreement")


def test_json_is_json_and_complete() -> None:
    """Is the output strict JSON with every change, its estimates and its verdict?"""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    parsed = json.loads(diff(QUIET.path, BUSY.path, "--json"), parse_constant=refuse)
    assert len(parsed["changes"]) == QUIET.records.height
    assert parsed["agreement"]["agreeing"] == 22
    assert {"key", "a", "b", "ratio", "verdict", "note"} <= parsed["changes"][0].keys()
    assert json.loads(diff(QUIET.path, BUSY.path, "--agreement", "--json")) == {"agreement": parsed["agreement"]}


def test_agreement_prints_one_line() -> None:
    """Can a script read the number?"""
    assert diff(QUIET.path, BUSY.path, "--agreement") == (
        "28.2 % agree: 22 of 78 times that are stable in both (259 unstable)\n"
    )


def test_the_threshold_is_the_users() -> None:
    """Does a larger threshold call more records the same?"""

    def same(threshold: str) -> int:
        text = diff(QUIET.path, BUSY.path, "--json", "--threshold", threshold)
        return sum(summary["same"] for summary in json.loads(text)["summary"].values())

    assert same("1%") < same("5%") < same("100%")
    with pytest.raises(UsageError, match="share"):
        diff(QUIET.path, BUSY.path, "--threshold", "much")


def test_slower_is_an_exit_code_on_demand(tmp_path: Path) -> None:
    """Is the exit code 1, for CI, if a scenario is slower by more than the share over all its stable times, with its
    name on standard error; and 0 otherwise, or without that option?"""
    slower = tmp_path / "slower"
    rows = QUIET.records.with_columns(
        pl.when(pl.col("scenario") == "floor").then(pl.col(name) * 1.2).otherwise(pl.col(name)).alias(name)
        for name in ("value", "low", "high")
    )
    save(slower, machine=QUIET.machine, topology_xml=QUIET.topology_xml, run=QUIET.run, records=rows)

    def ended(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [str(QUIET.path), str(slower), *words])
        return done.exit_code, done.stderr

    assert ended() == (0, "")
    few = ("--require-stable", "20%")
    assert ended("--fail-if-slower", "30%", *few) == (0, "")
    assert ended("--fail-if-slower", "5%", *few) == (1, "floor is slower: x1.20 in the geometric mean\n")


def test_a_profile_that_is_none_is_refused(tmp_path: Path) -> None:
    """Is the one that is wrong named?"""
    with pytest.raises(ProfileError, match="nowhere"):
        diff(QUIET.path, tmp_path / "nowhere")
