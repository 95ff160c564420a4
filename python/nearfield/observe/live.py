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
from nearfield.mpi.run_child import make_child_setup
from nearfield.observe import trace
from nearfield.observe.flops import flops_at_hooks
from nearfield.observe.observing import PreparedCommand, complete_trace
from nearfield.observe.source_lines import CodeLocation, SourceLine, find_source_lines, line_of_call

Result = TypeVar("Result")
_POLL_INTERVAL_S = 0.02
_ADDR_NO_RANDOMIZE, _QUERY_PERSONALITY = 0x0040000, 0xFFFFFFFF  # sys/personality.h
_GRACE_PERIOD_S = 4.0  # time in which the command must end after the simulation or a signal


class SimulationCancelled(Exception):
    """Raised in the simulation to end it early."""


class ObservedCommand:
    """A command that runs under observation while entered as a context. Leaving the context ends the command if it
    still runs."""

    def __init__(
        self,
        prepared: PreparedCommand,
        save_folder: Path | None,
        *,
        uses_live_queries: bool,
        controls_clock: bool = False,
    ) -> None:
        """`save_folder` is a folder into which the trace is saved as well, or None. With `uses_live_queries`, the
        simulation decides nondeterministic MPI outcomes; with `controls_clock`, also the values of MPI_Wtime. Raises
        UsageError if the folder is not empty."""
        self._prepared, self._save_folder = prepared, save_folder
        self._uses_live_queries, self._controls_clock = uses_live_queries, controls_clock
        self._stop_event = threading.Event()
        self._end_time = 0.0  # monotonic time of the command's end; 0: still running
        self.has_left_processes = False  # True: ranks outlived their launcher
        if save_folder:
            trace.create_trace_folder(save_folder, prepared.trace_metadata, force=False)
        self.streams = stream.Live()
        if save_folder:
            self.streams.save_to(str(save_folder))

    def __enter__(self) -> ObservedCommand:
        self._start_time = time.monotonic()
        argv, environment = (
            self._prepared.argv,
            self._prepared.environment(
                self.streams.address, uses_live_queries=self._uses_live_queries, controls_clock=self._controls_clock
            ),
        )
        try:
            self._process = subprocess.Popen(
                argv, env=environment, close_fds=False, preexec_fn=_address_randomization_disabler()
            )
        except OSError as error:
            raise MpiError(f"cannot start {argv[0]}: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._stop_event.set()
        if kind:
            self.streams.close()
            self._end_command()

    def wait_for_ranks(self) -> int:
        """Waits until all ranks are connected and returns their number. Raises MeasurementError if the command ends
        before."""
        last_looks = 10  # remaining polls after the command's end, while its last data may be in flight
        while not (ranks := self.streams.ranks):
            if self._process.poll() is not None and self.streams.idle:
                last_looks -= 1
            if not last_looks:
                raise MeasurementError(
                    f"the command ended with code {self._exit_code()} before all its ranks were there to be simulated",
                    "link the program dynamically, and start it by its own MPI, with all ranks on this host (or "
                    "observe it, and simulate the trace); one without MPI must be compiled by "
                    f"{own_command.command_line('cc')}, cxx or fc",
                )
            time.sleep(_POLL_INTERVAL_S)
        return ranks

    def run_in_thread(self, work: Callable[[], Result]) -> Result:
        """Runs the work, which reads the streams, in another thread, so that this thread can handle signals. Returns
        the result of the work, or raises its exception."""
        results: list[Result] = []
        problems: list[BaseException] = []

        def run_work() -> None:
            try:
                results.append(work())
            except BaseException as problem:  # noqa: BLE001  # raised again in the calling thread
                problems.append(problem)

        thread = threading.Thread(target=run_work)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_INTERVAL_S)
                self._check_exit()
        except BaseException:
            self._stop_event.set()
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
            if self._stop_event.is_set():
                raise SimulationCancelled
            progress(accesses)

        return report

    def wait_for_end(self, progress: ReportLine) -> str:
        """Waits for the command's end after the simulation has ended, and completes a saved trace. Returns a
        description of the command's failure; '' if there was none."""
        self.streams.discard_unread()
        while self._process.poll() is None or not self.streams.idle:
            time.sleep(_POLL_INTERVAL_S)
            self._check_exit()
        metadata = self._prepared.trace_metadata
        metadata.exit_code, metadata.seconds = self._exit_code(), time.monotonic() - self._start_time
        problem = f"the command ended with code {metadata.exit_code}" if metadata.exit_code else ""
        if self._save_folder:
            self.streams.close()
            problem = complete_trace(self._save_folder, metadata, progress) or problem
        return problem or self.streams.save_error

    def failure_reason(self) -> str:
        """Returns the likely reason why a stream ended early: the command's exit code, if the command ends within
        _GRACE_PERIOD_S; otherwise ''."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_PERIOD_S)
        return "" if self._process.returncode is None else f"the command ended with code {self._exit_code()}"

    def _check_exit(self) -> None:
        """Closes the streams if ranks outlive their launcher by more than _GRACE_PERIOD_S."""
        if self._process.poll() is None:
            return
        self._end_time = self._end_time or time.monotonic()
        self.streams.read_until_eof()
        if not self.streams.idle and time.monotonic() - self._end_time > _GRACE_PERIOD_S:
            self.has_left_processes = True
            self.streams.close()

    def _exit_code(self) -> int:
        code = self._process.returncode
        return code if code >= 0 else 128 - code

    def _end_command(self) -> None:
        """Ends the command as a batch system does: SIGTERM, then SIGKILL after _GRACE_PERIOD_S."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_PERIOD_S)


def _address_randomization_disabler() -> Callable[[], None]:
    """Returns a function for the child process that disables address space randomisation, where that is permitted, so
    that results are reproducible to the last digit."""
    set_up_child_signals, personality = make_child_setup(()), ctypes.CDLL(None).personality

    def set_up_child() -> None:
        set_up_child_signals()
        personality(personality(_QUERY_PERSONALITY) | _ADDR_NO_RANDOMIZE)

    return set_up_child


class MachineCode:
    """Looks up floating-point operations of accesses and source lines of MPI calls in the program's object files."""

    def __init__(self) -> None:
        self._line_by_location: dict[CodeLocation, SourceLine] = {}
        self.flops_by_offset_of: Callable[[str], Mapping[int, float]] = cache(flops_at_hooks)

    def read_lines(self, replayed: Any) -> None:
        """Finds the source lines of all MPI calls of a simulated program (nearfield._native.replay.Replayed)."""
        calls = (call.place for rank in replayed.ranks for call in rank.calls)
        locations = {(at.object, at.offset) for place in calls for at in (place, *place.callers)}
        self._line_by_location = find_source_lines(locations)

    def line_of(self, called: str, frames: list[CodeLocation]) -> str:
        """Returns the source line of an MPI call as text, in the form of observe.replay.CallLineLookup."""
        return str(line_of_call(self._line_by_location, called, frames))
