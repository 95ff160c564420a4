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
from typing import NamedTuple

from nearfield.base.errors import MeasurementError

AT_ONCE_S = 0.05  # usual turns end before that, and nothing is looked at
LONGEST = 6  # a starved job is given up after so many times its limit


class Starved(MeasurementError):
    """A job did not get the processors for long enough to answer. That says nothing about its setting."""


class OutOfTime(Starved):
    """The time of the whole tune is over."""


class Look(NamedTuple):
    """What the kernel says of one process at a moment: how long it has run and has waited for a processor since its
    start, and whether it runs or waits now."""

    ran_ns: int
    waited_ns: int
    is_ready: bool


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

    def sample(self) -> dict[str, Look]:
        """Returns a look at each of its processes, by process id. Without the kernel's statistics there is none."""
        found = {}
        for process in self._known or self.processes():
            with suppress(OSError, ValueError, IndexError):
                ran_ns, waited_ns = map(int, (process / "schedstat").read_text(encoding="ascii").split()[:2])
                state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
                found[process.name] = Look(ran_ns, waited_ns, state == "R")
        return found

    def _is_mine(self, process: Path) -> bool:
        with suppress(OSError):
            return self._word in (process / "cmdline").read_bytes()
        return False


class Turn:
    """The time of one turn of a job, from its construction on."""

    def __init__(self, job: Job, before: Mapping[str, Look]) -> None:
        self._job, self._before, self._start = job, before, time.monotonic()
        self._changed = {name: (look, self._start) for name, look in before.items()}  # the last change, and when

    def require_progress(self, limit_s: float) -> bool:
        """Returns whether the job may still answer within the limit. Raises Starved if it waited for processors for
        most of a much longer time. Call it several times a second."""
        elapsed_s = time.monotonic() - self._start
        if elapsed_s < AT_ONCE_S:
            return True
        waited_s = max((self._waited_s(*one) for one in self._job.sample().items()), default=0.0)
        if elapsed_s < limit_s:
            return True
        if elapsed_s - waited_s >= limit_s:
            return False
        if elapsed_s >= LONGEST * limit_s:
            raise Starved(f"waited {waited_s:.0f} of {elapsed_s:.0f} s for a processor that other programs used")
        return True

    def _waited_s(self, name: str, look: Look) -> float:
        """Returns how long a process has waited in this turn. The kernel adds a wait when it ends; one that goes on
        shows by a process that is ready and does not run."""
        now = time.monotonic()
        last, since = self._changed.get(name, (None, now))
        if look != last:
            self._changed[name], since = (look, now), now
        before = self._before[name].waited_ns if name in self._before else 0
        return 1e-9 * (look.waited_ns - before) + (now - since if look.is_ready else 0.0)
