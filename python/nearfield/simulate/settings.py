"""Simulates the same traces on variants of one machine, some of whose values are replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearfield.base.errors import UsageError
from nearfield.base.threads import run_in_threads
from nearfield.machine import DescribedMachine
from nearfield.machine.sweep import Setting, with_settings
from nearfield.simulate.memory import Memory
from nearfield.simulate.source import STANDARD_INPUT, TraceSource
from nearfield.simulate.trace import TraceRun, TraceSelection


@dataclass(frozen=True)
class TraceResult:
    """Results of a trace on one machine: the time at each memory speed, the misses of each cache level, the DRAM
    traffic in bytes, and the number of accesses."""

    times_ns: tuple[float, ...]
    misses: tuple[int, ...]
    dram_bytes: int
    accesses: int

    @staticmethod
    def from_run(run: TraceRun) -> TraceResult:
        counts = run.memory.counts
        times, misses = tuple(run.memory.now_ns), tuple(level.misses for level in counts.levels)
        return TraceResult(times, misses, counts.dram.bytes, run.accesses)


def simulate_settings(
    machine: DescribedMachine,
    slowdowns: Sequence[float],
    choice: TraceSelection,
    files: Sequence[str],
    settings: Sequence[Setting],
    threads: int,
    progress: Callable[[int, int], None],
    finished: dict[int, TraceResult] | None = None,
) -> list[TraceResult]:
    """Returns the results of the traces on the machine with each setting. Calls `progress(done, all)` in this thread,
    which may raise an exception to end the work; `finished` then has the results so far, by the index of the setting.
    Raises UsageError for a setting that contradicts the machine."""
    found = {} if finished is None else finished
    machines = [with_settings(machine, setting) for setting in settings]

    def simulate(index: int, raise_if_ended: Callable[[], None]) -> TraceResult:
        run = TraceRun(Memory(machines[index], slowdowns), choice)
        for name in files:
            with TraceSource(name) as source:
                run.run(source, raise_if_ended)
        return TraceResult.from_run(run)

    for index, result in run_in_threads(len(machines), simulate, threads, lambda: None):
        found[index] = result
        progress(len(found), len(machines))
    return [found[index] for index in range(len(machines))]


def require_files(files: Sequence[str], option: str) -> None:
    """Raises UsageError if a trace comes from standard input. `option` reads traces several times."""
    if STANDARD_INPUT in files:
        raise UsageError(f"{option} reads a trace many times, and standard input can be read once", "name a file")
