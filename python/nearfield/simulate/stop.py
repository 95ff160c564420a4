"""Ctrl-C while cases run: asked for at any moment, heeded where nothing is left half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stop:
    """While entered, takes SIGINT and SIGTERM, by which batch systems end jobs. Never entered, it never stops."""

    def __init__(self) -> None:
        self.asked: int | None = None  # the signal that asked for the end
        self._at_once = False

    @property
    def exit_code(self) -> int:
        """The exit code by which shells tell that a signal ended a command."""
        return 128 + (self.asked or 0)

    def __enter__(self) -> Stop:
        self._old = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """KeyboardInterrupt if it was asked for."""
        if self.asked:
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """A block that may be left anywhere."""
        self._at_once = True
        try:
            self.check()
            yield
        finally:
            self._at_once = False

    def _on_signal(self, number: int, frame: Any) -> None:
        self.asked = self.asked or number
        if self._at_once:
            raise KeyboardInterrupt
