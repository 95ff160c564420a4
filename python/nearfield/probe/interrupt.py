"""Ctrl-C while ranks measure: the first asks the engine to end soon and in order, the second ends the ranks."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class Interrupt:
    """While entered, takes SIGINT and SIGTERM. Only `wait_for` is ever interrupted, so that saving is not."""

    def __init__(self, stop_file: Path, say: Callable[[str], None]) -> None:
        self.asked = False
        self._stop_file, self._say = stop_file, say
        self._at_once = self._waiting = False

    def __enter__(self) -> Interrupt:
        self._old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def wait_for(self, launch: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """How the launch ended; None if it was ended at once."""
        try:
            self._waiting = True
            ending = launch()
            self._waiting = False
        except KeyboardInterrupt:
            return None
        finally:
            self._waiting = False
        return ending

    def _on_signal(self, number: int, frame: Any) -> None:
        if not self.asked:
            self.asked = True
            self._at_once = not self._ask_engine()
            with suppress(OSError):  # whoever read this may be gone
                self._say("stopping: saving what was measured (again to stop at once)")
        elif not self._at_once:
            self._at_once = True
        else:
            return  # the ranks are being ended; a third Ctrl-C must not leave some of them behind
        if self._at_once and self._waiting:
            raise KeyboardInterrupt

    def _ask_engine(self) -> bool:
        """False if that is not possible: the disk is full."""
        try:
            self._stop_file.touch()
        except OSError:
            return False
        return True
