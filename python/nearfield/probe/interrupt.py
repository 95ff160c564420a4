"""Handles Ctrl-C while ranks measure. The first one asks the engine to end soon and to report what it has. The second
one ends the ranks, and so does an engine that takes longer than PATIENCE_S."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Timer, main_thread
from typing import Any

PATIENCE_S = 3.0  # the time in which an engine that was asked to end must end
_ASKING = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """A context that handles SIGINT and SIGTERM, and SIGQUIT, which ends the ranks at once. Signals only ever interrupt
    `wait_for`, so that results are saved undisturbed."""

    def __init__(self, stop_file: Path, say: Callable[[str], None]) -> None:
        self.asked: int | None = None  # the first signal that asked for the end
        self._stop_file, self._say = stop_file, say
        self._at_once = self._waiting = False
        self._patience: Timer | None = None

    def __enter__(self) -> Interrupt:
        self._old = {number: signal.signal(number, self._on_signal) for number in (*_ASKING, signal.SIGQUIT)}
        return self

    def __exit__(self, *_: object) -> None:
        if self._patience:
            self._patience.cancel()
            self._patience.join()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def wait_for(self, launch: Callable[[], Any]) -> Any | None:
        """Returns how the launch ended; None if it was ended at once."""
        try:
            self._waiting = True
            if self._at_once:  # a signal came just before
                return None
            ending = launch()
            self._waiting = False
        except KeyboardInterrupt:
            return None
        finally:
            self._waiting = False
        return ending

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._at_once:
            return  # the ranks are being ended; a third Ctrl-C must not leave some of them behind
        again, self.asked = self.asked is not None, self.asked or number  # before the next signal may come
        if again or number not in _ASKING:
            self._at_once = True
        else:
            self._at_once = not self._ask_engine() or self._at_once  # a second signal may have come meanwhile
            with suppress(OSError):  # the reader of a pipe may be gone
                self._say("stopping: saving what was measured (again to stop at once)")
        if self._at_once and self._waiting:
            raise KeyboardInterrupt

    def _ask_engine(self) -> bool:
        """Asks the engine to end, and starts the timer that acts as a second signal. Returns False if the engine cannot
        be asked because the disk is full."""
        self._patience = Timer(PATIENCE_S, signal.pthread_kill, [main_thread().ident, signal.SIGTERM])
        self._patience.start()
        try:
            self._stop_file.touch()
        except OSError:
            return False
        return True
