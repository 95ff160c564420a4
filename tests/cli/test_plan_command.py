"""`nearfield plan`: does a person see why a split is best, and a script every plan?"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli.verbs.plan import command, full_nodes
from nearfield.measure.sim import costs, pool
from nearfield.plan.cost_source import default_model
from nearfield.profile import load, save

QUIET = Path(__file__).parents[1] / "data" / "epyc-vm-quiet"

app = typer.Typer()
app.command()(command)


def plan(*arguments: str | Path) -> str:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False).output


def test_what_a_person_sees() -> None:
    """Are origin, the best split with its parts and message sizes, and the verdict there, the best one first?"""
    lines = plan("256x256x256", "--ranks", "32", "--on", "t3e-900").splitlines()
    assert lines[0].startswith("costs of the described machine t3e-900, buffered")
    assert lines[3].split()[:4] == ["split", "node", "box", "time"]
    assert " ".join(lines[4].split()).startswith("8x4x1 1x1x1 32x64x256 2.48 ms 0 % 99 % 1 % 2x 128 KiB, 2x 64 KiB, -")
    assert lines[-1].startswith("8x4x1 is best: 2.48 ms an exchange, 99 % of it bytes; the best 1-D takes 2.66x")


def test_only_full_nodes_are_planned() -> None:
    """Is a number of ranks refused that leaves a node partly empty, and a machine's own one lowered, with a note?"""
    known = replace(default_model(), ranks_per_node=12)
    with pytest.raises(UsageError, match="64 ranks do not fill nodes of 24"):
        full_nodes(64, 24, known)
    assert full_nodes(64, None, known) == 8
    assert known.notes[-1] == "64 ranks do not fill nodes of 12, so that 8 are planned on each."
    assert full_nodes(48, None, known) == 12 and full_nodes(64, 16, known) == 16 and full_nodes(4, None, known) == 12


def test_ten_splits_by_default() -> None:
    """Is each split listed once, and the rest counted?"""
    text = plan("256x256x256", "-n", "32", "--ranks-per-node", "8")
    rows = [line for line in text.splitlines() if line.endswith("KiB") or " every " in line]
    assert len(rows) == 10 and "11 more splits: --top 21" in text
    assert "more splits" not in plan("256x256x256", "-n", "32", "--top", "21")


def test_the_users_split_is_listed_and_compared() -> None:
    """Is nothing else listed, and is it said what the choice costs?"""
    text = plan("64x64", "-n", "8", "--dims", "1x8")
    assert "The requested split takes 1.37x of the best, 8x1." in text
    assert text.splitlines()[-1].startswith("1x8: ")
    assert "No split is faster" in plan("64x64", "-n", "8", "--dims", "8x0")


def test_where_the_costs_are_from_is_always_said() -> None:
    """Does it say defaults, a profile and what that lacks, and messages instead of reading in place?"""
    assert "nearfield's defaults" in plan("64x64", "-n", "4") and "in place inside a node: 110 ns" in plan(
        "64x64", "-n", "4"
    )
    text = plan("64x64", "-n", "4", "--profile", QUIET)
    assert "openmpi-4.1.4 on epyc-vm" in text and "no stable strides" in text
    assert "messages inside a node: 180 ns" in plan("64x64", "-n", "4", "--messages")


def test_a_profile_without_costs_is_not_named_as_their_source(tmp_path: Path) -> None:
    """Does the first line say that all costs are defaults if the profile has no stable record of them?"""
    quiet = load(QUIET)
    unstable = quiet.records.with_columns(stable=pl.lit(False))
    save(tmp_path / "busy", machine=quiet.machine, topology_xml=quiet.topology_xml, run=quiet.run, records=unstable)
    first = plan("64x64", "-n", "4", "--profile", tmp_path / "busy").splitlines()[0]
    assert first.startswith("costs of nearfield's defaults, since the profile") and "no stable record" in first
    assert "defaults" not in plan("64x64", "-n", "4", "--profile", QUIET).splitlines()[0]


