"""Measures jobs of one MPI alternately. The jobs stay resident on the same two cores under different settings.

An MPI reads its parameters only once, in MPI_Init, so two settings need two launches, and launches minutes apart vary
more than settings do. Therefore every job blocks in read() of a FIFO (src/probe/remote_control.hpp) until its turn, and
the turns of the jobs are milliseconds apart. The scheduling thread sleeps while a job measures."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from nearfield import _native, mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.paired import measure_alternately
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.rules.criterion import COLLECTIVE_PATTERNS
from nearfield.rules.gains import BenchmarkCase, TimePair, is_same_distance
from nearfield.tune.starved import JobProcesses, JobTurn, OutOfTime

# Time limits for the reply of a job, not counting the time that it waits for a CPU.
JOB_START_LIMIT_S = 20.0
JOB_REPLY_LIMIT_S = 10.0
VOLUNTARY_EXIT_LIMIT_S = 2.0  # time for a job to exit voluntarily
JOB_END_LIMIT_S = 20.0
SCENARIO_NAME = "traffic"
LONG_MESSAGE_BYTES = 32 << 20


class UnusableSetting(MeasurementError):
    """With these settings MPI does not start, hangs, dies or corrupts data, as the message states."""

    job: ResidentJob | None = None  # the one of two compared jobs that failed


class BatchResult(NamedTuple):
    """The measured times per message of a batch of repetitions, and the core-to-core latencies before and after the
    batch, all in ns."""

    times_ns: list[float]
    c2c_latencies_ns: list[float]


class ResidentJob:
    """An MPI job of two ranks under one setting, which stays resident between measurements. Use as a context manager.
    Not thread-safe."""

    def __init__(
        self,
        inst: Installation,
        engine: Path,
        topology: Topology,
        core_pair: tuple[int, int],
        sizes: Sequence[int],
        environment: Mapping[str, str],
        *,
        corrupts_data: bool = False,
        get_deadline_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """`corrupts_data` corrupts data on arrival, to test that the check detects corruption. `get_deadline_s` returns
        the deadline on the monotonic clock after which the job no longer waits for replies."""
        self._inst, self._engine, self._environment = inst, engine, dict(environment)
        self._plan: dict[str, Any] = {
            "cache_bytes": " ".join(map(str, topology.cache_bytes(core_pair[0]))),
            "sizes": " ".join(map(str, sizes)),
            "scenario": f"{SCENARIO_NAME} 0",
            "corrupt": int(corrupts_data),
        }
        self._pair, self._until = core_pair, get_deadline_s
        self._launcher: int | None = None
        self._given_up = threading.Event()
        self._finished: mpi.FinishedLaunch | None = None
        self._failure: Exception | None = None
        self._unread = b""
        self.cases: dict[BenchmarkCase, int] = {}

    def __enter__(self) -> ResidentJob:
        self._require_remaining_time()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(OwnedFolder("nearfield-tune-")))
            self._job = JobProcesses(folder)
            fifos = [folder / f"turns.{rank}" for rank in range(len(self._pair))]
            for fifo in (*fifos, folder / "answers"):
                os.mkfifo(fifo, 0o600)
            # O_RDWR, so that open() does not block and the exit of a job does not cause an end of file.
            self._commands = [_open_fifo(stack, fifo, os.O_RDWR) for fifo in fifos]
            self._replies = _open_fifo(stack, folder / "answers", os.O_RDWR | os.O_NONBLOCK)
            plan = {**self._plan, "output": folder / "answers", "turns": folder / "turns"}
            text = "".join(f"{key} = {value}\n" for key, value in plan.items())
            (folder / "plan").write_text(text + "".join(f"rank = {cpu}\n" for cpu in self._pair), encoding="utf-8")
            self._thread = threading.Thread(target=self._run, args=(folder / "plan",), daemon=True)
            # registered before the thread starts, since Ctrl-C may arrive during the start
            stack.callback(self._end_job)
            self._thread.start()
            cases = self._read_reply("cases", JOB_START_LIMIT_S)["cases"]
            self._job.cache_processes()
            self.cases = {(case["pattern"], case["size_bytes"]): index for index, case in enumerate(cases)}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _end_job(self) -> None:
        self._send_command("end")
        if self._thread.ident is None:  # the thread has not started
            self._given_up.set()
            return
        try:
            self._thread.join(VOLUNTARY_EXIT_LIMIT_S)
        finally:  # also if Ctrl-C interrupts the join
            if self._thread.is_alive():
                self._given_up.set()
                self._kill()
                self._thread.join(JOB_END_LIMIT_S)  # if the launcher starts only now, `started` kills it

    def check_data(self, case: BenchmarkCase) -> None:
        """Sends a message of this case and raises UnusableSetting unless the data arrives intact."""
        self._send_command(f"check {self.cases[case]}")
        if problem := self._read_reply("checked", JOB_REPLY_LIMIT_S)["problem"]:
            raise UnusableSetting(f"damages data: {case[0]} of {case[1]} bytes: {problem}")

    def run_batch(self, case: BenchmarkCase, repetitions: int) -> BatchResult:
        """Measures a batch of repetitions. Returns their times. Raises UnusableSetting if the batch does not end."""
        self._send_command(f"visit {self.cases[case]} {repetitions}")
        reply = self._read_reply("visit", JOB_REPLY_LIMIT_S)
        return BatchResult(reply["samples"], reply["flag_ns"])

    def _run(self, plan: Path) -> None:
        def started(pid: int) -> None:
            self._launcher = pid
            if self._given_up.is_set():
                self._kill()

        if self._given_up.is_set():
            return
        try:
            self._finished = mpi.run(
                self._inst, [str(self._engine), str(plan)], len(self._pair), env=self._environment, on_start=started
            )
        except Exception as error:  # re-raised by the thread that waits for the reply
            self._failure = error

    def _kill(self) -> None:
        """Sends SIGKILL to the launcher if it has started. `mpi.run` then ends the ranks."""
        if self._launcher:
            with suppress(ProcessLookupError):
                os.kill(self._launcher, signal.SIGKILL)

    def _send_command(self, command: str) -> None:
        for descriptor in self._commands:
            os.write(descriptor, f"{command}\n".encode())

    def _read_reply(self, reply_type: str, limit_s: float) -> dict[str, Any]:
        """Returns the job's next reply of type `reply_type`; skips other lines. Raises UnusableSetting if no reply
        arrives within the limit, and JobStarved if other programs starved the job of CPU time or the deadline has
        passed."""
        turn = JobTurn(self._job, self._job.sample_processes() if self.cases else {})
        while True:
            while b"\n" in self._unread:
                line, _, self._unread = self._unread.partition(b"\n")
                reply: dict[str, Any] = json.loads(line)
                if reply["type"] == reply_type:
                    return reply
            self._require_remaining_time()
            if not turn.can_still_reply(limit_s):
                raise UnusableSetting(
                    f"{'hangs' if self.cases else 'does not start'}: no answer within {limit_s:.0f} s"
                )
            if select.select([self._replies], [], [], 0.1)[0]:
                self._unread += os.read(self._replies, 1 << 16)
            elif not self._thread.is_alive():
                raise self._error_of_ended_job()

    def _require_remaining_time(self) -> None:
        if time.monotonic() > self._until():
            raise OutOfTime("the time was over before it had answered")

    def _error_of_ended_job(self) -> Exception:
        if self._failure:
            return self._failure
        assert self._finished
        what = "does not start" if not self.cases else "dies"
        said = [*self._finished.output_lines, self._finished.describe_silence][0]
        return UnusableSetting(f"{what} (exit code {self._finished.exit_code}): {said}")


def _open_fifo(stack: ExitStack, fifo: Path, flags: int) -> int:
    """Opens the FIFO. Returns its file descriptor, which the stack closes."""
    descriptor = os.open(fifo, flags | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def measure_interleaved_pairs(
    baseline: ResidentJob, tuned_job: ResidentJob, case: BenchmarkCase, num_pairs: int
) -> list[TimePair]:
    """Measures `num_pairs` pairs of times of the two jobs. The jobs take turns at being measured first."""
    rounds = measure_alternately(
        {job: partial(_run_batch, job, case) for job in (baseline, tuned_job)}, _have_cores_moved
    )
    return [_pair_from_batches(batches[baseline], batches[tuned_job]) for batches in islice(rounds, num_pairs)]


def _run_batch(job: ResidentJob, case: BenchmarkCase) -> BatchResult:
    try:
        return job.run_batch(case, count_repetitions(case))
    except UnusableSetting as error:
        error.job = job
        raise


def _have_cores_moved(batches: Mapping[ResidentJob, BatchResult]) -> bool:
    """Returns whether the core-to-core latency changed during a round, so that the round must be repeated."""
    latencies = [latency for batch in batches.values() for latency in batch.c2c_latencies_ns]
    return not is_same_distance(max(latencies), min(latencies))


def _pair_from_batches(baseline: BatchResult, tuned_batch: BatchResult) -> TimePair:
    """Returns the median times of both jobs' batches, with the larger core-to-core latency."""
    baseline_ns, other_ns = (_native.quantile(batch.times_ns, 0.5) for batch in (baseline, tuned_batch))
    return TimePair(baseline_ns, other_ns, max([*baseline.c2c_latencies_ns, *tuned_batch.c2c_latencies_ns]))


def count_repetitions(case: BenchmarkCase) -> int:
    """Returns the number of repetitions in a batch: as many as take about two milliseconds, but at least three, so that
    the median is robust against one interruption. Messages above LONG_MESSAGE_BYTES, which take much longer than an
    interruption, are sent once."""
    pattern, size = case
    guess_s = count_messages_per_repetition(case) * (5e-7 + size / 5e9)
    return 1 if size > LONG_MESSAGE_BYTES else max(3, min(20, int(2e-3 / guess_s)))


def count_messages_per_repetition(case: BenchmarkCase) -> int:
    """Returns the number of messages per repetition in src/probe/scenarios/traffic.cpp. A ping-pong counts as two
    messages, and a collective as one."""
    pattern, size = case
    if pattern in COLLECTIVE_PATTERNS:
        return 1
    count = max(1, min(32, (256 << 10) // size))
    return 2 * count if pattern in ("pingpong", "use") else count
