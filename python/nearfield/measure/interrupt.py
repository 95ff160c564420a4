"""Handles SIGINT and SIGTERM during measurements and simulations, so that the work ends soon and in a consistent
state."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Timer, main_thread
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")
GRACE_PERIOD_S = 3.0  # time in which work must end after `request_end`
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # batch systems send SIGTERM


class InterruptGuard:
    """Handles SIGINT, SIGTERM and SIGQUIT while entered as a context. A guard that is not entered never interrupts.

    Signals interrupt only the work that `run` executes. Without `request_end`, the first signal raises
    KeyboardInterrupt in the work. With `request_end`, the first SIGINT or SIGTERM calls this function, which requests
    the work to end and returns whether the request was delivered. A second signal, SIGQUIT, or the end of
    GRACE_PERIOD_S raises KeyboardInterrupt."""

    def __init__(self, request_end: Callable[[], bool] | None = None) -> None:
        self.signal_number: int | None = None  # number of the first signal
        self._request_end = request_end
        self._must_end_now = self._is_running = False
        self._grace_timer: Timer | None = None

    @property
    def exit_code(self) -> int:
        """Returns 128 plus the number of the first signal."""
        return 128 + (self.signal_number or 0)

    def __enter__(self) -> InterruptGuard:
        self._old_handlers = {
            number: signal.signal(number, self._on_signal) for number in (*_END_SIGNALS, signal.SIGQUIT)
        }
        return self

    def __exit__(self, *_: object) -> None:
        if self._grace_timer:
            self._grace_timer.cancel()
            if self._grace_timer.is_alive():  # not alive if a second signal arrived before the timer was started
                self._grace_timer.join()
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def raise_if_signalled(self) -> None:
        """Raises KeyboardInterrupt if a signal has arrived."""
        if self.signal_number:
            raise KeyboardInterrupt

    def run(self, work: Callable[[], Result]) -> Result:
        """Runs the work and returns its result. Raises KeyboardInterrupt if a signal interrupts the work or arrived
        before."""
        try:
            self._is_running = True
            if self._must_end_now:
                raise KeyboardInterrupt
            result = work()
            self._is_running = False
        finally:
            self._is_running = False
        return result

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._must_end_now:
            return  # a third Ctrl-C must not interrupt the shutdown
        # Assigned together, before another signal may arrive.
        is_repeated, self.signal_number = (self.signal_number is not None, self.signal_number or number)
        if is_repeated or number not in _END_SIGNALS or self._request_end is None:
            self._must_end_now = True
        else:
            self._grace_timer = Timer(GRACE_PERIOD_S, signal.pthread_kill, [main_thread().ident, signal.SIGTERM])
            self._grace_timer.start()
            self._must_end_now = not self._request_end() or self._must_end_now  # a second signal may have arrived
        if self._must_end_now and self._is_running:
            raise KeyboardInterrupt
