"""Handles signals that end an observation: ends all processes of the observed program, removes their leftovers in
shared memory, and distinguishes the signal from a failure of the program."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType
from typing import NoReturn

from nearfield.base.errors import NearfieldError
from nearfield.mpi import snapshot_shm
from nearfield.mpi.marked_processes import clean_up_after_death

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_PERIOD_S = 10.0  # time in which the ranks must end by themselves after a signal


class EndedBySignal(NearfieldError):
    """nearfield and the observed program were terminated by a signal before there was a result."""

    def __init__(self, number: int, phase: str, remedy: str = "") -> None:
        super().__init__(f"{signal_name(number)} ended this {phase}", remedy)
        self.exit_code = 128 + number


def signal_name(number: int) -> str:
    """Returns the name of a signal, such as SIGTERM for 15."""
    return signal.Signals(number).name


@contextmanager
def signals_as_errors(phase: str) -> Iterator[None]:
    """Raises EndedBySignal inside the block when SIGINT, SIGTERM or SIGHUP arrives. Must be entered in the main
    thread."""

    def raise_error(number: int, frame: FrameType | None) -> NoReturn:
        raise EndedBySignal(number, phase)

    # nohup makes a process ignore SIGHUP.
    handled_signals = [number for number in END_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    earlier_handlers = {number: signal.signal(number, raise_error) for number in handled_signals}
    try:
        yield
    finally:
        for number, handler in earlier_handlers.items():
            signal.signal(number, handler)


class EndSignalRecorder:
    """Records the first end signal that arrives while a command runs, and then ends all processes of the command."""

    def __init__(self) -> None:
        self.first_signal = 0  # the first end signal; 0: none
        # `process_mark` identifies the command's processes. The shared memory segments existed before the command's
        # start.
        self.process_mark, self._earlier_shared_memory = uuid.uuid4().hex, snapshot_shm()
        self._kill_timer: Timer | None = None

    def record_signal(self, number: int) -> None:
        """Records a signal that was also forwarded to the command. Starts a timer that kills the command's processes
        after GRACE_PERIOD_S."""
        if number in END_SIGNALS and not self.first_signal:
            self.first_signal = number
            self._kill_timer = Timer(GRACE_PERIOD_S, self._kill_all_processes)
            self._kill_timer.daemon = True
            self._kill_timer.start()

    def kill_remaining_processes(self) -> None:
        """Kills the remaining processes of the command if it was terminated by a signal."""
        if self._kill_timer:
            self._kill_timer.cancel()
            self._kill_all_processes()

    def _kill_all_processes(self) -> None:
        clean_up_after_death(self.process_mark, None, [], sorted(self._earlier_shared_memory))
