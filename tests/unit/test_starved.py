"""Is a job that other programs keep from running distinguished from one that hangs?"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearfield.tune import starved
from nearfield.tune.starved import MAX_STARVED_LIMIT_FACTOR, JobProcesses, JobStarved, JobTurn

LIMIT_S = 0.3
SPIN = "while True: pass"
CORE = min(os.sched_getaffinity(0))
Starter = Callable[..., None]


@pytest.fixture
def start() -> Iterator[Starter]:
    """Starts Python code in a process of its own on one core, with a folder in its command line, and returns when the
    code runs. The process ends with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def started(code: str, folder: Path, policy: int = os.SCHED_OTHER) -> None:
        words = [sys.executable, "-c", f"print(flush=True)\n{code}", str(folder)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        running.append(process)
        assert process.stdout
        process.stdout.readline()
        os.sched_setaffinity(process.pid, {CORE})
        os.sched_setscheduler(process.pid, policy, os.sched_param(0))

    yield started
    for process in running:
        process.kill()
        process.wait()


def until_given_up(job: JobProcesses) -> float:
    """Returns after how many seconds a turn of the job is given up as hanging. Raises Starved."""
    start = time.monotonic()  # first, since this process may be preempted between the two
    turn = JobTurn(job, job.sample_processes())
    while turn.can_still_reply(LIMIT_S):
        time.sleep(0.05)
    return time.monotonic() - start


@pytest.mark.parametrize("code", [SPIN, "import time; time.sleep(100)"], ids=["spins", "sleeps"])
def test_what_could_run_and_does_not_answer_hangs(
    start: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Whether it burns its time or sleeps: is it found in the limit, or later on a core that it must share?"""
    monkeypatch.setattr(starved, "MAX_STARVED_LIMIT_FACTOR", 100)
    start(code, tmp_path)
    assert until_given_up(JobProcesses(tmp_path)) >= LIMIT_S


def test_what_has_no_processor_is_starved(start: Starter, tmp_path: Path) -> None:
    """If others take the core all the time, is the job waited for longer, and then not said to hang?"""
    start(SPIN, tmp_path / "others")
    start(SPIN, tmp_path / "job", os.SCHED_IDLE)
    begin = time.monotonic()
    with pytest.raises(JobStarved, match="for a processor that other programs used"):
        until_given_up(JobProcesses(tmp_path / "job"))
    assert time.monotonic() - begin >= MAX_STARVED_LIMIT_FACTOR * LIMIT_S


def test_a_job_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    assert until_given_up(JobProcesses(tmp_path / "nobody")) >= LIMIT_S
