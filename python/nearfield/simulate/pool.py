"""Runs cases on local cores or, through mpi4py, on those of a cluster; results come as they are ready."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager

from nearfield.errors import MeasurementError, UsageError
from nearfield.simulate.case import Case, Result, run_case

Runner = Callable[[list[Case]], Iterator[tuple[Case, Result]]]


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_after_the_other(cases: list[Case]) -> Iterator[tuple[Case, Result]]:
    for case in cases:
        yield case, run_case(case)


def on_cores(jobs: int) -> Runner:
    """On so many processes; in this one if that is all."""

    def run(cases: list[Case]) -> Iterator[tuple[Case, Result]]:
        if min(jobs, len(cases)) <= 1:
            yield from one_after_the_other(cases)
            return
        with _processes(min(jobs, len(cases))) as executor:
            yield from _through(executor, cases)

    return run


def on_mpi(cases: list[Case]) -> Iterator[tuple[Case, Result]]:
    """On the other ranks of this MPI run."""
    with mpi_executor()() as executor:
        yield from _through(executor, cases)


def mpi_executor() -> type[Executor]:
    """UsageError without mpi4py, or without an MPI that it can load."""
    try:
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"--mpi needs mpi4py with an MPI: {error}",
            "pip install mpi4py; then: mpiexec -n 16 python -m mpi4py.futures -m nearfield simulate ... --mpi",
        ) from error
    return MPIPoolExecutor


def _through(executor: Executor, cases: list[Case]) -> Iterator[tuple[Case, Result]]:
    """The longest first, so that none is left alone at the end."""
    futures = {executor.submit(run_case, case): case for case in sorted(cases, key=lambda c: -c.work)}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
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
