"""Does `nearfield simulate` simulate what is requested, store it, and say what is wrong with a request?"""

import csv
import io
import json
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from small_simulations import SMALL, add_records, request, rows_of, run
from typer.testing import CliRunner

from nearfield._native import simulation
from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.progress import ignore_progress
from nearfield.cli import app
from nearfield.cli.axes import parse_policies, parse_sizes
from nearfield.machine import load_machine
from nearfield.machine.frequency import scale_to_frequency
from nearfield.machine.sweep import parse_sweep
from nearfield.measure.sim import pool
from nearfield.measure.sim.axes import policy_sort_key
from nearfield.measure.sim.cases import SimulationAxes, SimulationCase, collectives
from nearfield.measure.sim.operations import savings_of, swept_cases
from nearfield.measure.sim.places import ALL_CORES, topology_of
from nearfield.measure.sim.session import add_to_profile
from nearfield.measure.sim.usual import default_num_nodes, default_ranks_per_node
from nearfield.profile import from_rows, load
from nearfield.profile.pivot import grids_of_places
from nearfield.report.findings import findings as found_in


def test_a_table_and_the_same_as_json():
    """Does every size, policy and memory speed appear, with the base's time and savings that are of its records?"""
    options = ["bcast", *SMALL, "--policy", "payload-l3,header-l2", "--memory-slowdown", "1,7.5"]
    table, found = run(*options), json.loads(run(*options, "--json"))
    assert "4 KiB" in table and "16 KiB" in table and "payload-l3" in table
    assert "others: the share of it that they save (+) or lose (-)" in table
    assert [(case["size_bytes"], case["slowdown"]) for case in found["cases"]] == [
        (4096, 1.0), (4096, 7.5), (16384, 1.0), (16384, 7.5),
    ]  # fmt: skip
    mean = {
        (row["policy"], row["memory_slowdown"]): row["value"]
        for row in found["records"]
        if row["metric"] == "mean_time" and row["size_bytes"] == 16384
    }
    case = found["cases"][3]
    assert case["base_ns"] == mean["memory", 7.5]
    assert case["by_policy"]["payload-l3"] == pytest.approx(1 - mean["payload-l3", 7.5] / mean["memory", 7.5])
    assert case["base_ns"] > found["cases"][2]["base_ns"]


def test_one_node_has_no_policies():
    """Is a collective on one node, which has no NIC, simulated with the base policy alone, and printed in each form?"""
    words = ["simulate", "allreduce", "--on", "epyc-9755", "--nodes", "1", "--ranks-per-node", "2", "--sizes", "1K"]
    table, as_json = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--json"]))
    assert table.exit_code == as_json.exit_code == 0
    assert "nodes: 1, ranks: 2" in table.output and "%" not in table.output
    (case,) = json.loads(as_json.stdout)["cases"]
    assert case["by_policy"] == {} and case["base_ns"] > 0


def test_defaults_fit_the_machine_and_are_printed():
    """Is there a rank on each core and memory as described by default, of powers of two for applications, and is it
    said what was assumed, with what changes it?"""
    result = CliRunner().invoke(app, ["simulate", "bcast", "--on", "leo3", "--sizes", "64", "--repetitions", "1",
                                      "--jobs", "1", "--policy", "memory"])  # fmt: skip
    assert "nodes: 8, ranks: 96" in result.output
    assert "assumed: 8 nodes (--nodes) and 12 ranks on each node, one per core (--ranks-per-node)" in result.output
    found = {name: default_ranks_per_node(load_machine(name), ["fft"]) for name in ("grace", "epyc-9755", "t3e-900")}
    assert found == {"grace": 64, "epyc-9755": 128, "t3e-900": 1}
    assert (
        default_num_nodes(load_machine("epyc-9755"), 128) == 2 and default_num_nodes(load_machine("t3e-900"), 1) == 40
    )


