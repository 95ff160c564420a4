"""Does an interrupted `nearfield simulate` keep what is done, and do its processes and MPI ranks end in order?"""

import os
import signal
import subprocess
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from small_simulations import SMALL, add_records, request, run
from typer.testing import CliRunner

from nearfield.base import own_command
from nearfield.base.errors import NearfieldError, UsageError
from nearfield.cli import app
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.sim import pool
from nearfield.profile import load


def test_resume_simulates_only_what_is_missing(tmp_path):
    """Are records that are there left as they are, and only the others simulated?"""
    out, simulated = tmp_path / "profile", []

    def watched(cases):
        simulated.extend(cases)
        return pool.run_sequentially(cases)

    def go(**changed) -> None:
        simulated.clear()
        assert add_records(request(**changed), out, watched).is_complete

    go()
    first = load(out).records
    assert [case.value_by_parameter["size_bytes"] for case in simulated] == [4096, 16384]
    go()
    assert simulated == []
    go(sizes=(4096, 8192), policies=("payload-l3", "header-l2"), slowdowns=(1.0, 5.0))
    given = [(case.value_by_parameter["size_bytes"], case.axes.policies, case.axes.slowdowns) for case in simulated]
    assert given[0] == (4096, ("memory", "payload-l3", "header-l2"), (1.0, 5.0))
    assert given[1] == (8192, ("memory", "payload-l3", "header-l2"), (1.0, 5.0))
    later = load(out).records
    assert set(first.rows()) <= set(later.select(first.columns).rows())
    go(sizes=(4096,), policies=("header-l2",))
    assert simulated == []


def test_what_is_done_survives_an_interruption(tmp_path):
    """After Ctrl-C in the middle: is what was done in the profile, and does the next run go on from there?"""
    out = tmp_path / "profile"

    def interrupted(cases):
        yield from pool.run_sequentially(cases[:1])
        signal.raise_signal(signal.SIGINT)

    outcome = add_records(request(), out, interrupted, "nearfield simulate bcast")
    assert not outcome.is_complete and not load(out).run.complete
    shown = CliRunner().invoke(app, ["show", str(out)]).output
    assert f"to complete it: {own_command.own_executable()} simulate bcast" in " ".join(shown.split())
    left = []

    def rest(cases):
        left.extend(cases)
        return pool.run_sequentially(cases)

    add_records(request(), out, rest)
    assert [case.value_by_parameter["size_bytes"] for case in left] == [16384] and load(out).run.complete
    whole = add_records(request(), tmp_path / "whole")
    assert load(out).records.equals(load(tmp_path / "whole").records)
    assert whole.is_complete


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_end_processes_in_order(tmp_path, number):
    """Stopped while processes simulate, twice even, once alone and once with all its processes: does it end soon, say
    how to go on and with its exit code by what, and leave no process behind? Nor if it is killed?"""
    out = tmp_path / "profile"
    options = ["--nodes", "8", "--sizes", "64,16M", "--repetitions", "10000", "--jobs", "2", "--out", out]
    command = [Path(sys.executable).with_name("nearfield"), "simulate", "bcast", *options]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    while not children_of(running.pid):
        assert running.poll() is None
        time.sleep(0.1)
    started = children_of(running.pid)
    time.sleep(0.5)
    for send in {signal.SIGTERM: (os.killpg, os.kill), signal.SIGKILL: (os.kill,)}.get(number, (os.kill, os.killpg)):
        send(running.pid, number)
    _, errors = running.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert running.returncode == 128 + number, errors
        assert "Traceback" not in errors and "memory" not in errors and "the same command" in errors
    deadline = time.monotonic() + 20  # Python's own helper ends when it sees its parent gone
    while left := [pid for pid in started if is_alive(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_mpi_without_mpi4py(monkeypatch):
    """Does --mpi say what to install?"""
    monkeypatch.setitem(sys.modules, "mpi4py.futures", None)
    with pytest.raises(UsageError, match="pip install mpi4py"):
        run("bcast", *SMALL, "--mpi")


def test_mpi_ranks_simulate(monkeypatch):
    """With mpi4py: do its workers get the cases, and is the result that of one process? (Its pool is one of threads
    here.)"""
    stand_in = types.SimpleNamespace(MPIPoolExecutor=lambda **options: ThreadPoolExecutor(2, **options))
    monkeypatch.setitem(sys.modules, "mpi4py.futures", stand_in)
    options = ["bcast", *SMALL, "--policy", "payload-l3", "--json"]
    assert run(*options, "--mpi") == run(*options)


def test_a_worker_that_dies_is_reported():
    """Is a process that ends, out of memory say, reported to the user rather than waited for?"""
    with pytest.raises(NearfieldError, match="died"):
        list(pool._run_on_executor(ThreadPoolExecutorThatBreaks(), request().cases(), InterruptGuard()))


def test_something_is_there_soon_and_nothing_is_left_alone_at_the_end():
    """Are short cases simulated first, as they come, and of the others the longest?"""
    cases = [types.SimpleNamespace(estimated_work=work) for work in (5.0, 0.001, 900.0, 0.002, 20.0, 0.001)]
    assert [case.estimated_work for case in pool.sort_for_scheduling(cases)] == [0.001, 0.002, 0.001, 900.0, 20.0, 5.0]


def test_workers_that_end_with_the_command_are_no_lack_of_memory():
    """A batch system ends a job's processes in any order: if the workers are the first, is it a stop all the same?"""
    with InterruptGuard() as stop, pytest.raises(KeyboardInterrupt):
        threading.Timer(pool.POLL_INTERVAL_S / 2, os.kill, [os.getpid(), signal.SIGTERM]).start()
        list(pool._run_on_executor(ThreadPoolExecutorThatBreaks(), request().cases(), stop))
    assert stop.exit_code == 143


class ThreadPoolExecutorThatBreaks(ThreadPoolExecutor):
    def submit(self, *_, **__):
        from concurrent.futures import BrokenExecutor

        def fail():
            raise BrokenExecutor

        return super().submit(fail)
