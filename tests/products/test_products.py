"""Does each product do its main job, as a user types it, under one MPI of this machine?

These are real runs, each a few seconds long: a profile is measured, an MPI is tuned, programs are built and started.
Whether a time is stable is not tested, since the machine may be busy; the bench programs say how fast things are."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import mpi_program
import pytest
from tuning import nearfield, rules_for, write

from nearfield import mpi
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.profile import load
from nearfield.rewrite.check.build import c_compiler_wrapper
from nearfield.rules.schema import load_rules

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two ranks that spin need two cores")


@pytest.fixture(scope="module")
def inst(request: pytest.FixtureRequest) -> Installation:
    """Returns the MPI that `--mpi` names, otherwise the one that a user gets by default."""
    return mpi.choose_mpi(request.config.getoption("--mpi"))


def launched(inst: Installation, *words: object) -> tuple[list[str], dict[str, str]]:
    """Returns the command that starts two ranks, and its environment."""
    return mpi.launch_command(inst, [str(word) for word in words], 2)


def test_probe_measures_a_profile(inst: Installation, tmp_path: Path) -> None:
    out = tmp_path / "profile"
    done = nearfield("probe", "--quick", "--budget", "15", "--mpi", inst.name, "-o", out)
    assert done.code == 0, done.err
    records = load(out).records
    assert "pingpong" in set(records["scenario"])
    assert nearfield("report", out).code == 0 and (out / "report.html").stat().st_size > 100_000


def test_tune_finds_rules_or_says_that_nothing_is_decided(inst: Installation, tmp_path: Path) -> None:
    out = tmp_path / "rules.toml"
    done = nearfield("tune", "--mpi", inst.name, "--budget", "5", "--sizes", "8,16KiB,1MiB", "-o", out)
    if done.code == NOT_DECIDED_EXIT_CODE:
        assert "not decided: " in done.out and not out.exists()
    else:
        assert done.code == 0, done.err
        assert load_rules(out).tried.measured >= 1


def test_run_gives_an_unmodified_program_the_shared_heap(inst: Installation, programs: Path, tmp_path: Path) -> None:
    """Are long messages copied in user space, and does every byte of them arrive?"""
    transport, reason = mpi.transport_or_reason(inst)
    assert transport, reason
    rules = write(tmp_path, rules_for(inst, transport, {"shared_heap": "on"}))
    command, environment = launched(inst, mpi_program.built(inst, "heap_messages.cpp", programs), "messages")
    done = nearfield("run", "--explain", "--rules", rules, "--", *command, env=environment)
    assert done.code == 0 and "all right" in done.out, done.err
    counts = [int(count) for count in re.findall(r"^[01] +(\d+) ", done.err, re.M)]
    assert len(counts) == 2 and sum(counts) > 0, done.err


def test_halo_builds_the_library_and_an_example_is_right(inst: Installation, tmp_path: Path) -> None:
    flags = nearfield("halo", "--mpi", inst.name, "--flags")
    assert flags.code == 0, flags.err
    options = ["-std=c++20", "-O1", *flags.out.split(), "-o", tmp_path / "heat"]
    compiler = {**os.environ, **inst.env, **compiler_environment(inst)}
    subprocess.run([inst.compiler, ROOT / "examples" / "heat2d.cpp", *options], check=True, env=compiler)
    command, environment = launched(inst, tmp_path / "heat", "--rows", 60, "--columns", 40, "--steps", 5, "--check")
    assert "check: 0 cells differ" in subprocess.check_output(command, env=environment, text=True, timeout=60)


def test_observe_records_what_simulate_run_simulates(inst: Installation, tmp_path: Path) -> None:
    program, trace = tmp_path / "ring", tmp_path / "ring.trace"
    compiler = {**os.environ, **inst.env, **compiler_environment(inst), "NEARFIELD_CC": str(c_compiler_wrapper(inst))}
    built = nearfield("cc", "-O2", "-g", PROGRAMS / "observed_ring.c", "-o", program, env=compiler)
    assert built.code == 0, built.err
    command, environment = launched(inst, program)
    done = nearfield("observe", "-o", trace, "--mpi", inst.name, "--", *command, env=environment)
    assert done.code == 0, done.err
    simulated = nearfield("simulate", "run", trace, "--policy", "payload-l3", "--nodes", "2", "--json")
    assert simulated.code == 0, simulated.err
    found = json.loads(simulated.out)
    assert found["policies"] == ["memory", "payload-l3"] and all(min(times) > 0 for times in found["time_ns"])


def test_rewrite_verifies_patches(inst: Installation, tmp_path: Path) -> None:
    source = Path(shutil.copy(PROGRAMS / "listing1.c", tmp_path))
    done = nearfield("rewrite", source, "--verify", "--mpi", inst.name, "--ranks", "1,2")
    assert done.code == 0, done.err
    assert "verified: the same bits in 2 runs" in done.err, done.err
