"""Handles Ctrl-C during measurements and simulations: soon, and only where no work is left half done."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Timer, main_thread
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")
GRACE_PERIOD_S = 3.0  # time for work to end by itself after a request
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # batch systems send SIGTERM


class InterruptGuard:
    """While entered, handles SIGINT and SIGTERM, and SIGQUIT, which ends the work immediately. A guard that is not
    entered never interrupts.

    Signals interrupt only `run`. The first one ends it, unless there is `request_end`: then the first signal calls this
    function, which requests the end of the work and returns whether it could. The second signal ends `run`, and so does
    work that takes longer than GRACE_PERIOD_S."""

    def __init__(self, request_end: Callable[[], bool] | None = None) -> None:
        self.signal_number: int | None = None  # the first end signal
        self._request_end = request_end
        self._end_now = self._running = False
        self._grace_timer: Timer | None = None

    @property
    def exit_code(self) -> int:
        """Returns the exit code of a command that a signal ended."""
        return 128 + (self.signal_number or 0)

    def __enter__(self) -> InterruptGuard:
        self._old = {number: signal.signal(number, self._on_signal) for number in (*_END_SIGNALS, signal.SIGQUIT)}
        return self

    def __exit__(self, *_: object) -> None:
        if self._grace_timer:
            self._grace_timer.cancel()
            if self._grace_timer.is_alive():  # not alive if a second signal came before it was started
                self._grace_timer.join()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises KeyboardInterrupt after an end signal."""
        if self.signal_number:
            raise KeyboardInterrupt

    def run(self, work: Callable[[], Result]) -> Result:
        """Returns the result of the work. Raises KeyboardInterrupt if a signal ended it, or prevented its start."""
        try:
            self._running = True
            if self._end_now:
                raise KeyboardInterrupt
            result = work()
            self._running = False
        finally:
            self._running = False
        return result

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._end_now:
            return  # a third Ctrl-C must not interrupt the end of the work
        again, self.signal_number = (
            self.signal_number is not None,
            self.signal_number or number,
        )  # before the next signal may arrive
        if again or number not in _END_SIGNALS or self._request_end is None:
            self._end_now = True
        else:
            self._grace_timer = Timer(GRACE_PERIOD_S, signal.pthread_kill, [main_thread().ident, signal.SIGTERM])
            self._grace_timer.start()
            self._end_now = not self._request_end() or self._end_now  # a second signal may have arrived
        if self._end_now and self._running:
            raise KeyboardInterrupt
