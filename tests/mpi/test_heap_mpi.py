"""Do unmodified MPI programs, of every MPI, do under the shared heap what they do without it?"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

import mpi_program
import pytest
from heap_peers import environment, reports
from test_halo_python import mpi4py_on

from nearfield import mpi
from nearfield.base import shared_heap
from nearfield.mpi import Installation

CORES = len(os.sched_getaffinity(0))

# Checks that fail without the heap, too: how, under which MPI, why.
FAILS_WITHOUT = {
    ("windows", "mpich-4.0"): "MPI_Put between fences is not there after the second one",
    ("freed", "mpich-4.0"): "MPI_Finalize does not end before the message has arrived, which it never does",
    ("spawn", "mpich"): "MPI_Comm_spawn fails where ranks were started with a binding",
    ("spawn", "intel"): "MPI_Comm_spawn needs a network fabric",
}


# Messages that the heap leaves to the kernel. (Intel MPI copies so only on request; a single message never is
# shared.) MPICH's own windows are shared memory anyway; under MPI_THREAD_MULTIPLE it offers no callback.
BY_KERNEL = {("windows", "mpich"), ("threads", "mpich")}


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "heap_messages.cpp", programs)
    mpi_program.built(inst, "heap_random.cpp", programs)


@pytest.fixture(scope="session")
def messages(installation: Installation, programs: Path) -> Path:
    return mpi_program.built(installation, "heap_messages.cpp", programs)


@pytest.mark.parametrize("how", ["messages", "windows", "threads", "spawn", "fork", "freed"])
def test_messages_arrive(installation: Installation, messages: Path, tmp_path: Path, how: str) -> None:
    """Do all long messages of an unmodified MPI program arrive, also by one-sided calls, of several threads, with
    processes that start later, between forks and during MPI_Finalize; and, where the MPI copies by process_vm_readv,
    were they copied in user space?"""
    for (what, where), reason in FAILS_WITHOUT.items():
        if what == how and installation.name.startswith(where):
            pytest.skip(reason)
    env = environment(tmp_path, share_first=1, at_start=0)
    settings = {name: env[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", shared_heap.HEAP_VARIABLE)}
    settings["MPIR_CVAR_FINALIZE_WAIT"] = "1"  # else MPICH aborts in MPI_Finalize where a freed request is not complete
    ranks = 3 if how == "spawn" else 2
    # Open MPI and MPICH from 4.3 on give a sender that waits its turn to help; on a busy host that may come late.
    helps = how == "messages" and installation.name.startswith(("openmpi", "mpich-5"))
    until = time.monotonic() + 60
    for number in itertools.count():
        done = mpi.run(installation, [str(messages), how], 2, oversubscribe=ranks > CORES, timeout_s=40, env=settings)
        assert done.has_succeeded, done.stdout + done.stderr
        assert "all right" in done.stdout.splitlines()
        ended = [report for report in reports(tmp_path) if report.values["rank"] != "-"]
        assert len(ended) >= 2
        helped = sum(report.messages("user_both") for report in ended)
        if helped or not helps or (number >= 10 and time.monotonic() > until):
            break
    if installation.family != "intel" and (how, installation.family) not in BY_KERNEL and how != "freed":
        assert sum(report.in_user_space for report in ended) > 0
    assert helped or not helps


@pytest.mark.parametrize(("ranks", "seed"), [(2, 1), (2, 2), (4, 3), (4, 4)])
@pytest.mark.families
def test_random_programs_are_as_without(installation: Installation, programs: Path, ranks: int, seed: int) -> None:
    """Do random calls that allocate, map other pages, fork, send and write have the baseline's results: with a thread
    that writes all the time (odd seeds), and where every page moves into shared memory at once?"""
    program = mpi_program.built(installation, "heap_random.cpp", programs)
    env = environment(share_first=1, at_start=0)
    settings = {name: env[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", shared_heap.HEAP_VARIABLE)}
    command = [str(program), str(seed), "300"]
    outputs = []
    for extra in ({}, settings):
        done = mpi.run(installation, command, ranks, oversubscribe=ranks > CORES, timeout_s=120, env=extra)
        assert done.has_succeeded, done.stdout + done.stderr
        outputs.append(done.stdout)
    assert "all right" in outputs[0]
    assert outputs[1] == outputs[0]


@pytest.mark.families
@pytest.mark.parametrize("ranks", [1, 2])
def test_only_a_job_of_several_ranks_has_a_heap(
    installation: Installation, messages: Path, tmp_path: Path, ranks: int
) -> None:
    """Is the memory of a job's only rank left to the C library, and is the reason reported?"""
    env = environment(tmp_path, at_start=0)
    settings = {name: env[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", shared_heap.HEAP_VARIABLE)}
    done = mpi.run(installation, [str(messages), "nothing"], ranks, oversubscribe=ranks > CORES, env=settings)
    assert done.has_succeeded, done.stdout + done.stderr
    ended = [report.values["reason"] for report in reports(tmp_path) if report.values["program"] == messages.name[:15]]
    assert ended == ["there is only one rank" if ranks == 1 else "-"] * ranks


@pytest.mark.families
def test_programs_of_python_are_as_without(installation: Installation, tmp_path: Path) -> None:
    """mpi4py opens the MPI's library by itself, and asks which functions it has: do messages and one-sided calls of
    NumPy arrays work, and do the arrays lie in the heap?"""
    pytest.importorskip("mpi4py")
    env = environment(tmp_path, at_start=0)
    settings = {name: env[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", shared_heap.HEAP_VARIABLE)}
    program = str(mpi_program.PROGRAMS / "heap_mpi4py.py")
    done = mpi.run(
        installation, [sys.executable, program], 2, oversubscribe=CORES < 2, timeout_s=100,
        env={**mpi4py_on(installation), **settings},
    )  # fmt: skip
    assert done.has_succeeded, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 True True", "1 True True"]
    if installation.family != "intel":  # it copies by process_vm_readv only on request
        assert sum(report.in_user_space for report in reports(tmp_path)) > 0
