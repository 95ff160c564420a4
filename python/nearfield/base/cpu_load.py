"""Measures how busy the cores are now. The load average is not used, since it includes past work of this program.

Run as a program, prints one line on how busy this machine is. It imports only the standard library, so that the
Makefile can run it before anything is installed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BUSY_SHARE = 0.2  # a PU that is busy for a larger share of the time disturbs measurements on it
SAMPLE_S = 0.3
MAX_STEAL_SHARE = 0.02  # a virtual machine whose host takes a larger share of CPU time (steal) is restless


@dataclass(frozen=True)
class Busyness:
    """CPU time that other programs, and the host of a virtual machine, took during a sample."""

    cores: int
    used_cores: float  # cores that other programs used, from 0 to `cores`
    mean_waiting_threads: float  # mean number of threads of other programs that ran or waited for a core
    steal_share: float  # share of CPU time that the host took, from 0 to 1

    @property
    def slowdown(self) -> float:
        """Returns the slowdown of a program that uses all cores; at least 1."""
        return max(1.0, 1 + self.mean_waiting_threads / self.cores) / max(0.05, 1 - self.steal_share)

    @property
    def disturbs_measurements(self) -> bool:
        """Returns whether the load is high enough to disturb measurements."""
        return self.used_cores > BUSY_SHARE or self.steal_share > MAX_STEAL_SHARE

    def __str__(self) -> str:
        host = f"; its host takes {self.steal_share:.0%} of their time" if self.steal_share > MAX_STEAL_SHARE else ""
        if self.used_cores <= BUSY_SHARE:
            return f"other programs use hardly any of the {self.cores} cores{host}"
        return f"other programs use {self.used_cores:.1f} of {self.cores} cores{host}"


def measure_busyness(duration_s: float = 2.0) -> Busyness:
    """Returns how busy the allowed cores of this process are during the next `duration_s`, without the load of this
    process itself."""
    allowed, waiting, ends = os.sched_getaffinity(0), [], time.monotonic() + duration_s
    before, mine = _read_cpu_ticks(), os.times()
    while time.monotonic() < ends:
        waiting.append(max(0, count_runnable_threads() - 1))  # without this thread
        time.sleep(0.05)
    after, then = _read_cpu_ticks(), os.times()
    ours = then.user + then.system - mine.user - mine.system
    spent = [[b - a for a, b in zip(before[cpu], after[cpu], strict=True)] for cpu in allowed & before.keys()]
    whole = max(1, sum(map(sum, spent)))
    cores = len(spent) or len(allowed)
    used = cores * sum(busy for busy, _, _ in spent) / whole - ours / max(duration_s, 1e-9)
    steal = sum(stolen for _, _, stolen in spent) / whole
    return Busyness(cores, min(float(cores), max(0.0, used)), sum(waiting) / max(1, len(waiting)), steal)


def count_runnable_threads() -> int:
    """Returns the number of threads on this machine that run or wait for a core now, from /proc/loadavg; 1 (this
    thread) if the kernel does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
    return 1


class ThreadOversubscription:
    """Estimates by how much the threads on this machine slow each other down, from samples that the caller takes while
    programs run."""

    def __init__(self, count_threads: Callable[[], int] = count_runnable_threads, cores: int | None = None) -> None:
        self._count_threads, self._cores = count_threads, cores or os.cpu_count() or 1
        self._sum = self._count = 0.0

    def take_sample(self) -> None:
        """Takes a sample: counts the threads that run or wait for a core now."""
        self._sum, self._count = self._sum + self._count_threads(), self._count + 1

    def discard_samples(self) -> None:
        """Discards all samples."""
        self._sum = self._count = 0.0

    def slowdown(self) -> float:
        """Returns the mean slowdown of a thread compared with a core of its own; at least 1."""
        return max(1.0, self._sum / self._count / self._cores) if self._count else 1.0


def measure_cpu_utilization(duration_s: float = SAMPLE_S) -> dict[int, tuple[float, float]]:
    """Returns PU -> (busy share, steal share) of the next `duration_s`. Steal is time that the host of a virtual
    machine takes."""
    before = _read_cpu_ticks()
    time.sleep(duration_s)
    shares = {}
    for cpu, after in _read_cpu_ticks().items():
        busy, idle, steal = (b - a for a, b in zip(before.get(cpu, after), after, strict=True))
        total = max(1, busy + idle + steal)
        shares[cpu] = (busy / total, steal / total)
    return shares


def _read_cpu_ticks() -> dict[int, tuple[int, int, int]]:
    """Returns PU -> (busy, idle, steal) in clock ticks since boot, from /proc/stat. Steal is time that the host of a
    virtual machine took."""
    ticks = {}
    for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
        if line.startswith("cpu") and line[3].isdigit():
            cpu, *fields = line[3:].split()
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, fields[:8])
            ticks[int(cpu)] = (user + nice + system + irq + softirq, idle + iowait, steal)
    return ticks


def busyness_advice(busyness: Busyness) -> str:
    """Returns a text on how busy this machine is, and how that affects measurements."""
    if not busyness.disturbs_measurements:
        return f"this machine is quiet: {busyness}"
    slower = f"everything will take about {busyness.slowdown:.0f} times as long" if busyness.slowdown >= 1.5 else ""
    share = "most" if busyness.slowdown >= 1.5 else "some"
    means = " and ".join(filter(None, [slower, f"{share} numbers will be unstable"]))
    return f"this machine is busy: {busyness}, so {means}; it is better to measure when it is quiet"


if __name__ == "__main__":
    print(busyness_advice(measure_busyness()), flush=True)
