"""Does `nearfield tune` find rules that hold, whatever happens meanwhile?

On a machine that other programs use, that nothing is decided is a right answer too: then there is no file of rules that
set nothing, and the tune can go on."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tuning import NEARFIELD, in_process, nearfield

from nearfield import mpi
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.base.topology import CORE_DISTANCES, Topology
from nearfield.mpi import Installation
from nearfield.rules.knobs import find_knobs
from nearfield.rules.schema import RuleTable, load_rules
from nearfield.tune.model import candidate_settings
from nearfield.tune.paired_benchmark import PairedBenchmark
from nearfield.tune.tuning import TuneRequest, Tuning

pytestmark = [pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")]
SHORT = ("--budget", "5", "--sizes", "8,16KiB,1MiB")


def is_decided(out: Path, code: int, words: str) -> bool:
    """Returns whether there are rules; otherwise that nothing is decided must be reported, and how to go on."""
    if code == 0:
        assert not out.with_name(f"{out.name}.trials").exists(), words
        return True
    assert code == NOT_DECIDED_EXIT_CODE and "not decided: " in words and f"tune --resume -o {out}" in words, words
    assert out.with_name(f"{out.name}.trials").exists() and not out.exists()
    return False


@pytest.mark.families
def test_rules_are_found(installation: Installation, tmp_path: Path) -> None:
    """With every MPI: are there rules, with parameters that gain or the reason for none, and a word for a person?"""
    out = tmp_path / "rules.toml"
    done = nearfield("tune", "--mpi", installation.name, *SHORT, "-o", out)
    if not is_decided(out, done.code, done.out + done.err):
        return
    rules = load_rules(out)
    next_line = done.err.splitlines()[-1].partition("next: ")[2]
    assert bool(next_line) == rules.has_any_setting
    if next_line:
        assert f"--rules {out}" in next_line, "it is not where `run` looks by itself"
        line = next_line.replace("mpirun ...", f"{installation.launcher} -n 1 echo ran")
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        assert "ran" in subprocess.check_output(["sh", "-c", line], text=True, cwd=tmp_path.parent, env=env)
    assert (rules.mpi.family, rules.mpi.version) == (installation.family, installation.version)
    assert rules.tried.measured >= 1
    for rule in rules.rule:
        assert bool(rule.parameters) != bool(rule.reason)
        assert rule.distance in done.out
        if rule.parameters:
            assert rule.gain and rule.c2c_latency_ns > 0
            assert {p.size_bytes for p in rule.point} == {8, 16 << 10, 1 << 20}


def test_ctrl_c_ends_at_once_and_the_best_so_far_can_be_saved(tmp_path: Path) -> None:
    """Is there no rules file after Ctrl-C, and a whole one after --confirm-best if what was found holds?"""
    out = tmp_path / "rules.toml"
    command = [*NEARFIELD, "tune", "--budget", "300", "--sizes", "8", "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert until_measured(out, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert "Traceback" not in err and (process.returncode, out.exists()) == (130, False), err
    done = nearfield("tune", "--resume", "--confirm-best", "-o", out)
    if done.code == NOT_DECIDED_EXIT_CODE:
        assert "not decided: the search was interrupted" in done.out and not out.exists()
    else:
        assert done.code == 0 and load_rules(out).rule, done.err


def until_measured(out: Path, process: subprocess.Popen) -> bool:
    """Waits for the first trial; whether there is one."""
    limit, file = time.monotonic() + 100, out.with_name(out.name + ".trials")
    while process.poll() is None and time.monotonic() < limit:
        if file.exists() and b'"trial"' in file.read_bytes():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.turn(1)
def test_a_killed_tune_goes_on(tmp_path: Path) -> None:
    """If nearfield itself is killed, does it go on with what it had measured, in the time that is left?"""
    out, file = tmp_path / "rules.toml", tmp_path / "rules.toml.trials"
    command = [*NEARFIELD, "tune", "--budget", "5", "--sizes", "8", "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_measured(out, process)
    finally:
        process.kill()
        process.wait()
    before = file.read_text()
    finished = [json.loads(line) for line in before.splitlines() if '"trial"' in line]
    assert finished and not out.exists()
    done = nearfield("tune", "--resume", "-o", out)
    if not is_decided(out, done.code, done.out + done.err):
        assert file.read_text().startswith(before)
        return
    rules = load_rules(out)
    assert rules.tried.measured + len(rules.tried.unfit) >= len(finished)
    assert shlex.join(command[command.index("tune") :]) in rules.command, "it is the first command's work"


def test_a_folder_that_cannot_be_written_is_reported_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path, tmp_path / "file" / "rules.toml"):
        done = in_process("tune", "-o", out)
        assert done.code in (2, 4) and str(out) in done.words
        assert "searching" not in done.words


@pytest.mark.turn(0)
def test_memory_is_bounded(tmp_path: Path) -> None:
    """Does a small bound keep every setting that needs more from being tried or chosen?"""
    out = tmp_path / "rules.toml"
    done = nearfield("tune", "--memory", "1MiB", *SHORT, "-o", out)
    if not is_decided(out, done.code, done.out + done.err):
        return
    rules = load_rules(out)
    stock = rules.find_knob_file().shared_memory_bytes({}, 2)
    assert all((rule.memory_per_rank_bytes or 0) <= stock for rule in rules.rule)


@pytest.mark.families
def test_a_rule_is_measured_at_other_distances(installation: Installation) -> None:
    """Is what a rule does at another distance measured there? (The pair is the only one that this machine has.)"""
    topology = Topology.of_this_machine()
    distance, pair = next(iter(topology.representative_pairs().items()))
    knobs = find_knobs(installation.family, installation.version, mpi.transport_or_reason(installation)[0])
    settings = candidate_settings(knobs, topology.cache_bytes(pair[0]), distance)[0]
    other = next(one for one in CORE_DISTANCES if one != distance)
    rule = RuleTable(distance=other, pair="0-1", parameters=settings, memory_per_rank_bytes=0, at_ranks_per_node=2)
    tuning = Tuning(TuneRequest(sizes=(8, 16 << 10)))
    with PairedBenchmark(installation, mpi.build_target(installation), topology, pair, knobs) as benchmark:
        tuning._measure_other_distances(benchmark, distance, [rule])
    assert 0.1 < rule.other_distances[distance] < 10