def test_a_sweep_gives_what_files_of_these_values_give(tmp_path):
    """Is each case of a sweep that of a machine whose file has this value, with a column of records for the key, also
    when it is add_records to a profile; and is one of the value that the file says the plain one?"""
    operations = request(sizes=(4096,), policies=("memory", "payload-l3"))
    sweeps = [parse_sweep("memory.latency_ns=139.4,0.3us", operations.machine)]
    out = add_to_profile(
        operations.machine,
        swept_cases(operations, sweeps),
        pool.make_runner_on_cores(1),
        ignore_progress,
        tmp_path / "swept",
    )
    plain, swept = savings_of(rows_of(operations)), savings_of(out.rows, sweeps)
    assert [one.swept["memory.latency_ns"] for one in swept] == [139.4, 300.0]
    assert (swept[0].base_ns, swept[0].by_policy) == (plain[0].base_ns, plain[0].by_policy)
    slower = operations.machine.model_copy(deep=True)
    slower.memory.latency_ns.value = 300.0
    assert swept[1].base_ns == savings_of(rows_of(request(machine=slower, sizes=(4096,))))[0].base_ns > plain[0].base_ns
    records = add_records(operations, tmp_path / "swept").rows and load(tmp_path / "swept").records
    assert records["machine_memory_latency_ns"].unique().sort().to_list() == [None, 139.4, 300.0]
    again = add_to_profile(
        operations.machine, swept_cases(operations, sweeps), stopped_at_once, ignore_progress, tmp_path / "swept"
    )
    assert again.is_complete and savings_of(again.rows, sweeps) == swept  # nothing was left to simulate


def test_a_report_separates_sweeps(tmp_path):
    """Has the page of a profile with a sweep a plot over the swept key, and are its findings those of the machine as
    its file describes it?"""
    operations = request(sizes=(4096,), policies=("memory", "payload-l3"))
    sweeps = [parse_sweep("memory.latency_ns=139.4,300", operations.machine)]
    add_records(operations, tmp_path / "both")
    before = found_in(load(tmp_path / "both"))
    assert before and "Sweeps" not in page_of(tmp_path / "both")
    add_to_profile(
        operations.machine,
        swept_cases(operations, sweeps),
        pool.make_runner_on_cores(1),
        ignore_progress,
        tmp_path / "both",
    )
    assert (
        load(tmp_path / "both").records.height
        > 2 * load(tmp_path / "both").records["machine_memory_latency_ns"].null_count()
    )
    assert found_in(load(tmp_path / "both")) == before
    assert "Time by memory latency ns" in page_of(tmp_path / "both")


def page_of(folder):
    page = folder.with_suffix(".html")
    assert CliRunner().invoke(app, ["report", str(folder), "--out", str(page)]).exit_code == 0
    return page.read_text(encoding="utf-8")


def stopped_at_once(cases):
    """A runner for what must not be simulated."""
    assert cases == []
    return iter(())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("memory.latency_ns=80..200", (80, 110, 140, 170, 200)),
        ("memory.latency_ns=80..200:3", (80, 140, 200)),
        ("memory.latency_ns=80ns, 0.12us", (80, 120)),
        ("cache[2].size_bytes=9MiB..36MiB", (9 << 20, 18 << 20, 36 << 20)),
        ("core.outstanding_misses=2..12", (2, 4, 8, 12)),
        ("core.clock_ghz=900MHz,2", (0.9, 2.0)),
        ("cache[0].replacement=lru,random", ("lru", "random")),
    ],
)
def test_ranges_and_units_of_a_sweep(text, values):
    """Are ends of a range in it, do whole numbers double, and are units taken off?"""
    found = parse_sweep(text, load_machine("power5-redstorm")).values
    assert found == pytest.approx(values) if isinstance(values[0], (int, float)) else found == values


