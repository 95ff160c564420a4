"""`nearfield diff --fail-if-slower`: does the gate pass only what was compared, and find what is slower?"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.base.estimates import Estimate
from nearfield.cli.help import use_own_help
from nearfield.cli.verbs.diff import command
from nearfield.profile import Profile, from_rows, load, save
from nearfield.profile.compare import Comparison, RecordChange, compare_records
from nearfield.profile.gate import GateLimits, GateResult, judge_slowdown
from nearfield.profile.schema import Place

DATA = Path(__file__).parents[1] / "data"
QUIET, BUSY = load(DATA / "epyc-vm-quiet"), load(DATA / "epyc-vm-busy")
RUN = QUIET.run.model_copy(update={"scenario": []})
NOTHING = QUIET.records.clear()

app = typer.Typer()
app.command()(command)


def gated(a: Profile, b: Profile, limits: GateLimits) -> GateResult:
    comparison = compare_records(a.records, b.records, (a.run, b.run), 0.05)
    return judge_slowdown(comparison, (a.run, b.run), limits)


def with_records(p: Profile, records: pl.DataFrame, **run: Any) -> Profile:
    return Profile(p.path, p.machine, p.run.model_copy(update=run), records, p.topology_xml)


def drawn(
    rng: random.Random, times: int, ratio: float, scatter: float, slow: dict[int, float] | None = None
) -> GateResult:
    """Returns the gate at 10 %, with a look at each time, for two runs of a machine on which all times have this ratio
    and scatter between the runs; intervals are 2 % wide. The times in `slow` are slower by these factors."""
    changes = []
    for number in range(times):
        value = ratio * math.exp(rng.gauss(0, scatter)) * math.exp(rng.gauss(0, 0.005)) * (slow or {}).get(number, 1)
        estimate = Estimate(value, value * 0.99, value * 1.01)
        key = {"scenario": "pingpong", "metric": "send", "size_bytes": 1 << number}
        changes.append(RecordChange(key, "ns", estimate, estimate, estimate, "same", False, None))
    return judge_slowdown(Comparison(changes, NOTHING, NOTHING), (RUN, RUN), GateLimits(0.10, checks_single_times=True))


# ---- fails closed


def test_nothing_passes_without_data() -> None:
    """Is a busy profile, which is slower where it is stable and mostly is not, neither passed nor called slower?"""
    for pair in ((QUIET, BUSY), (BUSY, QUIET), (BUSY, BUSY)):
        gate = gated(*pair, GateLimits(0.10))
        assert gate.verdict == "not decided"
        assert any("floor: " in reason and "stable in both" in reason for reason in gate.reasons)


def test_what_is_missing_is_not_passed() -> None:
    """Is it said that one profile lacks a scenario, is incomplete, or has nothing in common with the other?"""
    stable = with_records(QUIET, QUIET.records.filter("stable"))
    assert gated(stable, stable, GateLimits(0.10)).verdict == "not slower"
    lacks = with_records(stable, stable.records.filter(pl.col("scenario") != "floor"))
    for pair, only in (((stable, lacks), "A"), ((lacks, stable), "B")):
        gate = gated(*pair, GateLimits(0.10))
        assert (gate.verdict, gate.reasons) == ("not decided", [f"floor: only profile {only} has it"])
    unfinished = with_records(stable, stable.records, complete=False)
    assert gated(stable, unfinished, GateLimits(0.10)).reasons == ["profile B is incomplete"]
    assert gated(with_records(QUIET, NOTHING), with_records(QUIET, NOTHING), GateLimits(0.10)).verdict == "not decided"


def test_sizes_that_are_gone_count_as_not_compared() -> None:
    """If B lacks most sizes of A, is the rest no proof? And may B have more sizes than A?"""
    stable = with_records(QUIET, QUIET.records.filter("stable"))
    fewer = with_records(stable, stable.records.filter(pl.col("size_bytes").fill_null(0) <= 64))
    assert gated(stable, fewer, GateLimits(0.10)).verdict == "not decided"
    assert gated(fewer, stable, GateLimits(0.10)).verdict == "not slower"


def test_slower_decides_before_what_is_missing() -> None:
    """Is a scenario that is significantly slower reported, although another one cannot be compared?"""
    stable = with_records(QUIET, QUIET.records.filter("stable"))
    names = ("value", "low", "high")
    slow = pl.when(pl.col("scenario") == "floor")
    rows = stable.records.with_columns(slow.then(pl.col(n) * 1.2).otherwise(pl.col(n)).alias(n) for n in names)
    gate = gated(stable, with_records(stable, rows, complete=False), GateLimits(0.10))
    assert gate.verdict == "slower" and gate.reasons == ["profile B is incomplete"]


# ---- each time by itself


@pytest.mark.parametrize(("times", "scatter"), [(10, 0.03), (30, 0.03), (30, 0.08), (100, 0.05)])
def test_a_machine_that_is_as_slow_as_allowed_rarely_fails(times: int, scatter: float) -> None:
    """In the worst case that still is no failure, all times just 10 % slower: is some time called slower in at most 5 %
    of the comparisons, however many times are looked at?"""
    rng = random.Random(times)
    alarms = sum(
        any(one.slow_times for one in drawn(rng, times, 1.10 / 1.0001, scatter).scenarios.values()) for _ in range(400)
    )
    assert alarms <= 0.05 * 400 + 2 * math.sqrt(0.05 * 0.95 * 400)


def test_one_unlucky_size_of_thirty_does_not_fail_a_good_machine() -> None:
    """Nothing changed, times scatter by 5 % between the runs, and one of thirty by 15 % more: does the gate pass?"""
    rng = random.Random(3)
    passed = sum(drawn(rng, 30, 1.0, 0.05, {7: 1.15}).verdict == "not slower" for _ in range(200))
    assert passed >= 0.95 * 200


def test_one_size_that_is_three_times_slower_is_found() -> None:
    """The mean of thirty hides it: is it found on a machine whose times scatter by 5 %, with its size?"""
    rng = random.Random(4)
    for _ in range(100):
        gate = drawn(rng, 30, 1.0, 0.05, {12: 3.0})
        [slow] = gate.scenarios["pingpong"].slow_times
        assert gate.verdict == "slower" and slow.where == "send, size 4 KiB" and slow.limit < 1.6 < slow.ratio


def test_where_scatter_would_hide_a_doubled_time_nothing_is_passed() -> None:
    """Times that scatter by 50 %, or only three of them: does the gate say that it cannot tell?"""
    for times, scatter in ((30, 0.5), (3, 0.05)):
        gate = drawn(random.Random(5), times, 0.9, scatter)
        assert gate.verdict == "not decided" and "scatter" in gate.reasons[0]


def test_exact_times_do_not_scatter() -> None:
    """A simulator's times have no interval: is any time above the share slower, and nothing else?"""
    row: dict[str, Any] = {
        "scenario": "stride",
        "metric": "time",
        "unit": "ns",
        "n": 1,
        "stable": True,
        "source": "sim",
    }
    a = from_rows([{**row, "value": 100.0, "size_bytes": size} for size in (8, 16, 32)])
    b = from_rows(
        [{**row, "value": value, "size_bytes": size} for size, value in ((8, 100.0), (16, 111.0), (32, 109.0))]
    )
    gate = judge_slowdown(
        compare_records(a, b, (RUN, RUN), 0.05), (RUN, RUN), GateLimits(0.10, checks_single_times=True)
    )
    assert [one.ratio for one in gate.scenarios["stride"].slow_times] == [1.11]


