"""Shows the progress of `nearfield simulate trace`."""

from __future__ import annotations

import time
from collections.abc import Callable

from nearfield.base.units import format_rounded
from nearfield.measure.interrupt import InterruptGuard
from nearfield.simulate.source import Source
from nearfield.simulate.trace import TraceRun
from nearfield.ui.progress import Standing, WorkBar
from nearfield.ui.terminal import err


class TraceBar(WorkBar):
    """Shows how much of a trace has been read, and the simulated accesses per second."""

    def __init__(self, run: TraceRun, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(err, self.standing)
        self._run, self._source, self._clock = run, source, clock
        self._begun, self._before = clock(), run.accesses
        self._accesses, self._share = run.accesses, run.share(source)

    def pass_on(self, stop: InterruptGuard) -> None:
        """Records the progress. Raises KeyboardInterrupt if a stop was requested."""
        self._accesses, self._share = self._run.accesses, self._run.share(self._source)
        stop.check()

    def standing(self) -> Standing:
        """Returns the current progress."""
        seconds = self._clock() - self._begun
        rate = (self._accesses - self._before) / seconds if seconds else 0.0
        left_s = seconds * (1 / self._share - 1) if self._share else None
        what = f"{format_rounded(self._accesses)} accesses, {format_rounded(rate)} a second, from {self._source.name}"
        return Standing(what, self._share, left_s)
