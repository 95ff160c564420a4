"""Measures how busy the cores are at this moment. The load average would not tell, since it remembers what this program
did itself."""

from __future__ import annotations

import time
from pathlib import Path

BUSY_SHARE = 0.2  # share of its time: a busier PU disturbs measurements on it
SAMPLE_SECONDS = 0.3


def busy_shares(seconds: float = SAMPLE_SECONDS) -> dict[int, tuple[float, float]]:
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