def test_cores_that_moved_decide_nothing() -> None:
    """Not even that B is slower, since its times are those of cores that are farther apart?"""
    place = Place(pair="0-1", distance="shared-l3", c2c_latency_ns=60.0, share=0.9, used=True)
    near = with_records(QUIET, QUIET.records.filter("stable"), place=[place])
    still = with_records(near, near.records, place=[place.model_copy(update={"c2c_latency_ns": 65.0})])
    slower = near.records.with_columns(pl.col("value", "low", "high") * 2)
    far = with_records(near, slower, place=[place.model_copy(update={"c2c_latency_ns": 240.0})])
    assert gated(near, still, GateLimits(0.10)).verdict == "not slower"
    assert gated(near, with_records(near, slower), GateLimits(0.10)).verdict == "slower"
    gate = gated(near, far, GateLimits(0.10))
    assert gate.verdict == "not decided" and "60 ns apart in A, and 240 ns in B" in gate.reasons[0]


# ---- the command


@pytest.mark.slow
def test_the_command_ends_with_the_verdict(tmp_path: Path) -> None:
    """Are exit codes 0, 1 and 6, with the reason on standard error, and verdict and counts in JSON?"""

    def ended(*words: str | Path) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, [*map(str, words)])
        return done.exit_code, done.stdout, done.stderr

    code, out, error = ended(QUIET.path, BUSY.path, "--fail-if-slower", "10%", "--json")
    parsed = json.loads(out)
    assert code == NOT_DECIDED_EXIT_CODE == parsed["gate"]["exit_code"]
    assert "cannot tell: floor: 14 of 49 times are stable in both profiles, and at least 50 % must be" in error
    assert parsed["gate"]["verdict"] == "not decided" and parsed["verdict"] == "cannot tell"
    assert parsed["gate"]["scenarios"]["floor"]["stable"] == 14 and parsed["counts"]["slower"] == 51
    stable = tmp_path / "stable"
    records = QUIET.records.filter("stable")
    save(stable, machine=QUIET.machine, topology_xml=QUIET.topology_xml, run=QUIET.run, records=records)
    assert ended(stable, stable, "--fail-if-slower", "10%", "--any")[::2] == (0, "")


def test_a_limit_has_a_unit() -> None:
    """Is `10` refused, which might be meant as 10 %, and is an option without its value answered with what to write?"""
    for words, expected in ((["10"], "10%"), (["1"], "1%"), (["2%", "--require-stable", "x"], "5%")):
        with pytest.raises(UsageError) as error:
            CliRunner().invoke(app, [str(QUIET.path)] * 2 + ["--fail-if-slower", *words], catch_exceptions=False)
        assert expected in error.value.remedy
    whole = typer.Typer()
    whole.command()(command)
    with pytest.raises(UsageError, match="needs a value") as missing:
        CliRunner().invoke(use_own_help(whole), [str(QUIET.path)] * 2 + ["--fail-if-slower"], catch_exceptions=False)
    assert "10%" in missing.value.remedy
    with pytest.raises(UsageError, match="--any is for"):
        CliRunner().invoke(app, [str(QUIET.path)] * 2 + ["--any"], catch_exceptions=False)
