"""Does --sweep simulate a trace on each variant of a machine, as if each were a machine of its own?"""

import csv
import io
import json
from pathlib import Path

import pytest
import tomlkit
from machines import put_tiers, values
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli import app

TRACE = Path(__file__).parents[1] / "data" / "traces" / "true.lackey.gz"


def run(*words: object) -> str:
    done = CliRunner().invoke(app, ["simulate", "trace", str(TRACE), *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout


def refusal(*words: object) -> UsageError:
    done = CliRunner().invoke(app, ["simulate", "trace", *map(str, words)])
    assert isinstance(done.exception, UsageError), done.output
    return done.exception


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with a tier."""
    table = values("leo3")
    put_tiers((300, 10, 0.5))(table)
    file = tmp_path / "tiered.toml"
    file.write_text(tomlkit.dumps(table | {"name": "tiered"}))
    return file


def test_each_value_is_a_machine(machine: Path) -> None:
    """Are time, misses and traffic of each value those of a machine whose file has this value, at each speed?"""
    key = "memory.tier[0].share"
    found = json.loads(run("--on", machine, "--memory-slowdown", "1,3", "--sweep", f"{key}=0,0.5,1", "--json"))
    assert [one["values"] for one in found["sweep"]] == [{key: 0.0}, {key: 0.5}, {key: 1.0}]
    alone = json.loads(run("--on", machine, "--memory-slowdown", "1,3", "--json"))
    half = found["sweep"][1]
    assert half["times_ns"] == [one["ns"] for one in alone["times"]]
    assert half["misses"] == [level["misses"] for level in alone["levels"]]
    assert found["accesses"] == alone["accesses"]
    times = [one["times_ns"][0] for one in found["sweep"]]
    assert times == sorted(times) and times[0] < times[-1]
    without = json.loads(run("--on", "leo3", "--json"))
    assert times[0] == without["times"][0]["ns"]


def test_values_are_combined(machine: Path) -> None:
    """Is there a row for each combination of two keys, with the ratio to the first?"""
    table = run("--on", machine, "--sweep", "memory.tier[0].share=0,1", "--sweep", "memory.latency_ns=100,200")
    assert "a lower bound" in table
    rows = [line.split() for line in table.splitlines() if line.split()[:1] in (["0"], ["1"])]
    assert [row[:2] for row in rows] == [["0", "100"], ["0", "200"], ["1", "100"], ["1", "200"]]
    assert rows[0][4] == "1" and rows[2] == [*rows[3][:1], "100", *rows[3][2:]]  # no page is in the DRAM


def test_a_sweep_is_a_table_of_rows(machine: Path) -> None:
    """Has --csv the digits of --json, in a row for each value and memory speed?"""
    words = ["--on", machine, "--memory-slowdown", "1,3", "--sweep", "memory.latency_ns=100,200"]
    rows = list(csv.DictReader(io.StringIO(run(*words, "--csv"))))
    found = json.loads(run(*words, "--json"))["sweep"]
    assert [(float(row["memory.latency_ns"]), float(row["memory_slowdown"])) for row in rows] == [
        (100, 1), (100, 3), (200, 1), (200, 3),
    ]  # fmt: skip
    assert [float(row["time_ns"]) for row in rows] == [time for one in found for time in one["times_ns"]]
    assert [int(row["l1_misses"]) for row in rows[::2]] == [one["misses"][0] for one in found]
    assert "--csv is for the table" in refusal(str(TRACE), "--csv").message


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([str(TRACE), "--sweep", "memory.latency=1..2"], "Did you mean 'memory.latency_ns'"),
        ([str(TRACE), "--sweep", "memory.latency_ns=1,2"], "at least that"),
        ([str(TRACE), "--sweep", "memory.tier[0].share=0,1"], "its file describes no such tier"),
        ([str(TRACE), "--sweep", "memory.latency_ns=80,90", "--sensitivity"], "sensitivity"),
        (["-", "--sweep", "memory.latency_ns=80,90"], "standard input can be read once"),
    ],
    ids=["no such key", "no such machine", "no such tier", "with sensitivity", "standard input"],
)
def test_what_cannot_be_swept_is_refused(words: list[str], reason: str) -> None:
    """Does the error name what is wrong?"""
    error = refusal(*words, "--on", "leo3")
    assert reason in f"{error.message} {error.remedy}"
