"""Runs cases on local cores or, through mpi4py, on those of a cluster; results come as they are ready."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from threading import Thread

from nearfield.base.errors import MeasurementError, UsageError
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import Case
from nearfield.measure.stop import Stop

Finished = tuple[Case, list[Row], float]  # a case, its records, and the seconds that simulating it took
Runner = Callable[[list[Case]], Iterator[Finished]]
LOOK_UP_S = 0.2  # seconds until Ctrl-C is noticed, at most


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_after_the_other(cases: list[Case], stop: Stop | None = None) -> Iterator[Finished]:
    """Yields each case with its records, simulated in this process; Ctrl-C ends a case soon."""
    for case in cases:
        yield case, *(stop or Stop()).run(lambda case=case: _timed(case))  # type: ignore[misc]


def _timed(case: Case) -> tuple[list[Row], float]:
    """Returns the records of a case and the seconds that simulating it took."""
    begun = time.monotonic()
    return case.run(), time.monotonic() - begun


def on_cores(jobs: int, stop: Stop | None = None) -> Runner:
    """Returns a runner that simulates on this many processes, or in this one if it is a single one."""

    def run(cases: list[Case]) -> Iterator[Finished]:
        if min(jobs, len(cases)) <= 1:
            yield from one_after_the_other(cases, stop)
            return
        with _processes(min(jobs, len(cases))) as executor:
            yield from _through(executor, cases, stop or Stop())

    return run


def on_mpi(stop: Stop) -> Runner:
    """Returns a runner that simulates on the other ranks of this MPI run."""
    executor_type = mpi_executor()

    def run(cases: list[Case]) -> Iterator[Finished]:
        with executor_type() as executor:
            yield from _through(executor, cases, stop)

    return run


def mpi_executor() -> type[Executor]:
    """Returns mpi4py's executor. Raises UsageError without mpi4py, or without an MPI that it can load."""
    try:
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        command = "mpiexec -n 16 {python} -m mpi4py.futures -m nearfield simulate ... --mpi"
        raise without_mpi(error, command) from error
    return MPIPoolExecutor


def without_mpi(error: Exception, command: str) -> UsageError:
    """Returns the error for a user whose mpi4py cannot be imported; the command is what to type when it can."""
    python = shlex.quote(sys.executable)
    remedy = f"{python} -m pip install mpi4py; then: {command.format(python=python)}"
    return UsageError(f"--mpi needs mpi4py with an MPI: {error}", remedy)


def in_order(cases: list[Case]) -> list[Case]:
    """Returns the cases in the order in which they should run. Very short ones come first, so that there are soon
    results, and a speed to estimate the end by. The others follow, the longest first, so that none is left alone at the
    end."""
    little = sum(case.work for case in cases) / 1000
    return sorted(cases, key=lambda case: (case.work > little, -case.work if case.work > little else 0.0))


def _through(executor: Executor, cases: list[Case], stop: Stop) -> Iterator[Finished]:
    futures: dict[Future[tuple[list[Row], float]], Case] = {}
    try:
        with _interrupts_kept_off():
            for case in in_order(cases):
                futures[executor.submit(_timed, case)] = case
        left = set(futures)
        while left:
            done, left = wait(left, timeout=LOOK_UP_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield futures[future], *future.result()
            stop.check()
    except BrokenExecutor as error:
        time.sleep(LOOK_UP_S)  # a signal to the whole group may reach the workers before this process
        stop.check()
        raise MeasurementError(
            "a process of the simulation died: there was probably too little memory",
            "take fewer --jobs: each needs memory of its own",
        ) from error
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _processes(jobs: int) -> Iterator[Executor]:
    """Provides worker processes, which end at once when an exception such as Ctrl-C leaves the block."""
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """Makes a worker process end when its parent is killed. It would otherwise go on with its simulation."""
    parent = multiprocessing.parent_process()
    assert parent

    def wait_for_its_end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait_for_its_end, daemon=True).start()


@contextmanager
def _interrupts_kept_off() -> Iterator[None]:
    """Provides a context whose new processes never see Ctrl-C, not even while they start, because their parent handles
    it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
