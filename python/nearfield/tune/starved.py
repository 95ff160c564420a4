"""Tells a job that hangs from one that other programs keep from running.

Linux counts for every process how long it wanted to run and had to wait for a processor (`/proc/PID/schedstat`). A
limit on an answer applies to the time without these waits. So on a busy machine a job that spins or sleeps without an
answer is still found to hang, only later, and a job that merely has to wait is not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from nearfield.errors import MeasurementError

LONGEST = 6  # a starved job is given up after so many times its limit


class Starved(MeasurementError):
    """A job did not get the processors for long enough to answer. That says nothing about its setting."""


class OutOfTime(Starved):
    """The time of the whole tune is over."""


class Job:
    """The processes of one job. All of them have its folder in their command line."""

    def __init__(self, folder: Path) -> None:
        self._word = str(folder).encode()
        self._known: list[Path] = []

    def processes(self) -> list[Path]:
        """Returns the folders in /proc of the job's living processes."""
        return [process for process in Path("/proc").iterdir() if process.name.isdigit() and self._is_mine(process)]

    def started(self) -> None:
        """Looks for the processes a last time: from now on they stay the same, so that a look at them is cheap."""
        self._known = self.processes()

    def waited_ns(self) -> dict[str, int]:
        """Returns for each process how long it has waited for a processor since its start. Without the kernel's
        statistics there is none."""
        found = {}
        for process in self._known or self.processes():
            with suppress(OSError, ValueError, IndexError):
                found[process.name] = int((process / "schedstat").read_text(encoding="ascii").split()[1])
        return found

    def _is_mine(self, process: Path) -> bool:
        with suppress(OSError):
            return self._word in (process / "cmdline").read_bytes()
        return False


class Turn:
    """The time of one turn of a job, from its construction on."""

    def __init__(self, job: Job, waited_before: Mapping[str, int]) -> None:
        self._job, self._before, self._start = job, waited_before, time.monotonic()

    def require_progress(self, limit_s: float) -> bool:
        """Returns whether the job may still answer within the limit. Raises Starved if it waited for processors for
        most of a much longer time."""
        elapsed_s = time.monotonic() - self._start
        if elapsed_s < limit_s:
            return True
        waits = [now - self._before.get(name, 0) for name, now in self._job.waited_ns().items()]
        waited_s = 1e-9 * max(waits, default=0)
        if elapsed_s - waited_s >= limit_s:
            return False
        if elapsed_s >= LONGEST * limit_s:
            raise Starved(f"waited {waited_s:.0f} of {elapsed_s:.0f} s for a processor that other programs used")
        return True
