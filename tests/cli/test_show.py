"""`nearfield show`: does a person see the numbers of the profile, and a script all of them?"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli.verbs.show import command
from nearfield.profile import from_rows, load, save, where
from nearfield.profile.pivot import grids_of_places, headline_metric, overview_grid

DATA = Path(__file__).parents[1] / "data"
QUIET = DATA / "epyc-vm-quiet"
RECORDS = load(QUIET).records

app = typer.Typer()
app.command()(command)


def show(*arguments: str | Path) -> str:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False).output


# ---- what a person sees


def test_the_overview_says_what_it_is_about() -> None:
    """Are machine, MPI, run, switches and what was skipped there, and one table for each scenario?"""
    text = show(QUIET)
    for fact in (
        "AMD EPYC, 2 cores",
        "L3 32 MiB",
        "openmpi-4.1.4",
        "ob1 / vader",
        "single-copy at 4040 B",
        "load: needs 4",
    ):
        assert fact in text
    for title in ("protocol send_blocks", "floor time", "pingpong half_round_trip", "pollution traverse"):
        assert title in text
    assert "metrics send, receive: --scenario pingpong" in text


def test_a_cell_is_value_unit_interval_and_mark() -> None:
    """Is the recorded number in its cell, with half its interval, and marked where it is not stable?"""
    wanted = where(RECORDS, scenario="pingpong", metric="half_round_trip", size_bytes=4040)
    value, low, high = wanted.filter(pl.col("state") == "invalid").select("value", "low", "high").row(0)
    assert (round(value), round((high - low) / 2)) == (1212, 15)
    row = next(line for line in show(QUIET).splitlines() if "4040 B" in line and "us ±" in line)
    assert "1.21 us ±0.02" in row and "~" not in row
    unstable = next(line for line in show(QUIET).splitlines() if "4 MiB     729 us" in line)
    assert unstable.count("~") == 4


def test_a_value_that_cannot_be_had_has_the_reason_below() -> None:
    """Is a null in the table a footnote with the note of the record, each reason once?"""
    text = show(QUIET, "--metric", "l1d_misses")
    assert text.count("null [1]") == 4
    assert text.count("[1] this machine has no such hardware counter") == 1


def test_a_refuted_state_is_marked(tmp_path: Path) -> None:
    """Does a number whose buffers were not in the state it is filed under say so?"""
    p = load(QUIET)
    records = p.records.with_columns(verdict=pl.lit("refuted"))
    save(tmp_path / "p", machine=p.machine, topology_xml=p.topology_xml, run=p.run, records=records)
    assert "±0.02 ?" in show(tmp_path / "p", "--scenario", "pingpong")


def test_one_scenario_is_shown_whole() -> None:
    """Is every size there with --scenario, while the overview thins them but keeps first and last?"""
    sizes = where(RECORDS, scenario="pingpong", metric="half_round_trip")["size_bytes"].n_unique()
    small, [whole] = (
        f(where(RECORDS, scenario="pingpong", metric="half_round_trip")) for f in (overview_grid, grids_of_places)
    )
    assert small is not None and len(small.rows) == 12 < len(whole.rows) == sizes
    assert (small.rows[0], small.rows[-1]) == (whole.rows[0], whole.rows[-1])
    assert small.num_excluded + len(small.cells) == len(whole.cells) == 4 * sizes


def test_an_incomplete_profile_says_so(tmp_path: Path) -> None:
    """Does the reader learn that the run was interrupted, and how to complete it?"""
    p = load(QUIET)
    run = p.run.model_copy(update={"complete": False})
    save(tmp_path / "p", machine=p.machine, topology_xml=p.topology_xml, run=run, records=from_rows([]))
    assert "--resume" in show(tmp_path / "p")


def test_nothing_is_cut_off_in_a_pipe() -> None:
    """Is the widest table whole when the output is not a terminal?"""
    assert "…" not in show(QUIET) and "copy-local-nt" in show(QUIET)


# ---- how tables are laid out


def test_both_sides_have_their_own_table() -> None:
    """Are sender and receiver apart, and is no record lost or shown twice?"""
    records = where(RECORDS, scenario="pollution", metric="traverse")
    tables = grids_of_places(records)
    assert [table.fixed_values["side"] for table in tables] == ["sender", "receiver"]
    assert sum(len(table.cells) for table in tables) == records.height


def test_every_scenario_is_laid_out_without_loss() -> None:
    """Is every record of every metric in exactly one cell?"""
    for _, records in RECORDS.group_by("scenario", "metric"):
        assert sum(len(table.cells) for table in grids_of_places(records)) == records.height


def test_the_headline_is_the_time_of_the_whole_operation() -> None:
    """Is half_round_trip chosen before send, and the first metric where there is no such time?"""
    assert headline_metric(where(RECORDS, scenario="pingpong", unit="ns", metric=["send", "half_round_trip"])) == (
        "half_round_trip"
    )
    assert headline_metric(where(RECORDS, scenario="protocol", unit="count", side=None)) == "send_blocks"


def test_many_parameters_are_cut_to_one_plane() -> None:
    """With four parameters: does the overview hold all but the longest axis and the columns, and say what it
    left out?"""
    rows = [
        {
            "scenario": "stride", "metric": "half_round_trip", "unit": "ns", "value": 100.0 + stride,
            "low": 99.0 + stride, "high": 101.0 + stride, "n": 9, "stable": True, "source": "live",
            "distance": "shared-l3", "pair": "0-1",
            "size_bytes": size, "stride": stride, "method": method, "mode": mode,
        }
        for size in (2048, 262144) for stride in (1, 2, 3, 8) for method in ("datatype", "manual-pack")
        for mode in ("standard", "buffered")
    ]  # fmt: skip
    grid = overview_grid(from_rows(rows))
    assert grid is not None
    assert (grid.row_parameters, grid.rows) == (["stride"], [(1,), (2,), (3,), (8,)])
    assert (grid.column_parameter, grid.columns) == ("method", ["datatype", "manual-pack"])
    assert grid.fixed_values["size_bytes"] == 2048 and grid.fixed_values["mode"] == "standard"
    assert grid.num_excluded == 32 - 8


# ---- what a script gets


def test_json_holds_every_record() -> None:
    """Is the output JSON and nothing else, with machine, run and all records with all their columns?"""
    everything = json.loads(show(QUIET, "--json"))
    assert everything["machine"]["cache"][2]["size_bytes"] == 32 << 20
    assert everything["run"]["created"] == "2026-11-21T06:07:00Z"
    assert from_rows(everything["records"]).equals(RECORDS, null_equal=True)


def test_csv_holds_the_selected_records() -> None:
    """Is the output CSV and nothing else, with just what the options select?"""
    text = show(
        QUIET,
        "--csv",
        "--scenario",
        "pingpong",
        "--where",
        "state=invalid,modified",
        "--where",
        "size_bytes=4KiB",
    )
    table = pl.read_csv(io.StringIO(text), infer_schema_length=None)
    assert set(table["state"]) == {"invalid", "modified"} and set(table["size_bytes"]) == {4096}
    assert table.columns == RECORDS.columns


# ---- mistakes


@pytest.mark.parametrize(
    ("arguments", "cause", "remedy"),
    [
        (["--scenario", "pingpnog"], "no record has scenario 'pingpnog'", "pingpong"),
        (["--metric", "half"], "no record has metric 'half'", "half_round_trip"),
        (["--where", "size=4096"], "no parameter 'size'", "size_bytes"),
        (["--where", "size_bytes=4095"], "no record has size_bytes '4095'", "4040, 4041, 4096"),
        (["--where", "size_bytes=big"], "'big' is not a size", "4KiB"),
        (["--where", "state=modifed"], "no record has state 'modifed'", "'modified'"),
        (["--where", "state"], "has no '='", "state=invalid"),
        (["--scenario", "floor", "--where", "state=invalid"], "no parameter 'state'", "kind"),
        (["--json", "--csv"], "two formats", "one"),
    ],
)
def test_a_mistake_is_answered_with_the_nearest_valid_name(arguments: list[str], cause: str, remedy: str) -> None:
    """Does the error name what is wrong and what was probably meant?"""
    with pytest.raises(UsageError) as caught:
        show(QUIET, *arguments)
    assert cause in caught.value.message and remedy in caught.value.remedy


def test_a_side_that_was_not_measured_is_empty_not_misspelt() -> None:
    """Is a valid word that no record has an empty answer?"""
    assert "no record is like that" in show(QUIET, "--scenario", "floor", "--where", "side=receiver")


def test_the_profile_here_is_shown_when_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Does `nearfield show` without arguments find the only profile of the folder?"""
    shutil.copytree(QUIET, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert "AMD EPYC" in show()
