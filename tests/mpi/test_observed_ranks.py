"""Does the trace of an MPI program say what its ranks did, and can it be simulated?"""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from mpi_program import PROGRAMS
from observed import build_ring, by_function, compile_with_mpi, observe_ranks, observe_ring, show
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.base.errors import ProfileError, UsageError
from nearfield.cli import app
from nearfield.mpi import Installation
from nearfield.profile import load, where
from nearfield.report.page import render_report

pytestmark = pytest.mark.turn(1)


SHARED_CORE = """
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(atoi(argv[1]), &one);
  if (sched_setaffinity(0, sizeof one, &one)) return 1;
  MPI_Barrier(MPI_COMM_WORLD);
  for (const clock_t begun = clock(); clock() - begun < CLOCKS_PER_SEC / 5;) continue;
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
"""


@pytest.mark.families
def test_time_without_a_core_is_recorded(installation: Installation, tmp_path, programs):
    """Does a trace tell that two ranks which compute on the same core had to wait for it?"""
    counted = Path("/proc/thread-self/schedstat")
    if not counted.exists() or counted.read_text().split()[2] == "0":
        pytest.skip("this system does not count it")
    source = tmp_path / "shared_core.c"
    source.write_text(SHARED_CORE)
    program = compile_with_mpi(installation, str(source), programs / "shared_core", "-O2")
    observe_ranks(installation, tmp_path, 2, program, min(os.sched_getaffinity(0)))
    delays = [rank["delayed_seconds"] for rank in show(tmp_path)]
    assert sum(delays) > 0.1  # each of them needs the core for 0.2 s, at the same time
    shown = CliRunner().invoke(app, ["observe", "show", str(tmp_path / "trace")]).output
    assert "no core" in shown


@pytest.mark.families
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_calls_and_lines_of_an_mpi_program(installation: Installation, tmp_path, programs, ranks):
    """Does the trace of an MPI program say which line called MPI, or called a wrapper that did, and what was sent?"""

    def line_of(text: str) -> dict[str, object]:
        source = PROGRAMS / "observed_ring.c"
        number = next(i for i, line in enumerate(source.read_text().splitlines(), 1) if text in line)
        return {"file": str(source), "number": number, "function": "main", "object": "", "offset": 0}

    done = observe_ring(installation, tmp_path, programs, ranks)
    assert f"sum {ranks * (4095 * 2048 + (ranks - 1) * 2048):.17g}" in done.stdout, done.stderr
    for rank in show(tmp_path):
        calls = {one["name"]: one for one in rank["calls"]}
        assert Path(calls["MPI_Sendrecv"]["line"]["file"]).name == "observed_ring.c"
        assert calls["MPI_Sendrecv"]["sent_bytes"] == calls["MPI_Sendrecv"]["received_bytes"] == 8 * 4096
        assert calls["MPI_Sendrecv"]["line"]["function"] == "main" and calls["MPI_Allreduce"]["sent_bytes"] == 8
        assert calls["MPI_Allreduce"]["line"] == line_of("all = my_MPI_Allreduce(sum)")  # not the line in the wrapper
        assert by_function(rank)["main"] >= 2 * 4096


