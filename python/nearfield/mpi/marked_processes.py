"""Finds and terminates the processes of a launch by the mark that all of them carry in their environment, and removes
the files that they leave behind. The guard process (guard.py) does so if nearfield is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nearfield.mpi.shm import remove_stale_shm

MARK_VARIABLE = "NEARFIELD_LAUNCH"
TERMINATION_GRACE_S = 3.0
_PF_EXITING = 0x4  # of a process's kernel flags, /proc/PID/stat field 9


def end_launch(mark: str, process: subprocess.Popen[Any]) -> None:
    """Terminates the launcher and all processes that carry the mark: by SIGTERM, and later by SIGKILL."""
    if process.poll() is None:
        _send_signal([process.pid], signal.SIGTERM)  # the launcher first: it also ends ranks on other hosts
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERMINATION_GRACE_S / 2)
    _end_marked_processes(mark)
    process.wait()


def clean_up_after_death(
    mark: str, launcher: int | None = None, scratch: Sequence[str] = (), shm: Sequence[str] | None = None
) -> None:
    """Terminates a launch and removes its files, as `run` does at its end. Called by the guard process if nearfield was
    killed. `shm` are the names of files in /dev/shm before the launch; None for a build."""
    deadline = time.monotonic() + TERMINATION_GRACE_S / 2
    _send_signal([pid for pid in find_marked_pids(mark) if pid == launcher], signal.SIGTERM)
    while any(pid == launcher for pid in find_marked_pids(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    _end_marked_processes(mark)
    if shm is not None:
        remove_stale_shm(set(shm))
    for folder in scratch:
        shutil.rmtree(folder, ignore_errors=True)


def _end_marked_processes(mark: str) -> None:
    deadline = time.monotonic() + TERMINATION_GRACE_S / 2
    _send_signal(find_marked_pids(mark), signal.SIGTERM)
    while (left := list(find_marked_pids(mark))) and time.monotonic() < deadline:
        time.sleep(0.05)
    while left:
        _send_signal(left, signal.SIGKILL)
        time.sleep(0.05)
        left = list(find_marked_pids(mark))


def find_marked_pids(mark: str) -> Iterator[int]:
    """Yields the process ids of all live processes whose environment contains the mark, as far as /proc is readable."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                if wanted in (process / "environ").read_bytes().split(b"\0") and not is_dead_process(process.name):
                    yield int(process.name)


def is_dead_process(pid: int | str) -> bool:
    """Returns whether a process has exited. Zombies, which only their parent can reap, count as exited, as does a
    process whose memory the kernel is already releasing."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] in "ZX" or bool(int(fields[6]) & _PF_EXITING)


def _send_signal(pids: Iterator[int] | list[int], signal_number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal_number)
