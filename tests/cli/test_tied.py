"""Do compilers and build tools end with the nearfield that started them, however that ends?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearfield.base.progress import LogLines
from nearfield.mpi.marked_processes import is_dead_process

# A build tool whose "compiler" goes into a session of its own and ignores SIGTERM, beside one that obeys.
TOOL = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.2; done' & sh -c 'echo $$; sleep 600' & wait"
PROGRAM = """
import os, signal, sys
from nearfield.mpi.tied import start_tied_process
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with open(sys.argv[1], "w") as log, start_tied_process(["sh", "-c", sys.argv[2]], os.environ, log) as process:
    process.wait()
"""


def written_pids(log: Path) -> list[int]:
    """Returns the process ids in the log, as soon as there are two."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        words = log.read_text().split() if log.exists() else []
        if len(words) == 2:
            return [int(word) for word in words]
        time.sleep(0.05)
    raise AssertionError("the build tool did not start")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_ends_with_who_started_it(number: int, tmp_path: Path) -> None:
    """After Ctrl-C, SIGTERM, and SIGKILL of nearfield alone: is no process of the build left?"""
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, log, TOOL], stderr=subprocess.DEVNULL) as running:
        pids = written_pids(log)
        os.kill(running.pid, number)
        assert running.wait(60) != 0
    until = time.monotonic() + 60
    while not all(is_dead_process(pid) for pid in pids):
        assert time.monotonic() < until, "a process of the build is left"
        time.sleep(0.05)


def test_progress_is_reported_when_it_changes() -> None:
    """Is a change printed after some seconds, and an unchanged line only every quarter of a minute?"""
    printed: list[str] = []
    now = [0.0]
    lines = LogLines(printed.append, clock=lambda: now[0])
    for second in range(60):
        now[0] = float(second)
        lines.add_line("compiling 1 of 9" if second < 30 else f"compiling {second // 2} of 99")
    assert printed[:2] == ["compiling 1 of 9"] * 2
    assert printed.count("compiling 1 of 9") == 2 and len(printed) == 2 + 6
