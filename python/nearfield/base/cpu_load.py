"""Measures how busy the cores are at this moment. The load average would not tell, since it remembers what this program
did itself.

Run as a program, it says in one line how busy this machine is. It needs nothing but Python for that, so that the
Makefile can say it before anything is installed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BUSY_SHARE = 0.2  # share of its time: a busier PU disturbs measurements on it
SAMPLE_SECONDS = 0.3
STEAL_SHARE = 0.02  # a virtual machine from which its host takes more is restless


@dataclass(frozen=True)
class Busyness:
    """What other programs, and the host of a virtual machine, took of the cores during a sample."""

    cores: int
    used: float  # cores that other programs used, from 0 to `cores`
    waiting: float  # other programs that ran or waited for a core, on average
    steal: float  # share of the time that the host took, from 0 to 1

    @property
    def slowdown(self) -> float:
        """Returns how many times as long something takes that wants every core for itself; at least 1."""
        return max(1.0, 1 + self.waiting / self.cores) / max(0.05, 1 - self.steal)

    @property
    def disturbs(self) -> bool:
        """Returns whether measurements will be disturbed."""
        return self.used > BUSY_SHARE or self.steal > STEAL_SHARE

    def __str__(self) -> str:
        host = f"; its host takes {self.steal:.0%} of their time" if self.steal > STEAL_SHARE else ""
        if self.used <= BUSY_SHARE:
            return f"other programs use hardly any of the {self.cores} cores{host}"
        return f"other programs use {self.used:.1f} of {self.cores} cores{host}"


def busyness(seconds: float = 2.0) -> Busyness:
    """Returns how busy the cores that this process may use are during the next seconds, without this process itself."""
    allowed, waiting, ends = os.sched_getaffinity(0), [], time.monotonic() + seconds
    before, mine = _ticks(), os.times()
    while time.monotonic() < ends:
        waiting.append(max(0, runnable() - 1))  # this process runs, too
        time.sleep(0.05)
    after, then = _ticks(), os.times()
    ours = then.user + then.system - mine.user - mine.system
    spent = [[b - a for a, b in zip(before[cpu], after[cpu], strict=True)] for cpu in allowed & before.keys()]
    whole = max(1, sum(map(sum, spent)))
    cores = len(spent) or len(allowed)
    used = cores * sum(busy for busy, _, _ in spent) / whole - ours / max(seconds, 1e-9)
    steal = sum(stolen for _, _, stolen in spent) / whole
    return Busyness(cores, min(float(cores), max(0.0, used)), sum(waiting) / max(1, len(waiting)), steal)


def runnable() -> int:
    """Returns how many threads of this machine run or wait for a core now; 1, this one, if the kernel does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
    return 1


class Crowd:
    """Tells by how much the threads of this machine slow each other down, from looks that somebody takes now and then
    while programs run."""

    def __init__(self, look: Callable[[], int] = runnable, cores: int | None = None) -> None:
        self._look, self._cores = look, cores or os.cpu_count() or 1
        self._sum = self._count = 0.0

    def look(self) -> None:
        """Counts the threads that run or wait at this moment."""
        self._sum, self._count = self._sum + self._look(), self._count + 1

    def forget(self) -> None:
        """Starts anew, since what was seen is of the past."""
        self._sum = self._count = 0.0

    def slowdown(self) -> float:
        """Returns how many times as long a thread needs as with a core for itself; at least 1."""
        return max(1.0, self._sum / self._count / self._cores) if self._count else 1.0


def cpu_utilization(seconds: float = SAMPLE_SECONDS) -> dict[int, tuple[float, float]]:
    """Returns for every PU which part of the next seconds it is busy, and which part of them the host of a virtual
    machine takes."""
    before = _ticks()
    time.sleep(seconds)
    shares = {}
    for cpu, after in _ticks().items():
        busy, idle, steal = (b - a for a, b in zip(before.get(cpu, after), after, strict=True))
        total = max(1, busy + idle + steal)
        shares[cpu] = (busy / total, steal / total)
    return shares


def _ticks() -> dict[int, tuple[int, int, int]]:
    """Returns for every PU its clock ticks since boot: busy, idle, and taken by the host of this virtual machine."""
    ticks = {}
    for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines():
        if line.startswith("cpu") and line[3].isdigit():
            cpu, *fields = line[3:].split()
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, fields[:8])
            ticks[int(cpu)] = (user + nice + system + irq + softirq, idle + iowait, steal)
    return ticks


def advice(seen: Busyness) -> str:
    """Returns in one or two sentences how busy this machine is, and what that means for what is to be measured."""
    if not seen.disturbs:
        return f"this machine is quiet: {seen}"
    slower = f"everything will take about {seen.slowdown:.0f} times as long" if seen.slowdown >= 1.5 else ""
    share = "most" if seen.slowdown >= 1.5 else "some"
    means = " and ".join(filter(None, [slower, f"{share} numbers will be unstable"]))
    return f"this machine is busy: {seen}, so {means}; it is better to measure when it is quiet"


if __name__ == "__main__":
    print(advice(busyness()), flush=True)
