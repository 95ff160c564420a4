"""Is a profile of a described machine like a measured one, the same every time, right in what it counts, and
distinguished from a measured one wherever somebody reads it?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest
from tuning import NEARFIELD, in_process, nearfield

from nearfield.base.errors import UsageError
from nearfield.machine import DescribedMachine, load_machine
from nearfield.machine.files import to_toml
from nearfield.measure.sim.cases import SimulationCase, cases_of_tier, select_simulated_scenarios
from nearfield.measure.sim.places import all_places, choose_places
from nearfield.profile import Profile, load
from nearfield.report.findings import findings
from nearfield.report.page import render_report

MEASURED = Path(__file__).parents[1] / "data" / "epyc-vm-quiet"
QUICK = ["--quick", "--jobs", "1"]
FEW = [*QUICK, "--scenario", "pingpong", "--scenario", "pollution", "--sizes", "64,8K,64K"]


PARALLEL = [*FEW, "--jobs", "2"]


def probe(out: Path, *options: str | Path, on: str | Path = "leo3") -> Profile:
    done = in_process("probe", "--on", on, "-o", out, *options)
    assert done.code == 0, done.err
    return load(out)


@pytest.fixture(scope="module")
def leo3(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """As a user makes it, by several processes."""
    out = tmp_path_factory.mktemp("simulated") / "leo3"
    done = nearfield("probe", "--on", "leo3", "-o", out, *PARALLEL)
    assert done.code == 0, done.err
    return load(out)


def values(profile: Profile, metric: str, **wanted: object) -> dict[int, float]:
    """size -> value"""
    rows = profile.records.filter(pl.col("metric") == metric)
    for name, value in wanted.items():
        rows = rows.filter(pl.col(name) == value)
    return dict(rows.select("size_bytes", "value").iter_rows())


# ---- like a measured one


def test_columns_and_names_are_those_of_a_measured_profile(leo3: Profile) -> None:
    measured = load(MEASURED)
    assert set(leo3.records.columns) <= set(measured.records.columns)
    names = {s.name: s for s in measured.run.scenario}
    for scenario in leo3.run.scenario:
        other = names[scenario.name]
        assert [p.name for p in scenario.parameters] == [p.name for p in other.parameters]
        assert [(m.name, m.unit) for m in scenario.metrics] == [(m.name, m.unit) for m in other.metrics]
        of = pl.col("scenario") == scenario.name
        metrics, others = (set(p.records.filter(of)["metric"]) for p in (leo3, measured))
        assert {"l1d_misses", "llc_accesses", "llc_misses", "dtlb_misses", "page_faults"} <= metrics & others
        for metric in (m.name for m in scenario.metrics):
            sides = [set(p.records.filter(of & (pl.col("metric") == metric))["side"]) for p in (leo3, measured)]
            assert sides[0] == sides[1], metric


def test_every_number_is_exact_and_says_that_it_is_simulated(leo3: Profile) -> None:
    given = leo3.records.filter(pl.col("value").is_not_null())
    assert given.height > 100
    assert set(leo3.records["source"]) == {"sim"} and set(given["n"]) == {1} and given["stable"].all()
    assert (given["low"] == given["value"]).all() and (given["high"] == given["value"]).all()
    run = leo3.run
    assert (run.backend, run.simulated, run.complete) == ("sim", "leo3", True) and run.simulator
    assert load(MEASURED).run.backend == "live"


def test_distances_are_those_of_the_description(leo3: Profile) -> None:
    assert list(dict.fromkeys(leo3.records["distance"].drop_nulls())) == ["shared-l3", "same-node", "network-1"]
    pairs = dict(leo3.records.select("distance", "pair").unique().drop_nulls().iter_rows())
    assert pairs == {"shared-l3": "0-1", "same-node": "0-6", "network-1": "n0:0-n1:0"}
    assert [p.distance for p in all_places(load_machine("tigerton"))] == ["shared-l2", "same-numa"]
    t3e = load_machine("t3e-900")
    hops = [p.distance for p in choose_places(t3e, "full", ())]
    assert hops == [f"network-{n}" for n in range(1, len(hops) + 1)] and len(hops) > 3
    assert [p.distance for p in choose_places(t3e, "default", ())] == [hops[0], hops[-1]]


# ---- the same every time


def test_two_runs_are_equal_to_the_last_bit(leo3: Profile, tmp_path: Path) -> None:
    again = probe(tmp_path / "again", *FEW)
    assert (again.path / "records.parquet").read_bytes() == (leo3.path / "records.parquet").read_bytes()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_probe_goes_on(leo3: Profile, tmp_path: Path, how: signal.Signals) -> None:
    """Does it save its cases when stopped with all its processes, and end as if uninterrupted when resumed?"""
    out, journal = tmp_path / "p", tmp_path / "p.launches" / "simulated.jsonl"
    command = [*NEARFIELD, "probe", "--on", "leo3", *PARALLEL, "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    while process.poll() is None and not (journal.exists() and journal.read_text().count("\n") >= 3):
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + how, errors
    assert b"Traceback" not in errors and b"--resume" in errors, errors
    partial = load(out)
    assert not partial.run.complete and 0 < partial.records.height < leo3.records.height
    before = len(journal.read_text().splitlines())
    assert nearfield("probe", "--resume", "-o", str(out)).code == 0
    assert before >= 3 and not journal.parent.exists()
    assert load(out).run.complete and load(out).records.equals(leo3.records)


# ---- what is counted


def test_counts_obey_the_caches(leo3: Profile) -> None:
    """Do misses stay between 0 and the accesses, and are they the sum of both calls' misses?"""
    for place in ("shared-l3", "same-node", "network-1"):
        for state in ("invalid", "exclusive", "modified"):
            for side in ("sender", "receiver"):
                of = {"scenario": "pingpong", "distance": place, "state": state, "side": side}
                accesses, missed = values(leo3, "llc_accesses", **of), values(leo3, "llc_misses", **of)
                calls = [values(leo3, f"{call}_llc_misses", **of) for call in ("send", "receive")]
                for size in missed:
                    assert 0 <= missed[size] <= accesses[size]
                    assert calls[0][size] + calls[1][size] == missed[size]


