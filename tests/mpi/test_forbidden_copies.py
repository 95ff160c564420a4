"""Where the kernel forbids ranks to read one another's memory, as in containers: does the shared heap replace it?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import mpi_program
import pytest
from heap_peers import environment, reports
from tuning import nearfield, rules_for, write

from nearfield import mpi
from nearfield.base import job_key, shared_heap
from nearfield.base.errors import NOT_DECIDED_EXIT_CODE
from nearfield.mpi import Installation, launch_command
from nearfield.rules.schema import load_rules

CORES = len(os.sched_getaffinity(0))
USER_NAMESPACE = ["unshare", "--user", "--map-current-user"]
# MPIs that fail in user namespaces without the heap, too: how.
FAIL_IN_NAMESPACES = {
    "openmpi-4": "Open MPI 4 replaces single copies by another way, which does not end",
    "mpich-4.0": "UCX aborts in MPI_Init",
}


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "heap_messages.cpp", programs)


def settings_of(folder: Path, *, with_key: bool = True) -> dict[str, str]:
    """Returns the variables that load the heap, whose processes report into the folder."""
    env = environment(folder, at_start=0)
    loaded = {name: env[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", shared_heap.HEAP_VARIABLE)}
    loaded["MPIR_CVAR_FINALIZE_WAIT"] = "1"  # else MPICH aborts in MPI_Finalize where a freed request is not complete
    return loaded | (job_key.make_key_variable(loaded) if with_key else {})


@pytest.mark.parametrize("how", ["messages", "windows", "threads", "fork", "freed"])
def test_messages_arrive(
    installation: Installation, programs: Path, heap_programs: Path, tmp_path: Path, how: str
) -> None:
    """Under a container's filter of system calls, do all messages of an unmodified program arrive, does the MPI
    complain of nothing, and are those from shared pages copied in user space?"""
    if installation.name.startswith("mpich-4.0") and how in ("windows", "freed"):
        pytest.skip("fails without the heap, too (test_heap_mpi.py)")
    program = mpi_program.built(installation, "heap_messages.cpp", programs)
    command = [str(heap_programs / "filtered"), "refuse", str(program), how]
    done = mpi.run(installation, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=settings_of(tmp_path))
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout.splitlines()
    assert "Read -1" not in done.stderr
    ended = [report for report in reports(tmp_path) if report.values["rank"] != "-"]
    if installation.family != "intel" and how == "messages":  # Intel MPI copies so only on request
        assert sum(report.messages("owner") for report in ended) > 0
        assert sum(report.in_user_space for report in ended) > 0


def test_memory_outside_the_heap_arrives(
    installation: Installation, programs: Path, heap_programs: Path, tmp_path: Path
) -> None:
    """Where no block is in the heap, are all messages right that their owners hand out, and do they take the bounce
    buffer where the MPI has progress callbacks? On a busy machine an owner may not poll in time, so that the socket
    serves all messages of a run: then another run decides."""
    program = mpi_program.built(installation, "heap_messages.cpp", programs)
    command = [str(heap_programs / "filtered"), "refuse", str(program), "messages"]
    has_callbacks = installation.name.startswith(("openmpi", "mpich-5"))
    bounced = 0
    for attempt in range(3 if has_callbacks else 1):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        env = settings_of(folder)
        env[shared_heap.HEAP_VARIABLE] += ",from=1000000000"
        done = mpi.run(installation, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=env)
        assert done.has_succeeded, done.stdout + done.stderr
        assert "all right" in done.stdout.splitlines()
        bounced += sum(report.number("bounced") for report in reports(folder))
        if bounced:
            break
    assert bounced > 0 or not has_callbacks


def test_ranks_in_user_namespaces_of_their_own(installation: Installation, programs: Path, tmp_path: Path) -> None:
    """Where each rank is a container without root, do messages arrive, and copies in user space if the MPI tries?"""
    refused = subprocess.run([*USER_NAMESPACE, "true"], capture_output=True, text=True)
    if refused.returncode:
        pytest.skip(f"user namespaces are not allowed here: {refused.stderr.strip()}")
    for where, how in FAIL_IN_NAMESPACES.items():
        if installation.name.startswith(where):
            pytest.skip(how)
    program = mpi_program.built(installation, "heap_messages.cpp", programs)
    command = [*USER_NAMESPACE, str(program), "messages"]
    done = mpi.run(installation, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=settings_of(tmp_path))
    assert done.has_succeeded, done.stdout + done.stderr
    assert "all right" in done.stdout.splitlines()
    if installation.family == "mpich":  # Open MPI compares the user namespaces of its ranks before it tries
        assert sum(report.in_user_space for report in reports(tmp_path)) > 0


@pytest.mark.families
def test_without_a_key_nothing_is_served(
    installation: Installation, programs: Path, heap_programs: Path, tmp_path: Path
) -> None:
    """Is the MPI on its own if no key came with the environment?"""
    program = mpi_program.built(installation, "heap_messages.cpp", programs)
    command = [str(heap_programs / "filtered"), "refuse", str(program), "nothing"]
    env = settings_of(tmp_path, with_key=False)
    done = mpi.run(installation, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=env)
    assert done.has_succeeded, done.stdout + done.stderr
    assert all(report.messages("owner") == 0 for report in reports(tmp_path))


def test_run_explains_the_replacement(
    installations: list[Installation], programs: Path, heap_programs: Path, tmp_path: Path
) -> None:
    """Does `run` draw a key, and does --explain say that owners made the copies, and which?"""
    inst = installations[0]
    carrier, reason = mpi.transport_or_reason(inst)
    assert carrier, reason
    rules = write(tmp_path, rules_for(inst, carrier, {"shared_heap": "on"}))
    program = mpi_program.built(inst, "explained.cpp", programs)
    filtered = [str(heap_programs / "filtered"), "refuse"]
    argv, env = launch_command(inst, [*filtered, str(program), *["heap"] * 8, "static"], 2, oversubscribe=CORES < 2)
    done = nearfield("run", "--explain", "--rules", rules, "--", *argv, env=env)
    assert done.code == 0, done.err
    (copies,) = re.findall(r"made (\d+) copies \(.*\) for them", done.err)
    assert int(copies) >= 2
    assert "copied once, in user space" in done.err


@pytest.mark.parametrize("place", ["refuse", "refuse-kcmp"])
def test_doctor_says_what_is_forbidden(heap_programs: Path, place: str) -> None:
    """Does `doctor` name what MPIs do in such a place, and that the heap works all the same?"""
    command = [heap_programs / "filtered", place, sys.executable, "-m", "nearfield", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    lines = {line[10:].split("  ")[0].strip(): line for line in done.stdout.splitlines()[:40]}
    text = " ".join(done.stdout.split())
    if place == "refuse":
        assert "missing" in lines["single copy (CMA)"] and "limited" in lines["shared heap"]
        assert "Read -1, expected N, errno = 1" in text and "process_vm_readv failed (errno 1)" in text
        assert "by a request to its owner" in text
    else:
        assert "limited" in lines["single copy (CMA)"] and "ok" in lines["shared heap"]
        assert "Open MPI 5 checks its permission by kcmp" in text


def test_open_mpi_5_copies_once_where_only_kcmp_is_forbidden(
    programs: Path, heap_programs: Path, tmp_path: Path
) -> None:
    """Under today's default filter of Docker and Podman, which forbids kcmp and not process_vm_readv?"""
    inst = next((one for one in mpi.find_usable_mpis() if one.name.startswith("openmpi-5")), None)
    if inst is None:
        pytest.skip("there is no Open MPI 5")
    program = mpi_program.built(inst, "heap_messages.cpp", programs)
    command = [str(heap_programs / "filtered"), "refuse-kcmp", str(program), "messages"]
    done = mpi.run(inst, command, 2, oversubscribe=CORES < 2, timeout_s=60, env=settings_of(tmp_path))
    assert done.has_succeeded, done.stdout + done.stderr
    ended = reports(tmp_path)
    assert sum(report.in_user_space for report in ended) > 0
    assert sum(report.messages("owner") for report in ended) == 0


@pytest.mark.turn(0)
def test_tune_finds_a_baseline_that_runs(heap_programs: Path, tmp_path: Path) -> None:
    """Where an MPI's defaults abort, does tune compare with a baseline that runs, and say so; never that the defaults
    are best?"""
    inst = next((one for one in mpi.find_usable_mpis() if one.name.startswith("mpich-5")), None)
    if inst is None:
        pytest.skip("there is no MPICH 5")
    rules = tmp_path / "rules.toml"
    command = [heap_programs / "filtered", "refuse", sys.executable, "-m", "nearfield", "tune", "--mpi", inst.name]
    done = subprocess.run(
        [*command, "--budget", "12", "--sizes", "65536", "-o", rules], capture_output=True, text=True, timeout=170
    )
    assert done.returncode in (0, NOT_DECIDED_EXIT_CODE), done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "the MPI's defaults fail here; the baseline runs with MPIR_CVAR_CH4_CMA_ENABLE=0" in said
    assert "defaults of this MPI are best" not in said
    if done.returncode == 0:
        (rule,) = load_rules(rules).rule
        assert rule.parameters["shared_heap"] == "on"
        assert rule.baseline == {"MPIR_CVAR_CH4_CMA_ENABLE": "0"}
