"""Does `run --learn` count a program's collectives, and does `tune --collectives --calls` measure only these?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mpi_program
import pytest

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.mpi.launch import launch_command
from nearfield.rules.called_collectives import load_called_collectives
from nearfield.rules.schema import load_rules

pytestmark = pytest.mark.turn(1)

CORES = len(os.sched_getaffinity(0))
NEARFIELD = [sys.executable, "-m", "nearfield"]


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi.build_target(inst, mpi.COLLECTIVES_TARGET)
    mpi.build_target(inst, mpi.COLLECTIVES_PROGRAM_TARGET)
    mpi_program.built(inst, "called_collectives.cpp", programs)


def learn(inst: Installation, programs: Path, out: Path, ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the program under `run --learn`."""
    program = mpi_program.built(inst, "called_collectives.cpp", programs)
    argv, env = launch_command(inst, [str(program), *words], ranks, oversubscribe=ranks > CORES)
    command = [*NEARFIELD, "run", "--learn", str(out), "--", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_calls_are_counted(installation: Installation, programs: Path, tmp_path: Path, ranks: int) -> None:
    """Does the file have each operation, number of ranks and length as often as the program calls it?"""
    out = tmp_path / "calls.toml"
    done = learn(installation, programs, out, ranks)
    assert done.returncode == 0, done.stderr
    found = {
        (one.operation, one.ranks, one.nodes, one.size_bytes): one.calls for one in load_called_collectives(out).call
    }
    if ranks == 1:
        assert not found and "called no collective" in done.stderr
        return
    expected = {("allreduce", ranks, 1, 32): 30, ("bcast", ranks, 1, 17): 10, ("bcast", ranks, 1, 100000): 3,
                ("barrier", ranks, 1, 0): 5}  # fmt: skip
    expected["allreduce", 2, 1, 8] = 20 * ranks // 2
    assert found == expected
    assert all(one.seconds > 0 for one in load_called_collectives(out).call)
    assert "tune --collectives --calls" in done.stderr and "allreduce" in done.stderr


@pytest.mark.families
def test_failed_and_incomplete_runs_save_nothing(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Is the exit code the program's, and does a file stay as it was if the program fails or a rank does not finish?"""
    out = tmp_path / "calls.toml"
    out.write_text("old")
    done = learn(installation, programs, out, 2, "fail")
    assert done.returncode == 3 and out.read_text() == "old", done.stderr
    done = learn(installation, programs, out, 2, "lone")
    assert done.returncode != 0 and out.read_text() == "old", done.stderr
    assert not list(tmp_path.glob(".nearfield*"))


@pytest.mark.families
@pytest.mark.turn(1)
def test_only_these_are_measured(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Has the rules file after the tune only operations and lengths that the program calls?"""
    out, rules = tmp_path / "calls.toml", tmp_path / "rules.toml"
    assert learn(installation, programs, out, 2).returncode == 0
    command = [*NEARFIELD, "tune", "--collectives", "--calls", str(out), "-o", str(rules), "--budget", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode in (0, 6), done.stderr  # 6: a busy machine leaves all undecided
    found = {
        (one.operation, one.ranks): [p.size_bytes for p in one.point] for one in load_rules(rules).collective_tables()
    }
    worth = load_called_collectives(out).lengths_to_measure(2)
    assert found
    for (operation, ranks), sizes in found.items():
        assert ranks == 2 and set(worth[operation]) <= set(sizes)
        assert worth[operation][0] <= min(sizes) and max(sizes) <= worth[operation][-1]