def test_csv_is_a_table_for_plots():
    """Has it one header over all tables, a row for each policy, and every number in full?"""
    options = ["bcast", "allgather", *SMALL, "--policy", "payload-l3", "--sweep", "memory.latency_ns=150,300"]
    rows = list(csv.DictReader(io.StringIO(run(*options, "--csv"))))
    found = json.loads(run(*options, "--json"))["cases"]
    assert list(rows[0]) == ["operation", "nodes", "ranks", "size_bytes", "memory.latency_ns", "memory_slowdown",
                             "policy", "mean_time_ns", "saved"]  # fmt: skip
    assert len(rows) == 2 * len(found) == 16 and {row["operation"] for row in rows} == {"bcast", "allgather"}
    assert [float(row["mean_time_ns"]) for row in rows if row["policy"] == "memory"] == [
        one["base_ns"] for one in found
    ]
    assert [float(r["saved"]) for r in rows if r["policy"] != "memory"] == [o["by_policy"]["payload-l3"] for o in found]


def test_runs_are_deterministic():
    """Is it the same to the last digit twice, in this process and in others?"""
    assert rows_of(request(), jobs=1) == rows_of(request(), jobs=2)


def test_what_counts_say():
    """Do injected lines spare the NICs' and cores' reads of DRAM, and does the base inject none?"""
    rows = rows_of(request(sizes=(65536,)))
    counts = {(row["policy"], row["metric"]): row["value"] for row in rows}
    assert counts["memory", "l3_injected"] == 0 < counts["payload-l3", "l3_injected"]
    assert counts["payload-l3", "dram_dma_reads"] < counts["memory", "dram_dma_reads"]
    assert counts["payload-l3", "network_bytes"] == counts["memory", "network_bytes"]


def test_the_profile_is_like_a_live_one(tmp_path):
    """Do show, diff and report take it, with the columns of the live scenario?"""
    out, other = str(tmp_path / "profile"), str(tmp_path / "other")
    for folder, nodes in ((out, "8"), (other, "8")):
        run("bcast", "allgather", "--nodes", nodes, "--sizes", "4K..16K", "--policy", "payload-l3", "--memory-slowdown",
            "1,5", "--repetitions", "2", "--jobs", "1", "--out", folder)  # fmt: skip
    records = load(out).records
    assert {"operation", "size_bytes", "ranks", "nodes", "policy", "memory_slowdown"} <= set(records.columns)
    assert records["source"].unique().to_list() == ["sim"]
    assert records.filter(pl.col("metric") == "time")["low"].null_count() == 0
    for verb in (["show", out], ["diff", out, other], ["report", out, "--out", str(tmp_path / "page.html")]):
        result = CliRunner().invoke(app, verb)
        assert result.exit_code == 0, (verb, result.output, result.exception)


