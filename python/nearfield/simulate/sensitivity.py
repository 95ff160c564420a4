"""Computes error bars of the simulated times and misses of a trace, and which values of the machine file cause them, by
simulating the trace once per changed value (machine/uncertainty.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nearfield.machine.uncertainty import ErrorBar, Variation, error_bar_of_factor, uncertainty_of
from nearfield.simulate.settings import TraceResult, require_no_standard_input, simulate_with_settings
from nearfield.simulate.trace import TraceRun

# Sections of a machine file that have no effect on the results of a trace.
_SECTIONS_WITHOUT_EFFECT = ("nic.", "network.", "messaging.")


@dataclass(frozen=True)
class TraceSensitivity:
    """Results of a trace with error bars. `influences`: variations of machine values with the factor by which each
    changes the time at the first memory speed, the largest change first. `fixed_keys`: keys that cannot be varied."""

    times_ns: list[ErrorBar]
    misses: list[ErrorBar]
    dram_bytes: ErrorBar
    influences: list[tuple[Variation, float]]
    fixed_keys: tuple[str, ...]


def sensitivity_of_trace(
    run: TraceRun, files: Sequence[str], threads: int, progress: Callable[[int, int], None]
) -> TraceSensitivity:
    """Returns the error bars of a run that has read these files completely. Calls `progress(done, all)` in this thread,
    which may raise an exception to end the work. Raises UsageError for standard input, which cannot be read twice."""
    require_no_standard_input(files, "--sensitivity")
    machine, speeds = run.memory.machine, run.memory.memory_slowdown
    uncertainty = uncertainty_of(machine)
    variations = [one for one in uncertainty.variations if not one.key.startswith(_SECTIONS_WITHOUT_EFFECT)]
    settings = [((one.key, one.other),) for one in variations]
    results = simulate_with_settings(machine, speeds, run.selection, files, settings, threads, progress)
    return _summarize(
        TraceResult.from_run(run),
        dict(zip(variations, results, strict=True)),
        [key for key in uncertainty.fixed_keys if not key.startswith(_SECTIONS_WITHOUT_EFFECT)],
    )


def _summarize(
    base: TraceResult, results: Mapping[Variation, TraceResult], fixed_keys: Sequence[str]
) -> TraceSensitivity:
    def range_of(value: float, get: Callable[[TraceResult], float]) -> ErrorBar:
        # A count of 0 has no ratio, so it counts as 1.
        return error_bar_of_factor(max(value, 1), {one: max(get(result), 1) for one, result in results.items()})

    times = [range_of(value, lambda result, i=i: result.times_ns[i]) for i, value in enumerate(base.times_ns)]  # type: ignore[misc]
    misses = [range_of(value, lambda result, i=i: result.misses[i]) for i, value in enumerate(base.misses)]  # type: ignore[misc]
    factors = [(one, result.times_ns[0] / base.times_ns[0]) for one, result in results.items() if base.times_ns[0]]
    factors.sort(key=lambda one: -abs(math.log(one[1])))
    return TraceSensitivity(
        times, misses, range_of(base.dram_bytes, lambda result: result.dram_bytes), factors, tuple(fixed_keys)
    )
