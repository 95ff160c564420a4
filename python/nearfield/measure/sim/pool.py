"""Simulates cases on local cores or, through mpi4py, on the ranks of an MPI job. Results arrive in order of
completion."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from threading import Thread, Timer
from typing import TYPE_CHECKING, NoReturn

from nearfield import _native
from nearfield.base.errors import MeasurementError, NodeLostError, UsageError
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.row import Row
from nearfield.measure.sim.cases import SimulationCase

if TYPE_CHECKING:
    from mpi4py import MPI

# A case, its records, and the duration of its simulation in seconds.
FinishedCase = tuple[SimulationCase, list[Row], float]
CaseRunner = Callable[[list[SimulationCase]], Iterator[FinishedCase]]
POLL_INTERVAL_S = 0.2  # maximum delay until Ctrl-C takes effect
ABORT_TIMEOUT_S = 2.0  # time limit of MPI_Abort, which may wait for a dead node


def num_usable_cores() -> int:
    """Returns the number of cores in this process's affinity mask."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_sequentially(cases: list[SimulationCase], guard: InterruptGuard | None = None) -> Iterator[FinishedCase]:
    """Simulates the cases in this process, and yields each with its records and seconds. Ctrl-C interrupts a running
    case."""
    for case in cases:
        yield case, *(guard or InterruptGuard()).run(lambda case=case: _run_and_time(case))  # type: ignore[misc]


def _run_and_time(case: SimulationCase) -> tuple[list[Row], float]:
    """Simulates a case. Returns its records and the duration in seconds."""
    started = time.monotonic()
    return case.run(), time.monotonic() - started


def make_runner_on_cores(jobs: int, guard: InterruptGuard | None = None) -> CaseRunner:
    """Returns a runner that simulates in `jobs` worker processes; in this process if `jobs` is 1."""

    def run(cases: list[SimulationCase]) -> Iterator[FinishedCase]:
        if min(jobs, len(cases)) <= 1:
            yield from run_sequentially(cases, guard)
            return
        with _worker_processes(min(jobs, len(cases))) as executor:
            yield from _run_on_executor(executor, cases, guard or InterruptGuard())

    return run


def make_runner_on_mpi(guard: InterruptGuard) -> CaseRunner:
    """Returns a runner that simulates on the other ranks of this MPI job."""
    executor_type = mpi_executor()

    def run(cases: list[SimulationCase]) -> Iterator[FinishedCase]:
        hub = None if _is_job_on_one_node() else _native.NodeHub()
        executor = executor_type(initializer=_join_node_watch, initargs=(hub.address,)) if hub else executor_type()
        try:
            yield from _run_on_executor(executor, cases, guard, hub)
        except NodeLostError:
            raise  # without a shutdown, which would wait for the dead node
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
        executor.shutdown()
        if hub:
            hub.close()

    return run


# Variables that launchers set for each rank: the number of ranks, and of those on the same node.
_RANK_COUNT_VARIABLES = (("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("PMI_SIZE", "MPI_LOCALNRANKS"))


def _is_job_on_one_node() -> bool:
    """Returns whether the launcher says that all ranks are on this node."""
    return any(
        ranks in os.environ and os.environ[ranks] == os.environ.get(ranks_on_node)
        for ranks, ranks_on_node in _RANK_COUNT_VARIABLES
    )


_node_member: _native.NodeMember | None = None  # of this worker


def _join_node_watch(address: str) -> None:
    """Connects this worker to the first rank, so that the first rank notices if the worker's node dies, and this
    process ends if the first rank's node dies."""
    global _node_member
    _node_member = _node_member or _native.NodeMember(address)
    atexit.register(_node_member.close)


def abort_job(comm: MPI.Comm, code: int) -> NoReturn:
    """Ends the MPI job by MPI_Abort, and this process even if MPI_Abort does not return."""
    timer = Timer(ABORT_TIMEOUT_S, os._exit, [code])
    timer.daemon = True
    timer.start()
    comm.Abort(code)
    os._exit(code)


def mpi_executor() -> Callable[..., Executor]:
    """Returns mpi4py's executor class. Raises UsageError if mpi4py is missing or cannot load an MPI."""
    try:
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        command = "mpiexec -n 16 {python} -m mpi4py.futures -m nearfield simulate ... --mpi"
        raise missing_mpi_error(error, command) from error
    return MPIPoolExecutor


def missing_mpi_error(error: Exception, command: str) -> UsageError:
    """Returns the error for a user whose mpi4py cannot be imported. `command` is the command to run after mpi4py was
    installed."""
    python = shlex.quote(sys.executable)
    remedy = f"{python} -m pip install mpi4py; then: {command.format(python=python)}"
    return UsageError(f"--mpi needs mpi4py with an MPI: {error}", remedy)


def sort_for_scheduling(cases: list[SimulationCase]) -> list[SimulationCase]:
    """Returns the cases in scheduling order: very short ones first, so that results and an estimate of the remaining
    time appear early; then the others, longest first, for load balance."""
    short_work = sum(case.estimated_work for case in cases) / 1000
    return sorted(
        cases,
        key=lambda case: (
            case.estimated_work > short_work,
            -case.estimated_work if case.estimated_work > short_work else 0.0,
        ),
    )


def _run_on_executor(
    executor: Executor, cases: list[SimulationCase], guard: InterruptGuard, hub: _native.NodeHub | None = None
) -> Iterator[FinishedCase]:
    # If this is left early, the caller cancels the pending futures, or ends the workers. A future must not be cancelled
    # here: when a worker ends, an executor of processes sets the exceptions of all futures, and its thread prints a
    # traceback for a cancelled one.
    futures: dict[Future[tuple[list[Row], float]], SimulationCase] = {}
    try:
        with _block_interrupts():
            for case in sort_for_scheduling(cases):
                futures[executor.submit(_run_and_time, case)] = case
        remaining = set(futures)
        while remaining:
            done, remaining = wait(remaining, timeout=POLL_INTERVAL_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield futures[future], *future.result()
            guard.raise_if_signalled()
            if hub and (lost := hub.lost()):
                raise NodeLostError(lost, "the same command continues after the cases that --out has")
    except BrokenExecutor as error:
        # A signal to the process group may have killed the workers before it reaches this process.
        time.sleep(POLL_INTERVAL_S)
        guard.raise_if_signalled()
        raise MeasurementError(
            "a process of the simulation died: there was probably too little memory",
            "take fewer --jobs: each needs memory of its own",
        ) from error


@contextmanager
def _worker_processes(jobs: int) -> Iterator[Executor]:
    """Yields an executor whose worker processes are terminated if an exception, such as KeyboardInterrupt, leaves the
    block."""
    earlier_processes = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield executor
    except BaseException:
        for process in set(multiprocessing.active_children()) - earlier_processes:
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """Starts a thread that ends this worker process when its parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent

    def exit_with_parent() -> None:
        parent.join()
        os._exit(1)

    Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Blocks SIGINT in processes that start inside this block, including their start-up, because the parent handles
    Ctrl-C."""
    earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)
