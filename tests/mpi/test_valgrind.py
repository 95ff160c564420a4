"""Does `nearfield observe --valgrind` record of an unmodified program what hooks record of the same one?"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mpi_program import PROGRAMS
from observed import N, by_function, compile_with_mpi, observe, show
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.cli import app
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.observe.summary import summarize
from nearfield.observe.trace import Trace
from nearfield.rewrite.check.build import c_compiler_wrapper

pytestmark = pytest.mark.turn(1)

needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="there is no valgrind")
CALLS = {"fill": 1, "add": 3, "gather": 1, "count": 1}  # each pushes and pops its return address


@pytest.fixture(scope="module")
def plain(programs: Path) -> Path:
    """Returns the program of test_observe without hooks."""
    program = programs / "plain_accesses"
    words = ["gcc", "-O1", "-g", "-pthread", str(PROGRAMS / "observed_accesses.c"), "-o", str(program)]
    subprocess.run(words, check=True, timeout=60)
    return program


@needs_valgrind
def test_a_program_without_hooks_accesses_what_it_does_with_hooks(tmp_path, plain):
    """Are the accesses of each function those of its source, the result its own, and copies of libraries recorded?"""
    alone = subprocess.run([plain], capture_output=True, text=True, check=True).stdout
    done = observe(tmp_path, "--valgrind", "--", plain)
    assert (done.stdout, done.returncode) == (alone, 0), done.stderr
    (rank,) = show(tmp_path)
    counts, flops = by_function(rank), by_function(rank, "flops")
    of_source = {"fill": 2 * N, "add": 9 * N, "gather": 2 * N, "count": 20}
    for name, count in of_source.items():
        assert count <= counts[name] <= count + 8 * CALLS[name], name
    assert [flops[name] for name in ("add", "gather", "count")] == [3 * N, N, 0]


@needs_valgrind
def test_only_a_function_is_recorded_under_valgrind(tmp_path, plain):
    """Does --region record from a function's first instruction to its return, as often as it is called?"""
    done = observe(tmp_path, "--valgrind", "--region", "add", "--", plain)
    (rank,) = show(tmp_path)
    assert done.returncode == 0 and by_function(rank) == {"add": 3 * (3 * N + 1)} and rank["regions"] == {"add": 3}


@needs_valgrind
@pytest.mark.parametrize(
    ("what", "code", "words"),
    [("killed", 137, "the stream is cut"), ("thread", 0, "cannot be simulated: threads"), ("fork", 0, "")],
)
@pytest.mark.turn(0)
def test_what_happens_to_the_program_is_reported(tmp_path, plain, what, code, words):
    """Are a kill, threads and children distinguished?"""
    done = observe(tmp_path, "--valgrind", "--", plain, what)
    shown = CliRunner().invoke(app, ["observe", "show", str(tmp_path / "trace")]).output
    assert done.returncode == code and words in done.stderr + shown
    if what == "fork":
        assert by_function(show(tmp_path)[0])["add"] < 9 * N + 30  # of the child, nothing


@needs_valgrind
@pytest.mark.turn(1)
def test_a_command_is_judged_and_simulated_without_hooks(tmp_path, programs):
    """Do `advise` and `simulate run` have Valgrind record the command, and refuse to for a trace?"""
    inst = mpi.find_usable_mpis()[0]
    words, environment = mpi.launch_command(inst, [str(ring(inst, programs, hooks=False))], 1)
    profile = Path(__file__).parents[1] / "data/leo3-simulated"
    for verb, keep in (
        (["advise", "--profile", profile], "--out"),
        (["simulate", "run", "--policy", "memory"], "--keep"),
    ):
        command = [sys.executable, "-m", "nearfield", *verb, "--valgrind", "--json"]
        done = subprocess.run(
            [*command, keep, tmp_path / verb[0], "--", *words],
            capture_output=True, text=True, timeout=120, check=False, env=environment,
        )  # fmt: skip
        trace = Trace(tmp_path / verb[0])
        assert done.returncode == 0 and trace.metadata.recorder == "valgrind", done.stderr
        assert trace.metadata.accesses > 2 * 4096 and '"accesses": 0' not in done.stdout
        refused = CliRunner().invoke(app, [*map(str, verb), "--valgrind", str(trace.folder)])
        assert "was observed already" in str(refused.exception)


def test_what_is_missing_is_reported(tmp_path, programs):
    """Are a missing valgrind and a script refused before anything runs, with what to do?"""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    done = observe(tmp_path, "--valgrind", "--", script)
    assert done.returncode == 2 and "is a script" in done.stderr
    somewhere = tmp_path / "bin"
    somewhere.mkdir()
    (somewhere / "true").symlink_to(shutil.which("true"))
    done = observe(tmp_path, "--valgrind", "--", "true", environment={**os.environ, "PATH": str(somewhere)})
    assert done.returncode == 2 and "there is no valgrind" in done.stderr and "nearfield cc" in done.stderr


def ring(inst: Installation, programs: Path, *, hooks: bool) -> Path:
    program = programs / f"valgrind-ring-{inst.name.replace('/', '-')}-{hooks}"
    if hooks:
        return compile_with_mpi(inst, "observed_ring.c", program, "-O1")
    words = [c_compiler_wrapper(inst), "-O1", "-g", str(PROGRAMS / "observed_ring.c"), "-o", str(program)]
    subprocess.run(words, check=True, timeout=60, env={**os.environ, **inst.env, **compiler_environment(inst)})
    return program


@needs_valgrind
@pytest.mark.families
@pytest.mark.turn(1)
def test_messages_and_lines_are_those_with_hooks(installation: Installation, tmp_path, programs):
    """Do 4 ranks go on, call MPI from the same lines with the same bytes, and access as much? Is that simulated?"""
    found = {}
    for hooks in (False, True):
        words, environment = mpi.launch_command(
            installation, [str(ring(installation, programs, hooks=hooks))], 4, oversubscribe=True
        )
        folder = tmp_path / str(hooks)
        folder.mkdir()
        how = [] if hooks else ["--valgrind"]
        done = observe(folder, *how, "--mpi", installation.name, "--", *words, environment=environment)
        assert done.returncode == 0 and "sum" in done.stdout, done.stderr
        found[hooks] = summarize(Trace(folder / "trace"))

    def calls(ranks: list[Any]) -> list[Any]:
        return [
            sorted(
                (c.name, c.line.number, c.calls, c.sent_bytes, c.received_bytes, sorted(c.peers)) for c in rank.calls
            )
            for rank in ranks
        ]

    def lines(rank: Any) -> Counter[int]:
        return Counter({line.number: count for line, count in rank.lines.items() if line.function == "main"})

    assert calls(found[False]) == calls(found[True])
    for without, with_hooks in zip(found[False], found[True], strict=True):
        many = {line: count for line, count in lines(with_hooks).items() if count > 100}
        assert many and all(count <= lines(without)[line] <= count + 20 for line, count in many.items())
    words = ["simulate", "run", str(tmp_path / "False/trace"), "--policy", "payload-l3", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and json.loads(done.stdout)["accesses"] >= 4 * 2 * 4096
