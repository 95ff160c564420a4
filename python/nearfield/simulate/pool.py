"""Runs cases on local cores or, through mpi4py, on those of a cluster; results come as they are ready."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from nearfield.errors import MeasurementError, UsageError
from nearfield.simulate.case import Case, Result, run_case
from nearfield.simulate.stop import Stop

Runner = Callable[[list[Any]], Iterator[tuple[Any, Any]]]
LOOK_UP_S = 0.2  # how soon a Ctrl-C is heeded


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_after_the_other(
    cases: list[Any], stop: Stop | None = None, of_case: Callable[[Any], Any] = run_case
) -> Iterator[tuple[Any, Any]]:
    for case in cases:
        with (stop or Stop()).at_once():
            result = of_case(case)
        yield case, result


def on_cores(jobs: int, stop: Stop | None = None, of_case: Callable[[Any], Any] = run_case) -> Runner:
    """On so many processes; in this one if that is all. `of_case`: what is done for each, a function of a module; cases
    say how much `work` they are."""

    def run(cases: list[Any]) -> Iterator[tuple[Any, Any]]:
        if min(jobs, len(cases)) <= 1:
            yield from one_after_the_other(cases, stop, of_case)
            return
        with _processes(min(jobs, len(cases))) as executor:
            yield from _through(executor, cases, stop or Stop(), of_case)

    return run


def on_mpi(stop: Stop) -> Runner:
    """On the other ranks of this MPI run."""
    executor_type = mpi_executor()

    def run(cases: list[Case]) -> Iterator[tuple[Case, Result]]:
        with executor_type() as executor:
            yield from _through(executor, cases, stop)

    return run


def mpi_executor() -> type[Executor]:
    """UsageError without mpi4py, or without an MPI that it can load."""
    try:
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        python = shlex.quote(sys.executable)
        raise UsageError(
            f"--mpi needs mpi4py with an MPI: {error}",
            f"{python} -m pip install mpi4py; then: mpiexec -n 16 {python} -m mpi4py.futures -m nearfield "
            "simulate ... --mpi",
        ) from error
    return MPIPoolExecutor


def _through(
    executor: Executor, cases: list[Any], stop: Stop, of_case: Callable[[Any], Any] = run_case
) -> Iterator[tuple[Any, Any]]:
    """The longest first, so that none is left alone at the end."""
    futures = {executor.submit(of_case, case): case for case in sorted(cases, key=lambda c: -c.work)}
    left = set(futures)
    try:
        while left:
            done, left = wait(left, timeout=LOOK_UP_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield futures[future], future.result()
            stop.check()
    except BrokenExecutor as error:
        raise MeasurementError(
            "a process of the simulation died: there was probably too little memory",
            "Take fewer --jobs, nodes or policies; what is done is kept with --out.",
        ) from error
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _processes(jobs: int) -> Iterator[Executor]:
    """At Ctrl-C they end at once; it is the parent's to answer."""
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_ignore_interrupts)
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
