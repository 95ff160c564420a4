"""Handles Ctrl-C while something is measured or simulated: heeded soon, and only where nothing is left half done."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Timer, main_thread
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")
PATIENCE_S = 3.0  # the time in which work that was asked to end must end
_ASKING = (signal.SIGINT, signal.SIGTERM)  # batch systems end jobs by SIGTERM


class Stop:
    """While entered, takes SIGINT and SIGTERM, and SIGQUIT, which ends the work at once. Never entered, it never stops.

    Signals interrupt `run` and nothing else. The first one ends it; with `ask`, the first one calls that function,
    which asks the work to end by itself and returns whether it could. Then the second signal ends `run`, and so does
    work that goes on for more than PATIENCE_S."""

    def __init__(self, ask: Callable[[], bool] | None = None) -> None:
        self.asked: int | None = None  # the first signal that asked for the end
        self._ask = ask
        self._at_once = self._running = False
        self._patience: Timer | None = None

    @property
    def exit_code(self) -> int:
        """The exit code by which shells tell that a signal ended a command."""
        return 128 + (self.asked or 0)

    def __enter__(self) -> Stop:
        self._old = {number: signal.signal(number, self._on_signal) for number in (*_ASKING, signal.SIGQUIT)}
        return self

    def __exit__(self, *_: object) -> None:
        if self._patience:
            self._patience.cancel()
            if self._patience.is_alive():  # it is not if a second signal came before it was started
                self._patience.join()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal asked for the end."""
        if self.asked:
            raise KeyboardInterrupt

    def run(self, work: Callable[[], Result]) -> Result:
        """Returns what the work returns. Raises KeyboardInterrupt if it was ended, or was not begun because a signal
        came just before."""
        try:
            self._running = True
            if self._at_once:
                raise KeyboardInterrupt
            result = work()
            self._running = False
        finally:
            self._running = False
        return result

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._at_once:
            return  # the work is being ended; a third Ctrl-C must not leave some of it behind
        again, self.asked = self.asked is not None, self.asked or number  # before the next signal may come
        if again or number not in _ASKING or self._ask is None:
            self._at_once = True
        else:
            self._patience = Timer(PATIENCE_S, signal.pthread_kill, [main_thread().ident, signal.SIGTERM])
            self._patience.start()
            self._at_once = not self._ask() or self._at_once  # a second signal may have come meanwhile
        if self._at_once and self._running:
            raise KeyboardInterrupt