def test_csv_has_every_plan_in_full() -> None:
    """Is the output a table alone, one row for each plan, with the numbers of --json?"""
    rows = list(csv.DictReader(io.StringIO(plan("64x64", "-n", "8", "--csv"))))
    plans = json.loads(plan("64x64", "-n", "8", "--json"))["plans"]
    assert [float(row["time_ns"]) for row in rows] == [one["time_ns"] for one in plans]
    assert rows[0]["split"] == "8x1" and rows[0]["messages"] == str(plans[0]["messages"])


def test_uneven_boxes_are_reported() -> None:
    """10 cells on 4 ranks: is the rank with 3 of them named?"""
    assert "the slowest rank has 1.20x of the mean cells" in plan("10", "-n", "4")


def test_json_has_every_plan() -> None:
    """Is the output JSON alone, with costs, verdict and all placements, best first?"""
    parsed = json.loads(plan("64x64x64", "-n", "16", "--ranks-per-node", "4", "--json"))
    times = [p["time_ns"] for p in parsed["plans"]]
    assert len(times) > 15 and times == sorted(times)
    first = parsed["plans"][0]
    assert first["time_ns"] == pytest.approx(first["latency_ns"] + first["bytes_ns"] + first["strided_ns"])
    assert parsed["costs"]["in_place"]["latency_ns"] == 110 and parsed["verdict"]
    assert len(json.loads(plan("64", "-n", "4", "--json"))["plans"][0]["dims"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["4x4", "-n", "64"], "no split of 64 ranks"),
        (["4y4", "-n", "4"], "is no grid"),
        (["4x4x4x4", "-n", "4"], "is no grid"),
        (["0x4", "-n", "4"], "is no grid"),
        (["8x8", "-n", "4", "--dims", "3x1"], "no split of 4 ranks"),
        (["8x8", "-n", "4", "--dims", "2x2x1"], "3 numbers of ranks for 2 dimensions"),
        (["8x8", "-n", "4", "--mode", "buffered"], "--mode"),
        (["8x8", "-n", "4", "--on", "t3e-90"], "no described machine"),
        (["8x8", "-n", "4", "--on", "t3e-900", "--profile", "x"], "two machines"),
        (["8x8", "-n", "4", "--element", "8KB"], "1000"),
        (["99999999999x8", "-n", "4"], "too large"),
        (["999999999x999999999x9", "-n", "4"], "more bytes"),
    ],
)  # fmt: skip
def test_errors_have_a_remedy(arguments: list[str], words: str) -> None:
    """Does each say what is wrong and what to do?"""
    with pytest.raises(UsageError) as caught:
        plan(*arguments)
    assert words in caught.value.message and caught.value.remedy


def test_what_no_file_says_is_simulated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are the costs of a machine without [communication] those of simulated ping-pongs, marked as such, and stored?"""
    monkeypatch.setenv("NEARFIELD_CACHE", str(tmp_path))
    simulated: list[Any] = []

    def collect_runner(jobs: int) -> pool.CaseRunner:
        return lambda cases: simulated.extend(cases) or pool.run_sequentially(cases)

    monkeypatch.setattr(pool, "make_runner_on_cores", collect_runner)
    words = ("64x64x64", "-n", "8", "--on", "power5-redstorm", "--json")
    first = json.loads(CliRunner().invoke(app, list(words), catch_exceptions=False).stdout)
    assert first["origin"] == "the described machine power5-redstorm, simulated" and len(simulated) == 14
    assert first["costs"]["in_place"] is None and "are simulated" in first["notes"][0]
    network = first["costs"]["network"]
    assert 1 / network["ns_per_byte"] == pytest.approx(1.1, rel=0.05)  # GB/s of its NIC
    assert network["latency_ns"] > 900 + first["costs"]["same_node"]["latency_ns"]  # 900 are the wire's
    assert json.loads(CliRunner().invoke(app, list(words), catch_exceptions=False).stdout) == first
    assert len(simulated) == 14


def test_what_a_file_says_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is [communication] used where there is one?"""
    monkeypatch.setattr(costs, "simulate_rows", lambda *_: pytest.fail("simulated"))
    assert "buffered" in plan("64x64", "-n", "4", "--on", "t3e-900")