@pytest.mark.families
def test_an_observed_program_is_simulated(installation: Installation, tmp_path, programs):
    """Does `simulate run` give the same digits on any number of threads, and say where the time goes?"""
    observe_ring(installation, tmp_path, programs, 2)

    options = ["--policy", "payload-l3", "--memory-slowdown", "1,5", "--nodes", "2", "--json"]
    words = ["simulate", "run", str(tmp_path / "trace"), *options]

    def simulated(*options: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*words, *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    first = simulated()
    assert simulated("--threads", "1") == first and simulated("--nodes", "1") != first
    base, other = first["time_ns"]
    assert first["policies"] == ["memory", "payload-l3"] and base != other
    assert base == sorted(base) and base[0] < base[-1]

    profile = tmp_path / "profile"
    assert simulated("-o", str(profile)) == first
    records = load(profile).records
    times = where(records, metric="time", policy="payload-l3")
    assert times["value"].to_list() == other
    parts = where(records, metric="time_in", policy="memory", memory_slowdown=1)
    assert sum(parts["value"]) == pytest.approx(sum(of[0][0] for of in first["rank_times_ns"]) / 2)
    assert set(where(records, call="MPI_Sendrecv")["line"]) == {"observed_ring.c:21 (main)"}
    page = render_report(load(profile))
    assert all(title in page for title in ("The program by policy", "Where the time goes", "When the ranks are in MPI"))
    assert isinstance(CliRunner().invoke(app, [*words, "-o", str(profile)]).exception, ProfileError)


def test_a_trace_is_simulated_for_each_value_of_a_key(tmp_path, programs):
    """Does --sweep give the times of `simulate run` on a machine with each value, and does it take a trace only?"""
    observe_ring(mpi.find_usable_mpis()[0], tmp_path, programs, 2)
    words = ["simulate", "run", str(tmp_path / "trace"), "--on", "epyc-9755", "--nodes", "2", "--policy", "payload-l3"]
    key = "memory.latency_ns"
    done = CliRunner().invoke(app, [*words, "--sweep", f"{key}=115,230", "--json"])
    assert done.exit_code == 0, done.output
    first, second = json.loads(done.stdout)["sweep"]
    assert (first["values"], second["values"]) == ({key: 115.0}, {key: 230.0})
    alone = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert first["time_ns"] == alone["time_ns"] and second["time_ns"][0][0] > alone["time_ns"][0][0]
    table = CliRunner().invoke(app, [*words, "--sweep", f"{key}=115,230"]).stdout
    assert key in table and "payload-l3" in table and "of the first" in table
    refused = CliRunner().invoke(app, [*words, "--sweep", f"{key}=115,230", "--goal", str(tmp_path / "a.goal")])
    assert isinstance(refused.exception, UsageError) and "--sweep cannot be used with --goal" in str(refused.exception)
    refused = CliRunner().invoke(app, [*words[:-1], "ddio:ways=1..8"])
    assert isinstance(refused.exception, UsageError) and "at most 7 others" in refused.exception.message


def test_a_trace_has_error_bars(tmp_path, programs):
    """Are times and savings within their error bars, and do these follow from the times that --sweep gives?"""
    observe_ring(mpi.find_usable_mpis()[0], tmp_path, programs, 2)
    words = ["simulate", "run", str(tmp_path / "trace"), "--on", "leo3", "--nodes", "2", "--policy", "payload-l3"]
    done = CliRunner().invoke(app, [*words, "--sensitivity", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    bar = found["sensitivity"]["times_ns"][0]
    assert bar["low"] < found["time_ns"][0][0] == bar["value"] < bar["high"]
    saved = found["sensitivity"]["saved"]["payload-l3"][0]
    assert saved["low"] <= saved["value"] <= saved["high"]
    first = found["sensitivity"]["influences"][0]
    swept = CliRunner().invoke(app, [*words, "--sweep", f"{first['key']}={first['other']}", "--json"])
    (one,) = json.loads(swept.stdout)["sweep"]
    assert one["time_ns"][0][0] / bar["value"] == pytest.approx(first["time_factor"])
    table = CliRunner().invoke(app, [*words, "--sensitivity"]).stdout
    assert first["key"] in table and "may be" in table


def test_received_data_lies_until_it_is_read(tmp_path, programs):
    """Does --first-reads say for each receiving line how long its data lies, without another digit? The ring's
    program reads its message, and only one rank prints the sum."""
    observe_ring(mpi.find_usable_mpis()[0], tmp_path, programs, 2)
    words = ["simulate", "run", str(tmp_path / "trace"), "--nodes", "2", "--policy", "payload-l3"]
    done = CliRunner().invoke(app, [*words, "--first-reads", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    received = {(one["name"], one["line"]): one for one in found.pop("received")}
    assert found.pop("mean_unread_bytes") >= 0
    assert found == json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    (ring,) = (one for (_, line), one in received.items() if line == "observed_ring.c:21 (main)")
    assert (ring["messages"], ring["bytes"], ring["read_bytes"]) == (2, 2 * 4096 * 8, 2 * 4096 * 8)
    assert 0 < ring["byte_ns_until_read"] / ring["bytes"] < found["time_ns"][0][0]
    table = CliRunner().invoke(app, [*words, "--first-reads"]).stdout
    assert "until read" in table and "observed_ring.c:21" in table
    refused = CliRunner().invoke(app, [*words, "--first-reads", "--repeat", "2"])
    assert isinstance(refused.exception, UsageError) and "with --first-reads" in str(refused.exception)
    refused = CliRunner().invoke(app, [*words, "--first-reads", "--region", "pcontrol"])
    assert isinstance(refused.exception, UsageError) and "whole program" in str(refused.exception)


def test_repeated_simulations_give_means_with_intervals(tmp_path, programs):
    """Do ranks that start at other times take another time, always the same for the same number of repeats, and are
    time and saving the means of these with Student's intervals? Is a single simulation one of ranks that start
    together?"""
    observe_ring(mpi.find_usable_mpis()[0], tmp_path, programs, 2)
    words = ["simulate", "run", str(tmp_path / "trace"), "--nodes", "1", "--policy", "payload-l3"]

    def simulated(*options: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*words, *options, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    together, four = simulated(), simulated("--repeat", "4")
    assert simulated("--repeat", "1") == together and "replay_times_ns" not in together
    assert simulated("--repeat", "4", "--threads", "1") == four
    times = [of[0][0] for of in four["replay_times_ns"]]
    assert len(set(times)) > 1 and simulated("--repeat", "5")["replay_times_ns"][:4] == four["replay_times_ns"]
    mean, half = fmean(times), 3.182 * stdev(times) / 2  # Student's t with three degrees of freedom
    assert four["time_ns"][0][0] == pytest.approx(mean)
    assert four["time_interval_ns"][0][0] == pytest.approx([mean - half, mean + half], abs=0.012 * half)
    savings = [1 - of[1][0] / of[0][0] for of in four["replay_times_ns"]]
    assert four["saved"][1][0][0] == pytest.approx(fmean(savings))
    assert four["accesses"] == together["accesses"]

    table = CliRunner().invoke(app, [*words, "--repeat", "4"]).stdout
    assert "means of 4 simulations" in table and "simulated 4 times" in table
    assert "--repeat 8" in CliRunner().invoke(app, words).stdout
    refused = CliRunner().invoke(app, [*words, "--repeat", "2", "-o", str(tmp_path / "profile")])
    assert isinstance(refused.exception, UsageError) and "--repeat cannot be used with --out" in str(refused.exception)


def test_repeats_separate_changes_from_scatter(tmp_path, programs):
    """Do --sweep and --sensitivity compare means, and leave out what may be scatter? Slower memory is slower, but a
    NIC that nothing uses changes no digit."""
    observe_ring(mpi.find_usable_mpis()[0], tmp_path, programs, 2)
    words = ["simulate", "run", str(tmp_path / "trace"), "--on", "leo3", "--nodes", "1", "--policy", "memory"]
    sweep = ["--sweep", "memory.latency_ns=80,81,400", "--repeat", "4"]
    done = CliRunner().invoke(app, [*words, *sweep, "--json"])
    assert done.exit_code == 0, done.output
    first, _, slow = json.loads(done.stdout)["sweep"]
    assert slow["time_interval_ns"][0][0][0] > first["time_interval_ns"][0][0][1]
    table = list(csv.DictReader(io.StringIO(CliRunner().invoke(app, [*words, *sweep, "--csv"]).stdout)))
    assert [float(row["time_low_ns"]) for row in table[::2]] == [
        pytest.approx(one["time_interval_ns"][0][0][0]) for one in (first, slow)
    ]
    rows = [line.split() for line in CliRunner().invoke(app, [*words, *sweep]).stdout.splitlines()]
    (row,) = (row for row in rows if row[:1] == ["400"])
    low, _, high = row[-3:]
    assert 1 < float(low.strip("(")) < float(high.strip(")"))

    done = CliRunner().invoke(app, [*words, "--sensitivity", "--repeat", "4", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    bars, undecided = found["sensitivity"], found["sensitivity"]["undecided_variations"]
    bar, (low_ns, high_ns) = bars["times_ns"][0], found["time_interval_ns"][0][0]
    assert bar["low"] < low_ns < found["time_ns"][0][0] == bar["value"] < high_ns < bar["high"]
    assert not any(one["key"].startswith(("nic.", "network.")) for one in bars["influences"])
    assert all(one["time_factor"] != 1 for one in bars["influences"]) and undecided > 0


def test_an_interrupted_sweep_prints_what_is_finished(tmp_path, programs):
    """Does Ctrl-C print the values that are finished, and end with its own exit code?"""
    observe_ring(mpi.find_usable_mpis()[0], tmp_path, programs, 2)
    words = [sys.executable, "-m", "nearfield", "simulate", "run", str(tmp_path / "trace"), "--nodes", "1"]
    sweep = ["--sweep", "memory.latency_ns=80..400:200", "--repeat", "100", "--json"]
    running = subprocess.Popen([*words, *sweep], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if "accesses" in line:  # progress, so simulations are running
            break
    try:
        running.communicate(timeout=3)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGINT)
    out, error = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGINT, error
    assert "of 20000 simulations were finished" in error and "Traceback" not in error
    finished = json.loads(out)["sweep"] if out else []
    assert 0 < len(finished) < 200 and all(len(one["replay_times_ns"]) == 100 for one in finished)


@pytest.mark.parametrize("outcomes", [(), ("--replay-outcomes",)], ids=["live", "replayed"])
def test_a_program_does_not_print_into_data(outcomes, programs):
    """Is standard output JSON and nothing else if a command is simulated, and what the program prints still to be
    seen?"""
    inst = mpi.find_usable_mpis()[0]
    command, environment = mpi.launch_command(inst, [str(build_ring(inst, programs))], 2, oversubscribe=True)
    words = [sys.executable, "-m", "nearfield", "simulate", "run", *outcomes, "--nodes", "2", "--json", "--", *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ranks"] == 2 and "sum " in done.stderr
