"""Distinguishes a job that hangs from one that other programs starve of CPU time.

Linux counts how long every process was runnable and waited for a CPU (`/proc/PID/schedstat`). The time limit for a
reply does not include these waits. So a job that spins or sleeps without replying is detected as hanging even on a busy
machine, only later, whereas a job that merely waits for a CPU is not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nearfield.base.errors import MeasurementError

FIRST_SAMPLE_AFTER_S = 0.05  # no sampling before this time, since most turns end earlier
MAX_STARVED_LIMIT_FACTOR = 6  # a starved job is given up after this multiple of its time limit


class JobStarved(MeasurementError):
    """A job did not get enough CPU time to reply in time. This failure says nothing about the job's settings."""


class OutOfTime(JobStarved):
    """The deadline of the whole tune has passed."""


class ProcessSample(NamedTuple):
    """The kernel's CPU accounting of one process: run time and wait time since its start, and whether the process is
    runnable now."""

    run_time_ns: int
    wait_time_ns: int
    is_runnable: bool


class JobProcesses:
    """Finds the processes of one job. All of them have the job's folder in their command line."""

    def __init__(self, folder: Path) -> None:
        self._word = str(folder).encode()
        self._known: list[Path] = []

    def processes(self) -> list[Path]:
        """Returns the /proc folders of the job's live processes."""
        return [
            process for process in Path("/proc").iterdir() if process.name.isdigit() and self._belongs_to_job(process)
        ]

    def cache_processes(self) -> None:
        """Caches the list of the job's processes, so that later samples are cheap. Call when all processes of the job
        have started."""
        self._known = self.processes()

    def sample_processes(self) -> dict[str, ProcessSample]:
        """Returns a sample of each of the job's processes, by process id; empty if the kernel has no schedstat."""
        found = {}
        for process in self._known or self.processes():
            with suppress(OSError, ValueError, IndexError):
                ran_ns, waited_ns = map(int, (process / "schedstat").read_text(encoding="ascii").split()[:2])
                state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
                found[process.name] = ProcessSample(ran_ns, waited_ns, state == "R")
        return found

    def _belongs_to_job(self, process: Path) -> bool:
        with suppress(OSError):
            return self._word in (process / "cmdline").read_bytes()
        return False


class JobTurn:
    """Measures the duration of one turn of a job. The turn begins with the construction of this object."""

    def __init__(self, job: JobProcesses, initial_samples: Mapping[str, ProcessSample]) -> None:
        self._job, self._before, self._start = job, initial_samples, time.monotonic()
        # process id -> last changed sample and when it changed
        self._changed = {name: (sample, self._start) for name, sample in initial_samples.items()}

    def can_still_reply(self, limit_s: float) -> bool:
        """Returns whether the job may still reply within its time limit, not counting its waits for a CPU. Raises
        JobStarved after MAX_STARVED_LIMIT_FACTOR times the limit, if the job still waits for CPUs. Must be called
        several times a second."""
        elapsed_s = time.monotonic() - self._start
        if elapsed_s < FIRST_SAMPLE_AFTER_S:
            return True
        waited_s = max((self._waited_s(*one) for one in self._job.sample_processes().items()), default=0.0)
        if elapsed_s < limit_s:
            return True
        if elapsed_s - waited_s >= limit_s:
            return False
        if elapsed_s >= MAX_STARVED_LIMIT_FACTOR * limit_s:
            raise JobStarved(f"waited {waited_s:.0f} of {elapsed_s:.0f} s for a processor that other programs used")
        return True

    def _waited_s(self, pid: str, sample: ProcessSample) -> float:
        """Returns the time in seconds that a process has waited for a CPU in this turn. The kernel accounts for a wait
        only at its end; so if the process is runnable and its sample does not change, adds the time since the last
        change."""
        now = time.monotonic()
        last, since = self._changed.get(pid, (None, now))
        if sample != last:
            self._changed[pid], since = (sample, now), now
        before = self._before[pid].wait_time_ns if pid in self._before else 0
        return 1e-9 * (sample.wait_time_ns - before) + (now - since if sample.is_runnable else 0.0)
