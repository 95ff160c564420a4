"""Of real jobs of each MPI: is what killed ones leave found to be stale, and do live ones keep their files?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import mpi_program
import pytest
from old_files import make_old

from nearfield import mpi
from nearfield.mpi import Installation, file_use, launch_command, leftovers
from nearfield.mpi.file_use import find_process_by_open_file
from nearfield.mpi.leftovers import Leftover
from nearfield.mpi.marked_processes import MARK_VARIABLE, find_marked_pids

CORES = len(os.sched_getaffinity(0))
# The files that a killed job leaves. Intel MPI and UCX remove the names of their segments at once.
LEFT = {"openmpi-4": "vader_segment.", "openmpi-5": "sm_segment.", "mpich-5": "mpich_shm_"}


def build_ahead(inst: Installation, programs: Path) -> None:
    mpi_program.built(inst, "trial.cpp", programs)


class Job:
    """Two ranks that never end, with a folder for temporary files of their own."""

    def __init__(self, inst: Installation, program: Path, folder: Path) -> None:
        self.folder, self.before, self.mark = folder, mpi.snapshot_shm(), uuid.uuid4().hex
        command, environment = launch_command(inst, [str(program), "spin"], 2, oversubscribe=CORES < 2)
        environment |= {"TMPDIR": str(folder), MARK_VARIABLE: self.mark}
        self.launcher = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.launcher.stdout
        lines: list[str] = []
        while len(lines) < 2 and (line := self.launcher.stdout.readline()):
            lines += [line] if line.startswith("pid ") else []
        assert len(lines) == 2
        processes = [Path(f"/proc/{pid}") for pid in find_marked_pids(self.mark)]
        self.files = {path for process in processes for path in file_use._open_paths_of_process(process)}

    def sweep(self, *, remove: bool = False) -> list[Leftover]:
        """Returns what the sweep finds of this job, and nothing of others, which it would remove as well."""
        users = find_process_by_open_file()
        return [
            leftovers._judge_candidate(one, users, remove)
            for one in leftovers._candidates([self.folder], leftovers.SHM_FOLDER)
            if one.path.is_relative_to(self.folder) or str(one.path) in self.files
        ]

    def make_old(self) -> None:
        for one in self.sweep():
            make_old(one.path)

    def kill(self) -> None:
        """Kills the launcher first, so that it cleans nothing up, and all that it has started."""
        for pid in [self.launcher.pid, *find_marked_pids(self.mark)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.launcher.wait()
        deadline = time.monotonic() + 20
        while any(one.verdict == "in use" for one in self.sweep()) and time.monotonic() < deadline:
            time.sleep(0.05)


@contextmanager
def running(inst: Installation, programs: Path) -> Iterator[Job]:
    program = mpi_program.built(inst, "trial.cpp", programs)
    with tempfile.TemporaryDirectory(prefix="sweep-", dir="/dev/shm") as folder:  # short: there may be sockets in it
        job = Job(inst, program, Path(folder))
        try:
            yield job
        finally:
            job.kill()
            mpi.remove_stale_shm(job.before)


@pytest.fixture
def job(installation: Installation, programs: Path) -> Iterator[Job]:
    with running(installation, programs) as started:
        yield started


def test_files_of_killed_jobs_are_stale(job: Job, installation: Installation) -> None:
    """Is nothing of a live job removed, however old it looks; is what it leaves after SIGKILL young at first, then
    stale, and gone after the sweep?"""
    job.make_old()
    alive = job.sweep(remove=True)
    assert all(one.verdict in ("in use", "cannot tell") for one in alive), alive
    assert all(one.path.exists() for one in alive)
    name = next((left for begin, left in LEFT.items() if installation.name.startswith(begin)), "")
    assert any(one.verdict == "in use" and one.path.name.startswith(name) for one in alive) or not name
    if installation.family == "openmpi":
        assert any(one.verdict == "in use" and one.path.is_dir() for one in alive), "the session folder"
    job.kill()
    for one in job.sweep():
        os.utime(one.path)
    assert all(one.verdict in ("young", "cannot tell") for one in job.sweep(remove=True))
    job.make_old()
    swept = job.sweep(remove=True)
    stale = [one for one in swept if one.verdict == "stale"]
    assert not name or any(one.path.name.startswith(name) for one in stale), swept
    assert not any(one.path.exists() for one in stale)
    assert all(one.verdict == "cannot tell" for one in job.sweep())
    if installation.family == "openmpi":
        assert any(str(job.launcher.pid) in one.path.name and "has ended" in one.reason for one in stale)


def test_a_sweep_in_another_pid_namespace(job: Job) -> None:
    """Where /proc does not show the job, is it seen to live all the same?"""
    if os.geteuid() != 0:
        pytest.skip("PID namespaces need root")
    job.make_old()
    script = (
        "import sys; from pathlib import Path; from nearfield.mpi.leftovers import find_leftovers\n"
        "for one in find_leftovers([Path(sys.argv[1])]): print(one.verdict, one.path, one.reason, sep=';')"
    )
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = subprocess.run([*inside, sys.executable, "-c", script, job.folder], capture_output=True, text=True)
    seen = {line.split(";")[1]: line for line in done.stdout.splitlines()}
    used = [one for one in job.sweep() if one.verdict == "in use"]
    for one in used:
        assert seen[str(one.path)].startswith("in use;") and "not visible here" in seen[str(one.path)]


@pytest.mark.families
def test_a_job_that_starts_during_sweeps_runs(installation: Installation, programs: Path) -> None:
    """While another process sweeps without a pause, do jobs start and exchange their messages?"""
    program = mpi_program.built(installation, "trial.cpp", programs)
    sweeper = (
        "from pathlib import Path; from nearfield.mpi import leftovers; leftovers.MIN_STALE_AGE_S = -1.0\n"
        "print(flush=True)\n"
        "while True: leftovers.find_leftovers([])"
    )
    with subprocess.Popen([sys.executable, "-c", sweeper], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline()
            for _ in range(3):
                done = mpi.run(installation, [str(program)], 2, oversubscribe=CORES < 2, timeout_s=60)
                assert done.has_succeeded, done.stderr
        finally:
            process.kill()