def test_what_is_read_without_a_call_is_what_the_caches_had(leo3: Profile) -> None:
    for place in ("shared-l3", "same-node", "network-1"):
        cold, warm = (
            values(leo3, "traverse", scenario="pollution", distance=place, side="sender", state=state)
            for state in ("base-invalid", "base-preloaded")
        )
        missed = values(leo3, "llc_misses", scenario="pollution", distance=place, side="sender", state="base-preloaded")
        assert all(cold[size] > warm[size] for size in cold) and set(missed.values()) == {0}


def test_a_receive_by_rdma_takes_the_message_out_of_the_caches(leo3: Profile) -> None:
    """S0.4 and S0.5: up to the eager limit received data is in the caches; past it a preloaded buffer is as good as
    none, at the receiver and not at the sender."""
    of = {"scenario": "pollution", "distance": "network-1"}
    states = ("preloaded", "base-preloaded", "base-invalid")
    for side, like in (("receiver", "base-invalid"), ("sender", "base-preloaded")):
        found = {state: values(leo3, "llc_misses", side=side, state=state, **of) for state in states}
        assert found["preloaded"][8192] == 0
        assert found["preloaded"][65536] == found[like][65536]


def test_pages_fault_once_each(tmp_path: Path) -> None:
    """And a second reading misses the TLB only where memory is larger than the TLB reaches."""
    profile = probe(tmp_path / "p", *QUICK, "--scenario", "pages", "--sizes", "64K,4M", on="origin-2000")
    page = load_machine("origin-2000").pages.page_bytes.value
    assert values(profile, "first_touch_faults", memory="private") == {s: s / page for s in (1 << 16, 1 << 22)}
    assert values(profile, "first_touch_faults", memory="private-huge") == {1 << 16: 1, 1 << 22: 2}
    assert set(values(profile, "traverse_faults").values()) == {0}
    assert set(profile.records["distance"]) == {None}


def test_pairs_on_linked_hubs_differ_by_routers(tmp_path: Path) -> None:
    """Does a message take longer with every router between the hubs of two cores of one node?"""
    distances = [place.distance for place in all_places(load_machine("origin-2000"))]
    assert distances == ["same-numa", "routers-1", "routers-2", "routers-3", "routers-4"]
    profile = probe(tmp_path / "p", *QUICK, "--scenario", "pingpong", "--sizes", "4K", on="origin-2000")
    times = [values(profile, "half_round_trip", state="reused", distance=one)[4096] for one in distances]
    assert times == sorted(times) and len(set(times)) == 5


def test_protocols_are_those_of_the_description(tmp_path: Path) -> None:
    options = [*QUICK, "--scenario", "stride", "--sizes", "2K", "--distance"]
    t3e = probe(tmp_path / "t3e", *options, "network-1", on="t3e-900")
    assert set(t3e.records["mode"]) == {"standard", "buffered", "synchronous"}
    of = {"stride": 16, "method": "datatype"}
    assert values(t3e, "half_round_trip", mode="standard", **of) == values(
        t3e, "half_round_trip", mode="buffered", **of
    )
    leo3 = probe(tmp_path / "leo3", *options, "same-node")
    assert set(leo3.records["mode"]) == {"standard"}


