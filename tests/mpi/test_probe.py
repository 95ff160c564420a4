"""Does `nearfield probe` measure what was requested, end in a profile, and say so when it cannot?"""

import fcntl
import json
import subprocess
from pathlib import Path

import polars as pl
import pytest
from cli_runner import CORES, SHORT, Ended, probe, restrict_to_cpus
from tuning import in_process

import nearfield
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.profile import Profile, where

pytestmark = [
    pytest.mark.skipif(len(CORES) < 2, reason="two ranks that spin need two cores"),
]
EVERYTHING = {"protocol", "floor", "pingpong", "pollution", "stride", "pages", "collective"}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of every scenario at two sizes, with its samples."""
    out = tmp_path_factory.mktemp("probe") / "profile"
    done = probe(*SHORT, "--budget", "25", "--sizes", "4KiB,8,4096", "--keep-samples", "--out", out)
    assert done.code == 0, done.err
    return out


@pytest.fixture(scope="session")
def whole(folder: Path) -> Profile:
    return nearfield.load(folder)


# ---- the profile


def test_every_scenario_has_records(whole: Profile) -> None:
    """Is each scenario either measured or skipped with its reason, and nothing else in the profile?"""
    assert whole.run.complete
    measured, skipped = set(whole.records["scenario"]), {s.scenario for s in whole.run.skipped}
    assert measured >= EVERYTHING
    assert measured | skipped == {*EVERYTHING, "load"}
    if len(CORES) < 4:
        assert [s.reason for s in whole.run.skipped] == [f"needs 4 free cores; there are {len(CORES)}"]


def test_the_places_of_the_cores_are_listed(whole: Profile) -> None:
    """Has each pair's latency been measured beside its repetitions, and is the most frequent place the one in use?"""
    for pair in set(whole.records["pair"].drop_nulls()):
        places = [place for place in whole.run.place if place.pair == pair]
        assert [place.used for place in places] == [True] + [False] * (len(places) - 1)
        assert all(place.c2c_latency_ns > 0 for place in places)
        assert places[0].share == max(place.share for place in places) and sum(place.share for place in places) < 1.01


def test_records_have_place_and_parameters(whole: Profile) -> None:
    """Do pairs have their distance, scenarios of all ranks none, and cases the parameters the engine describes?"""
    topology = Topology.of_this_machine()
    pairs = whole.records.filter(pl.col("pair").is_not_null())
    for pair, distance in set(pairs.select("pair", "distance").iter_rows()):
        assert topology.distance(*map(int, pair.split("-"))) == distance
    assert set(pairs["distance"]) == set(topology.distances())
    assert set(whole.records.filter(pl.col("pair").is_null())["scenario"]) == {"pages", "collective"}
    for scenario in whole.run.scenario:
        promised = {m.name for m in scenario.metrics}
        cases = where(whole.records, scenario=scenario.name).filter(pl.col("metric").is_in(promised))
        assert cases.height
        for parameter in scenario.parameters:
            assert cases[parameter.name].null_count() < cases.height, (scenario.name, parameter.name)


def test_units_are_those_promised(whole: Profile) -> None:
    """Does every metric come in the unit its scenario describes?"""
    for scenario in whole.run.scenario:
        for metric in scenario.metrics:
            units = set(where(whole.records, scenario=scenario.name, metric=metric.name)["unit"])
            assert units <= {metric.unit}


def test_sizes_are_the_requested_ones(whole: Profile) -> None:
    """Does `--sizes` with units, in any order and twice the same, give each size once?"""
    assert set(where(whole.records, scenario="pingpong")["size_bytes"].drop_nulls()) == {8, 4096}


def test_pingpong_is_distinguished_by_side_and_state(whole: Profile) -> None:
    """Are Send and Recv recorded at each side, and each buffer state with a verdict?"""
    stated = {"invalid", "exclusive", "modified"}
    sends = where(whole.records, scenario="pingpong", metric="send", state=stated)
    assert set(sends.select("side", "state").iter_rows()) == {(s, t) for s in ("sender", "receiver") for t in stated}
    assert sends["verdict"].null_count() == 0
    trips = where(whole.records, scenario="pingpong", metric="half_round_trip")
    assert set(trips["state"]) == {*stated, "reused"}


