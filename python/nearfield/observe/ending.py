"""Handles signals that end an observation: ends all processes of the observed program, removes what they left behind,
and distinguishes the signal from a failure of the program."""

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
    """A signal ended nearfield, together with the observed program, before there was a result."""

    def __init__(self, number: int, when: str, remedy: str = "") -> None:
        super().__init__(f"{signal_name(number)} ended this {when}", remedy)
        self.exit_code = 128 + number


def signal_name(number: int) -> str:
    """Returns the name of a signal, such as SIGTERM for 15."""
    return signal.Signals(number).name


@contextmanager
def signals_as_errors(when: str) -> Iterator[None]:
    """Raises EndedBySignal inside the block when SIGINT, SIGTERM or SIGHUP arrives. Must be entered in the main
    thread."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise EndedBySignal(number, when)

    heeded = [number for number in END_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class EndSignal:
    """Records the first end signal that arrives while a command runs, and then ends all processes of the command."""

    def __init__(self) -> None:
        self.signal = 0  # the first end signal; 0: none
        # The mark identifies the command's processes; shared memory before its start.
        self.mark, self._before = uuid.uuid4().hex, snapshot_shm()
        self._patience: Timer | None = None

    def record(self, number: int) -> None:
        """Records a signal that was also forwarded to the command. Starts a timer that kills the command's processes
        after GRACE_PERIOD_S."""
        if number in END_SIGNALS and not self.signal:
            self.signal = number
            self._patience = Timer(GRACE_PERIOD_S, self._end_all)
            self._patience.daemon = True
            self._patience.start()

    def end_remaining(self) -> None:
        """Kills the remaining processes of a command that a signal has ended."""
        if self._patience:
            self._patience.cancel()
            self._end_all()

    def _end_all(self) -> None:
        clean_up_after_death(self.mark, None, [], sorted(self._before))
