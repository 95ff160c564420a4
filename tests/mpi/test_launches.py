"""Do ranks start, end and leave nothing behind, under each MPI of this machine?"""

import os
import re
import signal
from pathlib import Path

import mpi_program
import pytest

from nearfield import mpi
from nearfield.mpi import Installation, selection
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.marked_processes import is_dead_process
from nearfield.rewrite.check.build import c_compiler_wrapper


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "trial.cpp", programs)


@pytest.fixture
def trial(installation: Installation, programs: Path) -> Path:
    """The small program, built for one MPI."""
    return mpi_program.built(installation, "trial.cpp", programs)


def put_script(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_default_is_the_mpi_of_mpicc(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a choice, is it the MPI to which the first mpicc on PATH belongs, and is that said?"""
    put_script(tmp_path / "bin/mpicc", f'exec {c_compiler_wrapper(installation)} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    if installation.family == "intel":
        monkeypatch.setenv("I_MPI_ROOT", str(installation.root))
    choice = mpi.choose_default_mpi()
    assert choice.installation.library == installation.library
    assert f"to which mpicc on PATH belongs ({tmp_path}/bin/mpicc)" in choice.reason
    assert mpi.find_usable_mpis()[0] == choice.installation == mpi.choose_mpi(None)


def test_an_mpi_that_starts_no_ranks_is_not_the_default(
    installations: list[Installation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is the next MPI taken if the launcher of mpicc's MPI fails, does the user read its words, and is something said
    while it is waited for?"""
    inst = next((one for one in installations if not one.origin.startswith("wheel ")), installations[0])
    put_script(tmp_path / "bin/mpicc", f'exec {c_compiler_wrapper(inst)} "$@"')
    put_script(tmp_path / "bin/mpicxx", f'exec {inst.compiler} "$@"')
    starts = f'[ "$1" = --version ] && exec {inst.launcher} --version; sleep 3; echo no ranks today >&2; exit 1'
    for name in FAMILIES[inst.family].launcher_names:
        put_script(tmp_path / "bin" / name, starts)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    broken = mpi.choose_mpi(str(tmp_path / "bin"))
    monkeypatch.setattr(selection, "REPORT_INTERVAL_S", 0.5)
    messages: list[str] = []
    assert broken.launcher.parent == tmp_path / "bin" and "no ranks today" in selection._find_start_problem(
        broken, messages.append
    )
    assert messages and all("waiting for 2 ranks" in line for line in messages)
    assert mpi.choose_default_mpi().installation.launcher != broken.launcher


# ---- building


def test_built_program_runs_by_itself(installation: Installation, trial: Path) -> None:
    """Does a program built with each MPI's wrapper find that MPI's library without LD_LIBRARY_PATH, and do 2
    ranks exchange a message?"""
    done = mpi.run(installation, [str(trial)], 2, timeout_s=60)
    assert done.has_succeeded, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.split(" by ")[0].split(" on ")[0] for line in lines] == ["rank 0 of 2", "rank 1 of 2"]
    assert ["got 1" in lines[0], "got 0" in lines[1]] == [True, True]
    assert FAMILIES[installation.family].parse_library_version(lines[0].split(" by ")[1] + " ") is not None


@pytest.mark.families
@pytest.mark.parametrize("victim", ["rank", "launcher", "nobody"])
def test_nothing_survives_a_launch(installation: Installation, trial: Path, victim: str) -> None:
    """When a rank or the launcher is killed, is the launch over before its time is; and then, or when time is up, is
    no process left and nothing of it in /dev/shm?"""
    ranks: list[int] = []
    launcher: list[int] = []
    struck: list[int] = []

    def strike(stream: str, line: str) -> None:
        if line.startswith("pid "):
            ranks.append(int(line.split()[1]))
        if len(ranks) == 2 and not struck and victim != "nobody":
            struck.append(ranks[1] if victim == "rank" else launcher[0])
            os.kill(struck[0], signal.SIGKILL)

    before = mpi.snapshot_shm()
    for limit_s in (1.5, 12.0) if victim == "nobody" else (60.0,):
        argv = [str(trial), "spin"]
        done = mpi.run(installation, argv, 2, timeout_s=limit_s, on_line=strike, on_start=launcher.append)
        if len(ranks) == 2:
            break
        ranks.clear()  # they take longer to start here
    assert len(ranks) == 2
    assert done.timed_out == (victim == "nobody")
    assert not done.has_succeeded
    assert not any(not is_dead_process(pid) for pid in ranks)
    names = [p for family in FAMILIES.values() for p in family.shm_patterns]
    left = [n for n in mpi.snapshot_shm() - before if any(Path(n).match(p) for p in names)]
    assert not [n for n in left if is_ours_and_unused(n)]


def is_ours_and_unused(name: str) -> bool:
    """Returns whether it is no file of somebody else's launch beside the tests."""
    return name in mpi.remove_stale_shm(mpi.snapshot_shm() - {name})


def test_interrupt_ends_ranks_and_reaches_the_caller(installations: list[Installation], programs: Path) -> None:
    """Does Ctrl-C end the ranks, and still interrupt the caller of the launch?"""
    inst = installations[0]
    exe = mpi_program.built(inst, "trial.cpp", programs)
    ranks: list[int] = []

    def interrupt(stream: str, line: str) -> None:
        if line.startswith("pid "):
            ranks.append(int(line.split()[1]))
        if len(ranks) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        mpi.run(inst, [str(exe), "spin"], 2, timeout_s=60, on_line=interrupt)
    assert len(ranks) == 2 and not any(not is_dead_process(pid) for pid in ranks)


# ---- what the user sees


@pytest.mark.timeout(600)
def test_transport_is_known(installation: Installation) -> None:
    """Does each MPI tell what carries messages inside this node, when two ranks exchange some?"""
    carrier, reason = mpi.transport_or_reason(installation)
    assert carrier, reason
    expected = {"openmpi": r"(ob1|ucx|cm) / ", "mpich": r"ch4 / (posix|ucx|ofi)", "intel": r"shm|ofi"}
    assert re.match(expected[installation.family], carrier)
    assert "single copy" in carrier