def test_counters_are_values_or_reasons(whole: Profile) -> None:
    """Are software events always counted, and each missing counter null with the reason, in both files?"""
    assert whole.run.counters["page_faults"] == whole.run.counters["context_switches"] == "available"
    for name, state in whole.run.counters.items():
        values = where(whole.records, metric=name)
        if state == "available":
            assert values["value"].null_count() < values.height, name
        else:
            assert set(values["note"]) == {state}


def test_run_tells_how_it_was_measured(whole: Profile) -> None:
    """Does run.toml hold the command, the MPI with its thresholds, the clock, and each launch with its binding?"""
    run = whole.run
    assert run.tier == "quick"
    assert run.command.startswith("nearfield probe --quick")
    assert run.seconds > 0
    assert run.mpi.family == "openmpi"
    assert "Open MPI" in run.mpi.library
    assert run.mpi.variables["btl_sm_eager_limit"] == 4096
    assert run.mpi.transport or run.mpi.transport_reason
    assert Path(run.mpi.launcher).exists()
    assert run.calibration and run.calibration.common_clock
    assert run.clock.resolution_ns and run.clock.overhead_ns and run.clock.ticks_per_ns
    assert run.host.cpus == CORES
    assert {launch.state for launch in run.launch} == {"complete"}
    assert all(len(launch.cpus) == launch.ranks and launch.seconds > 0 for launch in run.launch)
    assert {name for launch in run.launch for name in launch.scenarios} >= EVERYTHING


def test_eager_limit_is_named(whole: Profile) -> None:
    """Is the eager limit of this MPI found by what it does, and named as the variable that sets it?"""
    limits = [switch for switch in whole.run.switch if switch.kind == "eager-limit"]
    assert [limit.name for limit in limits if limit.bytes <= 4096] == ["btl_sm_eager_limit"] * len(limits)
    assert limits
    assert limits[0].value == 4096


def test_samples_are_stored_on_request(folder: Path, whole: Profile) -> None:
    """Does `--keep-samples` leave the raw samples of every launch in the profile, and no work folder?"""
    files = sorted((folder / "samples").glob("*.jsonl"))
    assert len(files) == len(whole.run.launch)
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert sum(line["type"] == "samples" for line in lines) > 100
    assert not folder.with_name("profile.launches").exists()


@pytest.mark.turn(1)
def test_chosen_scenarios_of_each_mpi(installation: Installation, tmp_path: Path) -> None:
    """Does `--scenario` twice measure just these, with the MPI that `--mpi` names, whichever it is?"""
    chosen = ["--scenario", "pingpong", "--scenario", "protocol", "--sizes", "8,4KiB"]
    done = probe(*SHORT, *chosen, "--mpi", installation.name, "--out", tmp_path / "p")
    assert done.code == 0, done.err
    profile = nearfield.load(tmp_path / "p")
    assert profile.run.mpi.name == installation.name
    assert set(profile.records["scenario"]) == {"pingpong", "protocol"}
    assert [s.name for s in profile.run.scenario] == ["pingpong", "protocol"]
    assert not profile.run.skipped
    assert "eager-limit" in {switch.kind for switch in profile.run.switch}


@pytest.mark.turn(0)
def test_more_ranks_than_cores_is_function_only(tmp_path: Path) -> None:
    """Does `--ranks` beyond the cores run, and mark every time as what it is worth?"""
    ranks = len(CORES) + 2
    only = ["--scenario", "collective", "--scenario", "load", "--sizes", "8", "--ranks", ranks]
    done = probe(*SHORT, *only, "--out", tmp_path / "p")
    assert done.code == 0, done.err
    profile = nearfield.load(tmp_path / "p")
    times = where(profile.records, scenario=["collective", "load"], unit="ns")
    assert set(times["scenario"]) == {"collective", "load"}
    assert not times["stable"].any()
    assert {launch.ranks for launch in profile.run.launch} == {ranks}


# ---- lists


def test_list_for_people_and_scripts(tmp_path: Path) -> None:
    """Does `--list` show the scenarios, and with `--json` nothing but JSON on standard output?"""
    table = probe("--list", "--out", tmp_path / "p")
    assert table.code == 0
    listed = in_process("probe", "--list", "--json", "--out", tmp_path / "p")
    scenarios = json.loads(listed.out)
    assert {s["name"] for s in scenarios} > {*EVERYTHING, "load", "traffic"}
    assert all(s["name"] in table.out and s["summary"] and s["metrics"] for s in scenarios)
    assert not list(tmp_path.iterdir())


