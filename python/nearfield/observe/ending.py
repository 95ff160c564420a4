"""Signals that end an observation: they end all ranks, leave nothing behind, and are told apart from faults of the
program."""

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

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 10.0  # for ranks to end by themselves after a signal


class EndedBySignal(NearfieldError):
    """A signal ended nearfield, and the program that it observed, before there was a result."""

    def __init__(self, number: int, when: str, remedy: str = "") -> None:
        super().__init__(f"{signal_name(number)} ended this {when}", remedy)
        self.exit_code = 128 + number


def signal_name(number: int) -> str:
    """Returns SIGTERM for 15."""
    return signal.Signals(number).name


@contextmanager
def told_if_ended(when: str) -> Iterator[None]:
    """Provides a block in which a signal that ends nearfield becomes EndedBySignal. For the main thread."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise EndedBySignal(number, when)

    heeded = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Ending:
    """Notes the first signal that came while a command ran, and sees to it that all its processes end then."""

    def __init__(self) -> None:
        self.signal = 0  # the first one that asks for the end; 0: none came
        self.mark, self._before = uuid.uuid4().hex, snapshot_shm()  # of all processes of the command
        self._patience: Timer | None = None

    def note(self, number: int) -> None:
        """Notes a signal that the command got as well."""
        if number in ENDING and not self.signal:
            self.signal = number
            self._patience = Timer(PATIENCE_S, self._end_all)
            self._patience.daemon = True
            self._patience.start()

    def finish(self) -> None:
        """Ends what is left after the command has ended by a signal."""
        if self._patience:
            self._patience.cancel()
            self._end_all()

    def _end_all(self) -> None:
        clean_up_after_death(self.mark, None, [], sorted(self._before))
