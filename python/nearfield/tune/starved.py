"""Distinguishes a job that hangs from one that other programs keep from running.

Linux counts how long every process was ready to run and waited for a processor (`/proc/PID/schedstat`). The limit for a
reply applies to the time without these waits. So a job that spins or sleeps without replying is found to hang on a busy
machine, too, only later, and a job that only waits for a processor is not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nearfield.base.errors import MeasurementError

UNSAMPLED_S = 0.05  # processes are not sampled before that, since most turns end earlier
MAX_LIMITS = 6  # a starved job is given up after this many times its limit


class Starved(MeasurementError):
    """A job did not get the processors for long enough to reply, which does not show anything about its setting."""


class OutOfTime(Starved):
    """The time of the whole tune is over."""


class ProcessSample(NamedTuple):
    """The kernel's account of one process: how long it has run and has waited for a processor since its start, and
    whether it runs or waits now."""

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

    def fix_processes(self) -> None:
        """Lists the processes for the last time, so that later samples are cheap: all of the job has started now."""
        self._known = self.processes()

    def sample(self) -> dict[str, ProcessSample]:
        """Returns a sample of each of the job's processes, by process id; none without the kernel's statistics."""
        found = {}
        for process in self._known or self.processes():
            with suppress(OSError, ValueError, IndexError):
                ran_ns, waited_ns = map(int, (process / "schedstat").read_text(encoding="ascii").split()[:2])
                state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
                found[process.name] = ProcessSample(ran_ns, waited_ns, state == "R")
        return found

    def _is_mine(self, process: Path) -> bool:
        with suppress(OSError):
            return self._word in (process / "cmdline").read_bytes()
        return False


class Turn:
    """Measures the time of one turn of a job, which begins when this is constructed."""

    def __init__(self, job: Job, before: Mapping[str, ProcessSample]) -> None:
        self._job, self._before, self._start = job, before, time.monotonic()
        self._changed = {name: (sample, self._start) for name, sample in before.items()}  # last change and its time

    def require_progress(self, limit_s: float) -> bool:
        """Returns whether the job may still reply within the limit. Raises Starved if it did not within MAX_LIMITS
        times the limit and waited for processors. Call it several times a second."""
        elapsed_s = time.monotonic() - self._start
        if elapsed_s < UNSAMPLED_S:
            return True
        waited_s = max((self._waited_s(*one) for one in self._job.sample().items()), default=0.0)
        if elapsed_s < limit_s:
            return True
        if elapsed_s - waited_s >= limit_s:
            return False
        if elapsed_s >= MAX_LIMITS * limit_s:
            raise Starved(f"waited {waited_s:.0f} of {elapsed_s:.0f} s for a processor that other programs used")
        return True

    def _waited_s(self, name: str, sample: ProcessSample) -> float:
        """Returns how long a process has waited in this turn. The kernel adds a wait when it ends; a present wait shows
        by a process that is ready and does not run."""
        now = time.monotonic()
        last, since = self._changed.get(name, (None, now))
        if sample != last:
            self._changed[name], since = (sample, now), now
        before = self._before[name].waited_ns if name in self._before else 0
        return 1e-9 * (sample.waited_ns - before) + (now - since if sample.is_ready else 0.0)