# ---- what cannot be done is said before anything is measured


def refused(done: Ended, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert "launch 1" not in done.err, "it measured"
    for word in words:
        assert word in done.words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "pingpnog"], "unknown scenario 'pingpnog' → did you mean 'pingpong'?"),
        (["--sizes", "4KB"], "may mean powers of 1000 or of 1024"),
        (["--sizes", "8,,16"], "'' is not a size"),
        (["--sizes", "0"], "0 B is not a size of 1 B to"),
        (["--sizes", "4GiB"], "an MPI count is an int"),
        (["--quick", "--full"], "--quick and --full exclude each other"),
        (["--pairs", "most"], "must be 'one' or 'all'"),
        (["--budget", "0"], "must be more than 0 seconds"),
        (["--hostfile", "nowhere"], "nowhere: No such file or directory"),
        (["--resume"], "there is nothing to resume"),
        (["--resume", "--quick"], "--quick cannot change that"),
    ],
)
def test_wrong_usage_is_exit_code_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    """Is a wrong argument refused in words that help, with the exit code of wrong usage, and nothing left?"""
    refused(in_process("probe", *arguments, "--out", tmp_path / "p"), 2, words)
    assert not list(tmp_path.iterdir())


def test_unknown_mpi_is_exit_code_3(tmp_path: Path) -> None:
    """Is an MPI that is not there refused with the names of those that are?"""
    refused(
        in_process("probe", "--mpi", "openmpy", "--out", tmp_path / "p"), 3, "no MPI is called 'openmpy'", "openmpi-"
    )


def test_existing_profile_is_not_touched(folder: Path, tmp_path: Path) -> None:
    """Is a profile that is there refused before measuring, and replaced with --overwrite, samples included?"""
    before = (folder / "run.toml").read_bytes()
    refused(in_process("probe", *SHORT, "--out", folder), 4, "there is a profile", "--overwrite")
    assert (folder / "run.toml").read_bytes() == before
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", folder, copy], check=True)
    done = probe(*SHORT, "--scenario", "protocol", "--sizes", "8", "--overwrite", "--out", copy)
    assert done.code == 0, done.err
    assert set(nearfield.load(copy).records["scenario"]) == {"protocol"}
    assert not (copy / "samples").exists(), "samples of the profile that was there"


@pytest.mark.parametrize("out", ["/dev/null/profile", "/proc/profile", "/"])
def test_unwritable_folder_is_exit_code_4(out: str) -> None:
    """Is a folder that cannot be written refused before measuring?"""
    refused(in_process("probe", *SHORT, "--out", out), 4)


def test_foreign_folder_is_not_destroyed(tmp_path: Path) -> None:
    """Is a folder of somebody else's that is called as ours would be left alone, even with --overwrite?"""
    precious = tmp_path / "p.launches" / "results.txt"
    precious.parent.mkdir()
    precious.write_text("a year's work")
    refused(in_process("probe", *SHORT, "--overwrite", "--out", tmp_path / "p"), 4, "is in the way")
    assert precious.exists()


def test_one_probe_at_a_time_in_a_folder(tmp_path: Path) -> None:
    """Is a probe into a folder where another is measuring refused, and the other's work left alone?"""
    work = tmp_path / "p.launches"
    work.mkdir()
    with (work / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(probe(*SHORT, "--out", tmp_path / "p"), 2, "another probe is measuring into")
        assert [entry.name for entry in work.iterdir()] == ["lock"]


def test_one_core_is_a_reason_not_a_crash(tmp_path: Path) -> None:
    """On one core, is it said that there is nothing to measure, and what it would take?"""
    with restrict_to_cpus(CORES[:1]):
        refused(probe("--out", tmp_path / "p"), 5, "nothing can be measured here", "needs 2 free cores; there is 1")
    assert not list(tmp_path.iterdir())


def test_only_what_cannot_run_is_a_reason(tmp_path: Path) -> None:
    """If just the requested scenario cannot run here, is that an error with the reason, and no empty profile?"""
    if len(CORES) >= 4:
        pytest.skip("this machine has cores enough for load")
    refused(in_process("probe", "--scenario", "load", "--out", tmp_path / "p"), 5, "load: needs 4 free cores")
    assert not list(tmp_path.iterdir())