def test_a_profile_of_another_machine_is_not_mixed_in(tmp_path):
    """Is it refused to add to a profile of a machine that is not the same, or to one that was measured?"""
    machine = load_machine("power5-redstorm")
    add_records(request(sizes=(64,)), tmp_path / "profile")
    assert load_machine(str(tmp_path / "profile")) == machine  # which a simulated profile keeps
    faster = machine.model_copy(deep=True)
    faster.network.latency_ns.value = 1.0
    with pytest.raises(ProfileError, match="another machine"):
        add_records(request(machine=faster), tmp_path / "profile")
    live = Path(__file__).parents[1] / "data" / "epyc-vm-quiet"
    with pytest.raises(ProfileError, match="not simulated"):
        add_records(request(), live)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["bcats"], "did you mean 'bcast'"),
        (["bcast", "--policy", "payload-l4"], "did you mean 'payload-l3'"),
        (["bcast", "--policy", "ddio:way=2"], "'ways'"),
        (["bcast", "--policy", "ddio:ways=0"], "from 1 to"),
        (["bcast", "--policy", "ddio:ways=99"], "the last-level cache of machine"),
        (["bcast", "--on", "power6-redstorm"], "did you mean 'power5-redstorm'"),
        (["bcast", "--on", "tigerton", "--nodes", "2"], "from 1 to 1"),
        (
            ["bcast", "--on", "tigerton", "--ranks-per-node", "2", "--policy", "payload-l3"],
            "these would work",
        ),
        (["bcast", "--on", "blues", "--ranks-per-node", "1"], "a collective needs at least two ranks"),
        (["bcast", "--nodes", "300"], "from 1 to 256"),
        (["bcast", "--nodes", "8,x"], "not a number of nodes"),
        (["bcast", "--ranks-per-node", "3"], "from 1 to 2"),
        (["bcast", "--memory-slowdown", "0.5"], "from 1 to 1000"),
        (["bcast", "--memory-slowdown", "nan"], "not a factor"),
        (["bcast", "--sizes", "4M..1K"], "not a range"),
        (["bcast", "--sizes", "1KB"], "may mean powers"),
        (["bcast", "--sizes", "4G"], "an MPI count"),
        (["bcast", "--sizes", "1K,,2K"], "between two commas"),
        (["ampg"], "did you mean 'amg'"),
        (["amg", "--nodes", "12", "--ranks-per-node", "1"], "multiples of 8"),
        (["fft", "--nodes", "8", "--sizes", "60000"], "powers of two"),
        (["bcast", "--frequency", "1000"], "no frequency"),
        (["bcast", "--sweep", "memory.latency=80..200"], "did you mean 'memory.latency_ns'"),
        (["bcast", "--sweep", "memory.latency_ns"], "there is no range"),
        (["bcast", "--sweep", "memory.latency_ns=200..80"], "not a range"),
        (["bcast", "--sweep", "memory.latency_ns=80..200:1"], "not a range"),
        (["bcast", "--sweep", "memory.latency_ns=80parsec"], "ns, us, ms, s"),
        (["bcast", "--sweep", "memory.latency_ns=1"], "the last cache takes"),
        (["bcast", "--sweep", "cache[2].size_bytes=1KB"], "may mean powers"),
        (["bcast", "--sweep", "core.outstanding_misses=2.5"], "not a whole number"),
        (["bcast", "--sweep", "cache[0].replacement=lur"], "did you mean 'lru'"),
        ([], "no collective"),
    ],
)
def test_bad_input_is_refused_with_what_would_be_right(options, says):
    """Is the nearest valid choice named, before anything is simulated?"""
    with pytest.raises(UsageError) as refusal:
        run(*options, "--repetitions", "1")
    assert says.lower() in str(refusal.value).lower()


def test_policies_need_their_cache_level(tmp_path):
    """On a machine without an L3, is a policy that injects there refused with those that work, and left out of all?"""
    machine = load_machine("power5-redstorm").model_copy(deep=True)
    del machine.cache[2]
    with pytest.raises(UsageError, match="header-l2") as refusal:
        request(machine=machine, policies=("payload-l3",))
    assert "2" in refusal.value.message
    every = request(machine=machine, policies=()).policies
    assert "header-l2" in every and "payload-l3" not in every and every[0] == "memory"


def test_more_policies_and_speeds_than_one_run_carries():
    """Are they spread over several runs, each with the base, so that every one appears once?"""
    ways = tuple(f"ddio:ways={n}" for n in range(1, 10))
    operations = request(sizes=(64,), policies=ways, slowdowns=(1.0, 2.0, 3.0, 4.0, 5.0))
    cases = operations.cases()
    assert all(len(case.axes.policies) <= simulation.max_policies and len(case.axes.slowdowns) <= 4 for case in cases)
    found = savings_of(rows_of(operations))
    assert [one.slowdown for one in found] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert all(set(one.by_policy) == set(ways) for one in found)