def test_load_is_of_those_who_are_left(tmp_path: Path) -> None:
    """Do idle ranks cost nothing, do more bytes of theirs never make a pair inside a node faster, and have two nodes
    alone no others?"""
    options = [*QUICK, "--scenario", "load", "--sizes", "4K"]
    profile = probe(tmp_path / "p", *options, "--distance", "shared-l3")
    times = values(profile, "half_round_trip")
    assert set(profile.records["load_bytes"]) == {0, 1024, 65536, 1 << 20} and times
    rows = profile.records.filter(pl.col("metric") == "half_round_trip").sort("load_bytes")
    assert rows["value"][0] <= rows["value"].min() * 1.01
    refused = in_process("probe", *options, "--on", "power5-redstorm", "--distance", "shared-l2", "-o", tmp_path / "q")
    assert refused.code not in (0, 130) and "two ranks beside the pair" in " ".join(refused.err.split())


@pytest.mark.parametrize("name", ["xeon-8470", "epyc-9755"])
def test_quick_is_quick_on_machines_of_a_hundred_cores_too(name: str) -> None:
    """Do all cases together move about as many bytes as on one of twelve? With requested sizes, is none left out?"""

    def cases(machine: DescribedMachine, sizes: tuple[int, ...] = ()) -> list[SimulationCase]:
        places = choose_places(machine, "quick", ())
        return cases_of_tier(machine, select_simulated_scenarios(()), places, "quick", sizes)[0]

    small, large = load_machine("leo3"), load_machine(name)
    bytes_of = [sum(case.estimated_work for case in cases(machine)) for machine in (small, large)]
    assert bytes_of[1] < 2 * bytes_of[0]
    simulated = [case.value_by_parameter for case in cases(large, (8, 64 << 20))]
    assert {one["size_bytes"] for one in simulated if one.get("operation") == "alltoall"} == {8, 64 << 20}
    assert {one["size_bytes"] for one in simulated if "variant" in one} == {64 << 20}, "8 B are no row of a stencil"


def test_filters_select_cases(tmp_path: Path) -> None:
    """Are the cases of a scenario restricted to the given values of parameters, and those of others left alone?"""
    found = probe(tmp_path / "p", *QUICK, "--scenario", "pingpong,stride", "--sizes", "64,4096", "--distance",
                  "same-node", "--filter", "pingpong:state=reused", "--filter", "pingpong:size_bytes=64")  # fmt: skip
    pingpong = found.records.filter(pl.col("scenario") == "pingpong")
    assert set(pingpong["state"]) == {"reused"} and set(pingpong["size_bytes"]) == {64}
    assert "stride" in set(found.records["scenario"])


# ---- what machine


