"""Do rules of a real tune pass through the rules library: checked, fetched, and taken by `run`?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tuning import nearfield

from nearfield import mpi
from nearfield.apply.rules_library import library_file_name
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.mpi import Installation, launch_command
from nearfield.rules.schema import load_rules

pytestmark = [pytest.mark.turn(1), pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")]
SHORT = ("--budget", "8", "--sizes", "8,64KiB,1MiB")
# What `check --library` may say of a tune that is this short, on a machine that runs tests at the same time.
OF_A_SHORT_TUNE = (
    "launches; at least",
    "of the cores' time",
    "the cores moved",
    "lies above 1",
    "of the baseline's speed",
)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Installation, Path]:
    """Returns an MPI and the rules that a short tune has found for it."""
    inst, out = mpi.choose_mpi(None), tmp_path_factory.mktemp("tuned") / "rules.toml"
    done = nearfield("tune", "--mpi", inst.name, *SHORT, "-o", out)
    if done.code == NOT_DECIDED_EXIT_CODE and not out.exists():
        done = nearfield("tune", "--resume", "--confirm-best", "-o", out)
    if not out.exists():
        assert done.code == NOT_DECIDED_EXIT_CODE, done.err
        pytest.skip("on this busy machine nothing was decided")
    return inst, out


@pytest.mark.turn(1)
def test_a_real_file_is_checked(tuned: tuple[Installation, Path], tmp_path: Path) -> None:
    """Is it right, does it fit the MPI for which it was found, and does the library refuse it for no other reason than
    that the tune was short or the machine busy?"""
    inst, file = tuned
    done = nearfield("rules", "check", file)
    assert done.code == 0 and f"{file}: right" in done.out and inst.name in done.out
    named = tmp_path / library_file_name(load_rules(file))
    named.write_bytes(file.read_bytes())
    done = nearfield("rules", "check", "--library", named)
    problems = [line for line in done.out.splitlines() if line.startswith("  ") and "note: " not in line]
    problems = [line for line in problems if not line.startswith("  here: ")]
    assert done.code == (4 if problems else 0)
    assert all(any(words in line for words in OF_A_SHORT_TUNE) for line in problems), problems


def test_a_file_of_a_busy_machine_is_refused(tuned: tuple[Installation, Path], tmp_path: Path) -> None:
    rules = load_rules(tuned[1])
    text = tuned[1].read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("busy_share")]
    file = tmp_path / library_file_name(rules)
    file.write_text(text.replace(line, "busy_share = 0.31"))
    done = nearfield("rules", "check", "--library", file)
    assert done.code == 4 and "other programs took 31% of the cores' time" in done.out


def test_fetched_rules_are_taken_by_run(tuned: tuple[Installation, Path], tmp_path: Path) -> None:
    """Does `run` find them without --rules, and set the same as with the tuned file?"""
    inst, file = tuned
    done = nearfield("rules", "fetch", file, cwd=tmp_path)
    assert done.code == 0 and "measured elsewhere" in done.err and "compare -- mpirun" in done.err
    argv, environment = launch_command(inst, ["true"], 2)
    fetched = nearfield("run", "-v", "--", *argv, cwd=tmp_path, env=environment)
    direct = nearfield("run", "-v", "--rules", file, "--", *argv, cwd=tmp_path, env=environment)
    assert fetched.code == direct.code == 0
    assert fetched.err == direct.err and fetched.err
    assert nearfield("rules", "fetch", file, cwd=tmp_path).code == 0
    (tmp_path / "rules.toml").write_text(file.read_text().replace("seconds = ", "seconds = 1"))
    assert nearfield("rules", "fetch", file, cwd=tmp_path).code == 2, "it was edited"
