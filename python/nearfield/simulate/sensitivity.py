"""Computes error bars of the simulated times and misses of a trace, and which values of the machine file cause them, by
simulating the trace once per changed value (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from nearfield.base.errors import UsageError
from nearfield.machine.sweep import with_settings
from nearfield.machine.uncertainty import Range, Variation, range_of_factor, uncertainty_of
from nearfield.simulate.memory import Memory
from nearfield.simulate.source import STANDARD_INPUT, TraceSource
from nearfield.simulate.trace import TraceRun

# Sections of a machine file on which no trace depends.
_NOT_OF_MEMORY = ("nic.", "network.", "messaging.")


@dataclass(frozen=True)
class TraceResult:
    """Results of a trace on one machine: the time at each memory speed, the misses of each cache level, and the DRAM
    traffic in bytes."""

    times_ns: tuple[float, ...]
    misses: tuple[int, ...]
    dram_bytes: int

    @staticmethod
    def from_run(run: TraceRun) -> TraceResult:
        counts = run.memory.counts
        times, misses = tuple(run.memory.now_ns), tuple(level.misses for level in counts.levels)
        return TraceResult(times, misses, counts.dram.bytes)


@dataclass(frozen=True)
class TraceSensitivity:
    """Results of a trace with error bars. `influences`: variations of machine values with the factor by which each
    changes the time at the first memory speed, the largest change first. `fixed`: keys that cannot be varied."""

    times_ns: list[Range]
    misses: list[Range]
    dram_bytes: Range
    influences: list[tuple[Variation, float]]
    fixed: tuple[str, ...]


def sensitivity_of_trace(
    run: TraceRun, files: Sequence[str], threads: int, progress: Callable[[int, int], None]
) -> TraceSensitivity:
    """Returns the error bars of a run that has read these files completely. Calls `progress(done, all)` in this thread,
    which may raise an exception to end the work. Raises UsageError for standard input, which cannot be read twice."""
    require_files(files)
    machine, speeds = run.memory.machine, run.memory.memory_slowdown
    uncertainty = uncertainty_of(machine)
    variations = [one for one in uncertainty.variations if not one.key.startswith(_NOT_OF_MEMORY)]
    is_ended = False

    def raise_if_ended() -> None:
        if is_ended:
            raise KeyboardInterrupt

    def simulate(one: Variation) -> TraceResult:
        varied = with_settings(machine, ((one.key, one.other),))
        return _simulate_traces(TraceRun(Memory(varied, speeds), run.choice), files, raise_if_ended)

    with ThreadPoolExecutor(threads) as executor:
        futures = {executor.submit(simulate, one): one for one in variations}
        results: dict[Variation, TraceResult] = {}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                progress(len(results), len(variations))
        finally:
            is_ended = True
            executor.shutdown(wait=False, cancel_futures=True)
    return _summarize(
        TraceResult.from_run(run), results, [key for key in uncertainty.fixed if not key.startswith(_NOT_OF_MEMORY)]
    )


def require_files(files: Sequence[str]) -> None:
    """Raises UsageError if a trace comes from standard input."""
    if STANDARD_INPUT in files:
        raise UsageError("--sensitivity reads a trace many times, and standard input can be read once", "name a file")


def _simulate_traces(run: TraceRun, files: Sequence[str], check: Callable[[], None]) -> TraceResult:
    for name in files:
        with TraceSource(name) as source:
            run.run(source, check)
    return TraceResult.from_run(run)


def _summarize(base: TraceResult, results: Mapping[Variation, TraceResult], fixed: Sequence[str]) -> TraceSensitivity:
    def range_of(value: float, get: Callable[[TraceResult], float]) -> Range:
        # A count of 0 has no ratio, so it counts as 1.
        return range_of_factor(max(value, 1), {one: max(get(result), 1) for one, result in results.items()})

    times = [range_of(value, lambda result, i=i: result.times_ns[i]) for i, value in enumerate(base.times_ns)]  # type: ignore[misc]
    misses = [range_of(value, lambda result, i=i: result.misses[i]) for i, value in enumerate(base.misses)]  # type: ignore[misc]
    factors = [(one, result.times_ns[0] / base.times_ns[0]) for one, result in results.items() if base.times_ns[0]]
    factors.sort(key=lambda one: -abs(math.log(one[1])))
    return TraceSensitivity(
        times, misses, range_of(base.dram_bytes, lambda result: result.dram_bytes), factors, tuple(fixed)
    )
