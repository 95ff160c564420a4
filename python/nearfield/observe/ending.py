"""Handles signals that end an observation: all ranks end, nothing is left behind, and the signal is distinguished from
a fault of the program."""

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
from nearfield.mpi.process import clean_up_after_death

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_PERIOD_S = 10.0  # for ranks to end by themselves after a signal


class EndedBySignal(NearfieldError):
    """A signal ended nearfield, and the program that it observed, before there was a result."""

    def __init__(self, number: int, when: str, remedy: str = "") -> None:
        super().__init__(f"{signal_name(number)} ended this {when}", remedy)
        self.exit_code = 128 + number


def signal_name(number: int) -> str:
    """Returns the name of a signal, such as SIGTERM for 15."""
    return signal.Signals(number).name


@contextmanager
def signals_as_errors(when: str) -> Iterator[None]:
    """Raises EndedBySignal in this block if a signal ends nearfield. For the main thread."""

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
    """Records the first end signal while a command runs, and makes all its processes end then."""

    def __init__(self) -> None:
        self.signal = 0  # the first end signal; 0: none
        self.mark, self._before = uuid.uuid4().hex, snapshot_shm()  # of all processes of the command
        self._patience: Timer | None = None

    def record(self, number: int) -> None:
        """Records a signal that was also sent to the command."""
        if number in END_SIGNALS and not self.signal:
            self.signal = number
            self._patience = Timer(GRACE_PERIOD_S, self._end_all)
            self._patience.daemon = True
            self._patience.start()

    def end_remaining(self) -> None:
        """Ends the remaining processes after the command was ended by a signal."""
        if self._patience:
            self._patience.cancel()
            self._end_all()

    def _end_all(self) -> None:
        clean_up_after_death(self.mark, None, [], sorted(self._before))