def test_options_are_read():
    """Are sizes read as ranges and lists, policies whose parameters have commas, and sizes of the whole buffer?"""
    assert parse_sizes("1K..5K,12K,64") == [64, 1024, 2048, 4096, 5120, 12288]
    assert parse_policies("ddio:ways=2,adaptive:a=1,b=2,memory") == ("ddio:ways=2", "adaptive:a=1,b=2", "memory")
    assert parse_policies("ddio,all") == ("all",)
    whole = request(names=("bcast", "allgather", "barrier"), sizes=(4096,), uses_total_sizes=True)
    found = [case.value_by_parameter for case in whole.cases()]
    assert [(values["operation"], values["size_bytes"]) for values in found] == [
        ("bcast", 4096), ("allgather", 512), ("barrier", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["power5-redstorm", "leo3", "vsc2", "epyc-9755", "t3e-900"])
def test_every_machine_has_a_topology(name):
    """Has the node's topology, for the report, as many cores as the machine says?"""
    machine = load_machine(name)
    assert len(topology_of(machine).cores) == machine.cores.value


def test_applications_gain_where_s4_says():
    """S4.2, S4.4, S4.6 on 8 nodes: does AMG gain from headers and FFT from payload, the more the slower memory is, and
    are there fewer polls with slow memory, unless events are in a cache?"""
    options = [
        "--nodes",
        "8",
        "--policy",
        "header-l2,payload-l3",
        "--memory-slowdown",
        "1,7.5",
        "--jobs",
        "1",
        "--json",
    ]
    found = json.loads(run("amg", *options))
    small, large = (case["by_policy"] for case in found["cases"])
    assert small["header-l2"] < large["header-l2"] > 0.1 and abs(large["payload-l3"]) < 0.01
    polls = {(r["policy"], r["memory_slowdown"]): r["value"] for r in found["records"] if r["metric"] == "nic_polls"}
    assert polls["memory", 7.5] < 0.9 * polls["memory", 1]
    assert polls["header-l2", 7.5] > 0.95 * polls["header-l2", 1]
    found = json.loads(run("fft", *options, "--sizes", "64K"))
    assert {record["scenario"] for record in found["records"]} == {"application"}
    small, large = (case["by_policy"] for case in found["cases"])
    assert small["payload-l3"] < large["payload-l3"] > large["header-l2"]


@pytest.mark.parametrize(("name", "size", "max_difference"), [("amg", 384, 0.02), ("fft", 64 << 10, 0.1)])
def test_one_run_is_near_independent_runs(name: str, size: int, max_difference: float) -> None:
    """On 8 nodes, how far is a run of two policies at two memory speeds from one run of each? The times of AMG are
    held under 2 %, and those of FFT under 10 %: all its messages compete for NICs at once. Neither can be held under
    1 %, since the first policy sets the order in which messages leave, and that decides who waits for whom
    (docs/explanation/simulator.md tells what that means)."""
    machine = load_machine("power5-redstorm")
    policies, slowdowns = ("memory", "header-payload"), (1.0, 7.5)

    def times(*axes: SimulationAxes) -> dict[tuple[str, str], float]:
        given = (("operation", name), ("size_bytes", size), ("ranks", 8), ("nodes", 8))
        rows = [row for one in axes for row in SimulationCase(machine, "application", ALL_CORES, given, one).run()]
        return {(r["policy"], r["memory_slowdown"]): r["value"] for r in rows if r["metric"] == "time"}

    together = times(SimulationAxes(policies, slowdowns))
    separate = times(*(SimulationAxes((policy,), (slowdown,)) for policy in policies for slowdown in slowdowns))
    operations = request(
        names=(name,), sizes=(size,), policies=policies, slowdowns=slowdowns, uses_independent_runs=True, repetitions=1
    )
    assert [case.axes for case in operations.cases()] == [
        SimulationAxes((policy,), slowdowns, 1) for policy in policies
    ]
    assert len(together) == len(separate) == 4 and together["memory", 1] == separate["memory", 1]
    assert max(abs(together[key] / separate[key] - 1) for key in separate) < max_difference


def test_usual_sizes_and_repetitions():
    """Does each operation have its usual sizes and repetitions by default?"""
    operations = request(names=("bcast", "amg", "fft"), sizes=(), repetitions=None)
    cases = [
        (case.value_by_parameter["operation"], case.value_by_parameter["size_bytes"], case.repetitions)
        for case in operations.cases()
    ]
    assert cases[0] == ("bcast", 1024, 7) and cases[10] == ("bcast", 1 << 20, 7)
    assert cases[11:] == [("amg", 384, 1), ("fft", 65536, 1), ("fft", 4194304, 1)]


def test_frequency_keeps_cycles():
    """At half the frequency, do memory and the library take the same cycles, and NIC and network the same time?"""
    machine = load_machine("power5-redstorm")
    slow = scale_to_frequency(machine, machine.core.clock_ghz.value / 2)
    assert slow.memory.latency_ns.value == pytest.approx(2 * machine.memory.latency_ns.value)
    assert slow.memory.gb_per_s.value == pytest.approx(machine.memory.gb_per_s.value / 2)
    assert slow.messaging.send_ns.value == pytest.approx(2 * machine.messaging.send_ns.value)
    assert (slow.nic, slow.network) == (machine.nic, machine.network)
    assert machine == load_machine("power5-redstorm")
    assert run("bcast", *SMALL, "--frequency", "0.825") != run("bcast", *SMALL)


def test_every_collective_on_every_policy():
    """Does each of the list run where two ranks share a node, too?"""
    names, policies = tuple(collectives()), [policy.name for policy in simulation.policies()]
    operations = request(names=names, sizes=(3000,), nodes=(3,), ranks_per_node=2, policies=(), slowdowns=(1.0, 7.5))
    times = {(r["operation"], r["policy"], r["memory_slowdown"]): r["value"]
             for r in rows_of(operations) if r["metric"] == "time"}  # fmt: skip
    assert set(times) == set(product(names, policies, (1, 7.5)))
    assert all(times[name, policy, 1] <= times[name, policy, 7.5] for name in names for policy in policies)


def test_policies_stand_in_the_order_of_their_list() -> None:
    """Is the base first, and are others not by name, in tables of savings and in those of `show`?"""
    wanted = ["memory", "header-l2", "payload-l3", "ddio:ways=1", "ddio:ways=4", "adaptive"]
    assert sorted(set(wanted), key=policy_sort_key) == wanted
    rows = [
        {"operation": "bcast", "nodes": 2, "ranks": 2, "size_bytes": 8, "memory_slowdown": 1.0, "policy": policy,
         "scenario": "collective", "metric": "mean_time", "unit": "ns", "value": 5.0, "n": 1, "stable": True,
         "source": "sim", "low": 5.0, "high": 5.0}
        for policy in wanted
    ]  # fmt: skip
    assert list(savings_of(rows[::-1])[0].by_policy) == wanted[1:]
    several = [{**row, "memory_slowdown": slowdown} for slowdown in (1.0, 7.5) for row in rows]
    (grid, *_) = grids_of_places(from_rows(several))
    assert [row[0] for row in grid.rows] == wanted or grid.columns == wanted


def test_error_bars_are_those_of_sweeps() -> None:
    """Does --sensitivity give what --sweep gives for single values, and do results lie inside of their error bars?"""
    words = ["bcast", "--nodes", "2", "--ranks-per-node", "1", "--sizes", "4K", "--policy", "payload-l3", "--jobs", "1"]
    found = json.loads(run(*words, "--sensitivity", "--json"))
    (case,) = found["cases"]
    assert case["base_low_ns"] < case["base_ns"] < case["base_high_ns"]
    assert case["saved_low"] <= case["saved"] <= case["saved_high"]
    strongest = found["influences"][0]
    swept = json.loads(run(*words, "--sweep", f"{strongest['key']}={strongest['other']:g}", "--json"))
    assert swept["cases"][0]["base_ns"] / case["base_ns"] == pytest.approx(strongest["time_factor"])
    table = run(*words, "--sensitivity")
    assert strongest["key"] in table and "in quadrature" in table
    with pytest.raises(UsageError, match="exclude each other"):
        run(*words, "--sensitivity", "--sweep", "memory.latency_ns=80")
