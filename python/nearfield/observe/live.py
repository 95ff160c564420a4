"""Runs an observed program while it is simulated: its ranks send their streams to this process instead of writing them
into files."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from nearfield._native import stream
from nearfield.base import own_command
from nearfield.base.errors import MeasurementError, MpiError
from nearfield.base.progress import ReportLine
from nearfield.mpi.run_child import child_setup
from nearfield.observe import trace
from nearfield.observe.flops import flops_of_hooks
from nearfield.observe.observing import PreparedCommand, complete_trace
from nearfield.observe.source_lines import CodeLocation, Line, line_of_call, lines_of

Result = TypeVar("Result")
_POLL_INTERVAL_S = 0.02
_ADDR_NO_RANDOMIZE, _QUERY_PERSONALITY = 0x0040000, 0xFFFFFFFF  # sys/personality.h
_GRACE_PERIOD_S = 4.0  # time in which the command must end after the simulation or a signal


class SimulationCancelled(Exception):
    """Raised in the simulation when it must end early."""


class ObservedCommand:
    """A command that runs under observation while entered as a context. When the context is left, the command has ended
    in any case."""

    def __init__(
        self, prepared: PreparedCommand, keep: Path | None, *, live_queries: bool, clock: bool = False
    ) -> None:
        """`keep` is a folder into which the trace is saved as well, or None. With `live_queries`, the simulation
        decides nondeterministic MPI outcomes; with `clock`, also the values of MPI_Wtime. Raises UsageError if the
        folder is not empty."""
        self._prepared, self._keep, self._live_queries, self._clock = prepared, keep, live_queries, clock
        self._stopping = threading.Event()
        self._ended = 0.0  # monotonic time of the command's end; 0: still running
        self.left_behind = False  # True: ranks outlived their launcher
        if keep:
            trace.create_trace_folder(keep, prepared.about, force=False)
        self.streams = stream.Live()
        if keep:
            self.streams.save_to(str(keep))

    def __enter__(self) -> ObservedCommand:
        self._begun = time.monotonic()
        words, environment = (
            self._prepared.words,
            self._prepared.environment(self.streams.address, live_queries=self._live_queries, clock=self._clock),
        )
        try:
            self._child = subprocess.Popen(
                words, env=environment, close_fds=False, preexec_fn=_address_randomization_disabler()
            )
        except OSError as error:
            raise MpiError(f"cannot start {words[0]}: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._stopping.set()
        if kind:
            self.streams.close()
            self._end_command()

    def wait_for_ranks(self) -> int:
        """Waits until all ranks are connected and returns their number. Raises MeasurementError if the command ends
        before."""
        last_looks = 10  # remaining polls after the command's end, while its last data may be in flight
        while not (ranks := self.streams.ranks):
            if self._child.poll() is not None and self.streams.idle:
                last_looks -= 1
            if not last_looks:
                raise MeasurementError(
                    f"the command ended with code {self._exit_code()} before all its ranks were there to be simulated",
                    "link the program dynamically, and start it by its own MPI, with all ranks on this host (or "
                    "observe it, and simulate the trace); one without MPI must be compiled by "
                    f"{own_command.line('cc')}, cxx or fc",
                )
            time.sleep(_POLL_INTERVAL_S)
        return ranks

    def run_in_thread(self, work: Callable[[], Result]) -> Result:
        """Runs the work, which reads the streams, in another thread, so that this thread can handle signals. Returns
        the result of the work, or raises its exception."""
        results: list[Result] = []
        problems: list[BaseException] = []

        def do() -> None:
            try:
                results.append(work())
            except BaseException as problem:  # noqa: BLE001  # raised again in the calling thread
                problems.append(problem)

        thread = threading.Thread(target=do)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_INTERVAL_S)
                self._check_exit()
        except BaseException:
            self._stopping.set()
            self.streams.close()
            self._end_command()
            thread.join()
            raise
        if problems:
            raise problems[0]
        return results[0]

    def make_cancellable(self, progress: Callable[[int], None]) -> Callable[[int], None]:
        """Returns a progress callback for the simulation. It raises SimulationCancelled once the simulation must end,
        otherwise calls `progress`."""

        def report(accesses: int) -> None:
            if self._stopping.is_set():
                raise SimulationCancelled
            progress(accesses)

        return report

    def wait_for_end(self, progress: ReportLine) -> str:
        """Waits for the command's end after the simulation has ended, and completes a saved trace. Returns a
        description of the command's failure; '' if there was none."""
        self.streams.discard_unread()
        while self._child.poll() is None or not self.streams.idle:
            time.sleep(_POLL_INTERVAL_S)
            self._check_exit()
        about = self._prepared.about
        about.exit_code, about.seconds = self._exit_code(), time.monotonic() - self._begun
        problem = f"the command ended with code {about.exit_code}" if about.exit_code else ""
        if self._keep:
            self.streams.close()
            problem = complete_trace(self._keep, about, progress) or problem
        return problem or self.streams.save_error

    def failure_reason(self) -> str:
        """Returns why a stream may have ended before the program: the command's exit code, if the command ends within
        _GRACE_PERIOD_S; otherwise ''."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_GRACE_PERIOD_S)
        return "" if self._child.returncode is None else f"the command ended with code {self._exit_code()}"

    def _check_exit(self) -> None:
        """Closes the streams if ranks outlive their launcher by more than _GRACE_PERIOD_S."""
        if self._child.poll() is None:
            return
        self._ended = self._ended or time.monotonic()
        self.streams.read_until_eof()
        if not self.streams.idle and time.monotonic() - self._ended > _GRACE_PERIOD_S:
            self.left_behind = True
            self.streams.close()

    def _exit_code(self) -> int:
        code = self._child.returncode
        return code if code >= 0 else 128 - code

    def _end_command(self) -> None:
        """Ends the command as a batch system does: SIGTERM, then SIGKILL after _GRACE_PERIOD_S."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is not None:
                return
            self._child.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(_GRACE_PERIOD_S)


def _address_randomization_disabler() -> Callable[[], None]:
    """Returns a function for the child process that disables address space randomisation, where that is permitted, so
    that results are reproducible to the last digit."""
    act, personality = child_setup(()), ctypes.CDLL(None).personality

    def do() -> None:
        act()
        personality(personality(_QUERY_PERSONALITY) | _ADDR_NO_RANDOMIZE)

    return do


class MachineCode:
    """Looks up floating-point operations of accesses and source lines of MPI calls in the program's object files."""

    def __init__(self) -> None:
        self._lines: dict[CodeLocation, Line] = {}
        self.flops_of: Callable[[str], Mapping[int, float]] = cache(flops_of_hooks)

    def read_lines(self, replayed: Any) -> None:
        """Finds the source lines of all MPI calls of a simulated program (nearfield._native.replay.Replayed)."""
        calls = (call.place for rank in replayed.ranks for call in rank.calls)
        places = {(at.object, at.offset) for place in calls for at in (place, *place.callers)}
        self._lines = lines_of(places)

    def line_of(self, called: str, frames: list[CodeLocation]) -> str:
        """Returns the source line of an MPI call as text, in the form of observe.replay.LineOf."""
        return str(line_of_call(self._lines, called, frames))
