"""Simulates the same traces on several variants of one machine, in each of which some values are replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearfield.base.errors import UsageError
from nearfield.base.threads import run_in_threads
from nearfield.machine import DescribedMachine
from nearfield.machine.sweep import SweepSetting, with_settings
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
    num_accesses: int

    @staticmethod
    def from_run(run: TraceRun) -> TraceResult:
        counts = run.memory.counts
        times, misses = tuple(run.memory.now_ns), tuple(level.misses for level in counts.levels)
        return TraceResult(times, misses, counts.dram.bytes, run.accesses)


def simulate_with_settings(
    machine: DescribedMachine,
    slowdowns: Sequence[float],
    selection: TraceSelection,
    files: Sequence[str],
    settings: Sequence[SweepSetting],
    threads: int,
    progress: Callable[[int, int], None],
    finished_results: dict[int, TraceResult] | None = None,
) -> list[TraceResult]:
    """Returns the results of the traces on the machine with each setting. Calls `progress(done, all)` in this thread,
    which may raise an exception to end the work; `finished_results` then has the results so far, by the index of the
    setting. Raises UsageError for a setting that contradicts the machine."""
    result_by_setting = {} if finished_results is None else finished_results
    machines = [with_settings(machine, setting) for setting in settings]

    def simulate(index: int, raise_if_ended: Callable[[], None]) -> TraceResult:
        run = TraceRun(Memory(machines[index], slowdowns), selection)
        for name in files:
            with TraceSource(name) as source:
                run.run(source, raise_if_ended)
        return TraceResult.from_run(run)

    for index, result in run_in_threads(len(machines), simulate, threads, lambda: None):
        result_by_setting[index] = result
        progress(len(result_by_setting), len(machines))
    return [result_by_setting[index] for index in range(len(machines))]


def require_no_standard_input(files: Sequence[str], option: str) -> None:
    """Raises UsageError if a trace comes from standard input. `option` reads traces several times."""
    if STANDARD_INPUT in files:
        raise UsageError(f"{option} reads a trace many times, and standard input can be read once", "name a file")
