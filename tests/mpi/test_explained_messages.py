"""Does `doctor --message` know what the MPIs of this machine print where a container lacks something? Each message is
provoked for real."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import mpi_program
import pytest

from nearfield.doctor.messages import find_explanations
from nearfield.mpi import Installation, launch_command

CORES = len(os.sched_getaffinity(0))
IS_ROOT = os.geteuid() == 0


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "trial.cpp", programs)


def printed(inst: Installation, argv: list[object], *before: str, ranks: int = 2, **variables: str) -> str:
    """Returns what a job prints. A variable of no value is unset."""
    command, environment = launch_command(inst, [str(word) for word in argv], ranks, oversubscribe=CORES < 2)
    values = {name: value for name, value in {**environment, **variables}.items() if value}
    done = subprocess.run(
        [*before, *command], env=values, capture_output=True, text=True, errors="replace", timeout=100
    )
    return done.stdout + done.stderr


def names(text: str) -> list[str]:
    return [one.message.name for one in find_explanations(text)]


def test_copies_that_are_refused(installation: Installation, programs: Path, heap_programs: Path) -> None:
    """Under a filter that refuses process_vm_readv: of the MPIs that print something, is the cause known?"""
    program = mpi_program.built(installation, "trial.cpp", programs)
    text = printed(installation, [heap_programs / "filtered", "refuse", program])
    expected = {"openmpi-4": "cma-read-refused", "mpich-5": "mpich-cma-refused"}
    name = next((one for begin, one in expected.items() if installation.name.startswith(begin)), "")
    assert name in names(text) if name else not names(text), text


@pytest.mark.skipif(not IS_ROOT, reason="mounting needs root")
def test_a_small_dev_shm(installation: Installation, programs: Path) -> None:
    """With 1 MiB for what ranks share: does each MPI's message lead to the size of /dev/shm?"""
    program = mpi_program.built(installation, "trial.cpp", programs)
    small = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh")
    text = printed(installation, [program], *small)
    found = [one.message for one in find_explanations(text)]
    if installation.family == "intel" and not found:
        return  # it ends without a word, or takes another way
    assert found and found[0].check == "dev_shm", text


@pytest.mark.skipif(not IS_ROOT, reason="user namespaces of others need root")
def test_ranks_in_user_namespaces_of_their_own(installation: Installation, programs: Path) -> None:
    """Where Open MPI warns that ranks are in different containers, is that recognised?"""
    if not installation.name.startswith("openmpi-4"):
        pytest.skip("only Open MPI 4 warns")
    program = mpi_program.built(installation, "trial.cpp", programs)
    assert "cma-user-namespaces" in names(printed(installation, ["unshare", "-U", "-r", program]))


def test_what_launchers_refuse(installation: Installation, tmp_path: Path) -> None:
    """Of Open MPI's launchers: is known why they do not start as root, with too many ranks, without a folder for
    temporary files, with too few open files?"""
    if installation.family != "openmpi":
        pytest.skip("the others start")
    if IS_ROOT:
        unset = {f"{one}_ALLOW_RUN_AS_ROOT{two}": "" for one in ("OMPI", "PRTE") for two in ("", "_CONFIRM")}
        assert names(printed(installation, ["true"], **unset)) == ["runs-as-root"]
    environment = launch_command(installation, ["true"], 1)[1]
    command = [str(installation.launcher), "-n", "1000", "true"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert names(done.stderr + done.stdout) == ["too-few-slots"]
    assert "session-folder" in names(printed(installation, ["true"], TMPDIR="/proc"))
    if installation.name.startswith("openmpi-4"):
        assert "open-files" in names(printed(installation, ["true"], "sh", "-c", 'ulimit -n 20; exec "$@"', "sh"))