def test_files_and_measured_profiles_are_machines_too(tmp_path: Path) -> None:
    options = [*QUICK, "--scenario", "pingpong", "--sizes", "64"]
    file = tmp_path / "mine.toml"
    shutil.copy(Path(__file__).parents[2] / "machines" / "leo3.toml", file)
    text = file.read_text().replace('name = "leo3"', 'name = "mine"')
    file.write_text(text)
    assert probe(tmp_path / "a", *options, on=file).run.simulated == "mine"
    measured = load(MEASURED)
    profile = probe(tmp_path / "b", *options, on=MEASURED)
    assert profile.machine.name == measured.machine.name and profile.machine.cores == measured.machine.cores
    missing = profile.records.filter(pl.col("value").is_null())
    assert set(missing["metric"]) == {"dtlb_misses", "page_faults"} and missing["note"].str.contains("TLB").all()
    assert to_toml(load_machine(str(MEASURED)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--on", "leo4"], "no described machine 'leo4'"),
        (["--on", "leo3", "--scenario", "pingpang"], "no simulated scenario 'pingpang'"),
        (["--on", "leo3", "--distance", "shared-l2"], "leo3 has no distance 'shared-l2'"),
        (["--on", "t3e-900", "--distance", "network-99"], "t3e-900 has no distance 'network-99'"),
        (["--on", "leo3", "--sizes", "0"], "--sizes"),
        (["--on", "leo3", "--mpi", "mpich"], "--mpi is for measuring"),
        (["--on", "leo3", "--scenario", "stride", "--filter", "pingpong:state=reused"], "not among what is simulated"),
        (["--on", "leo3", "--filter", "pingpong:stat=reused"], "did you mean 'state'"),
        (["--on", "leo3", "--filter", "pingpong:state=new"], "no case of pingpong has state new"),
        (["--distance", "same-node"], "--distance is for simulating"),
        (["--memory-slowdown", "2"], "--memory-slowdown is for simulating"),
        (["--on", "leo3", "--policy", "payload-l4"], "Did you mean 'payload-l3'"),
        (["--on", "leo3", "--memory-slowdown", "0.5"], "memory_slowdown: from 1"),
        (["--on", "leo3", "--nodes", "1000000", "--scenario", "collective"], "nodes: from 1 to"),
        (["--on", "leo3", "--nodes", "4", "--scenario", "pingpong"], "--nodes is for scenarios of whole clusters"),
        (["--on", str(MEASURED), "--scenario", "pages"], "no TLB"),
        (["--on", "leo3", "--on", ""], "no described machine ''"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(options: list[str], says: str, tmp_path: Path) -> None:
    done = in_process("probe", "--quick", "-o", tmp_path / "p", *options)
    assert done.code not in (0, 130)
    assert says in " ".join(done.err.split()) and "Traceback" not in done.err
    assert not (tmp_path / "p").exists()


def test_a_simulated_profile_names_the_machine(leo3: Profile, tmp_path: Path) -> None:
    """However it was made, has it the machine as it was described, one topology and one MPI, so that `probe --on` and
    `simulate` take it, and `simulate` adds to it?"""
    assert load_machine(str(leo3.path)) == load_machine("leo3")
    out = tmp_path / "p"
    shutil.copytree(leo3.path, out)
    done = in_process("simulate", "bcast", "--on", leo3.path, "--nodes", "4", "--sizes", "4K", "--repetitions", "1",
                      "--policy", "memory", "--memory-slowdown", "1", "--jobs", "1", "--out", out)  # fmt: skip
    assert done.code == 0, done.err
    both = load(out)
    assert both.records.filter(pl.col("scenario") != "collective").height == leo3.records.height
    assert (out / "topology.xml").read_text() == (leo3.path / "topology.xml").read_text()
    assert (both.run.mpi, both.run.switch, both.run.skipped) == (leo3.run.mpi, leo3.run.switch, leo3.run.skipped)
    assert {s.name for s in both.run.scenario} == {"pingpong", "pollution", "collective"}


def test_every_scenario_has_policies_and_memory_speeds(tmp_path: Path) -> None:
    """Between nodes, does every policy give its own times and its own misses, at every memory speed slower than at the
    one before; within a node, where no NIC is used, only the memory's speed?"""
    options = [*QUICK, "--scenario", "pingpong,stencil", "--sizes", "8K", "--memory-slowdown", "1,7.5"]
    profile = probe(tmp_path / "p", *options, "--policy", "all", on="power5-redstorm")
    across = profile.records.filter((pl.col("distance") == "network-1") & (pl.col("state") == "modified"))
    inside = profile.records.filter(pl.col("distance") == "shared-l2")
    times = across.filter((pl.col("metric") == "receive") & (pl.col("side") == "receiver"))
    found = {(row["policy"], row["memory_slowdown"]): row["value"] for row in times.iter_rows(named=True)}
    assert {policy for policy, _ in found} >= {"memory", "header-l2", "payload-l3", "ddio"}
    assert all(found[policy, 7.5] > found[policy, 1] for policy, _ in found)
    assert found["header-payload", 7.5] < found["memory", 7.5]
    counts = across.filter((pl.col("unit") == "count") & (pl.col("metric") == "receive_llc_misses"))
    assert counts["memory_slowdown"].null_count() == counts.height and counts["policy"].null_count() == 0
    misses = dict(counts.filter(pl.col("side") == "receiver").select("policy", "value").iter_rows())
    assert misses["header-payload"] < misses["memory"]
    assert inside.height and inside["policy"].null_count() == inside.height
    assert set(inside["memory_slowdown"].drop_nulls()) == {1, 7.5}
    page = render_report(profile)
    assert "Savings by policy" in page


# ---- for people


def test_readers_see_that_it_is_simulated(leo3: Profile, tmp_path: Path) -> None:
    page = render_report(leo3)
    assert "Simulated: nothing on this page was measured" in page and "<h1>Simulated: " in page
    assert "nothing on this page was measured" not in render_report(load(MEASURED))
    assert "1 GiB" not in page, "nobody said how much memory there is"
    shown = in_process("show", leo3.path)
    assert shown.code == 0 and "simulated" in shown.out
    assert in_process("report", leo3.path, "-o", tmp_path / "r.html").code == 0
    compared = in_process("diff", leo3.path, MEASURED)
    assert compared.code in (0, 1) and "sim" in compared.out, compared.err


def test_findings_give_no_advice_about_a_real_mpi(leo3: Profile) -> None:
    """Do they advise nothing, since a simulated MPI has no control variables, and its machine no kernel?"""
    for finding in findings(leo3):
        for word in ("OMPI_", "MPIR_", "/sys/", "quiet machine", "nearfield probe"):
            assert word not in finding.text, finding.text


def test_an_unknown_scenario_lists_the_known_ones_once() -> None:
    with pytest.raises(UsageError, match="no simulated scenario 'protocol'") as refused:
        select_simulated_scenarios(("protocol",))
    assert refused.value.remedy and refused.value.remedy.count("pingpong") == 1
