"""Simulates one trace many times, on variants of a machine and with ranks that start at different times, for --sweep,
--sensitivity and --repeat of `nearfield simulate run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nearfield.base.threads import run_in_threads
from nearfield.cli.run_simulation import SimulationParameters
from nearfield.cli.trace_argument import AccessReporter
from nearfield.machine import DescribedMachine
from nearfield.measure.interrupt import InterruptGuard
from nearfield.observe.repeats import RepeatedReplay
from nearfield.observe.replay import Cluster, Replay, replay_program
from nearfield.observe.source_lines import SourceLine, line_of_call
from nearfield.observe.summary import flops_of_objects, read_lines
from nearfield.observe.trace import Trace, broken_streams_as_errors
from nearfield.ui.progress import ProgressDisplay
from nearfield.ui.terminal import err


@dataclass(frozen=True)
class VariantResults:
    """The results by machine; None for a machine whose simulations were terminated by a signal. `exit_code` is 0, or
    128 plus the number of that signal. `simulations` is the number of finished simulations."""

    by_machine: tuple[RepeatedReplay | None, ...]
    exit_code: int
    simulations: int
    seconds: float
    named_lines: list[SourceLine]  # source lines resolved for the results


def simulate_variants(
    trace: Trace, parameters: SimulationParameters, machines: Sequence[DescribedMachine], repeat: int
) -> VariantResults:
    """Simulates the trace `repeat` times on each machine, running as many simulations at a time as there are threads.
    With `repeat` 1 all ranks start together; otherwise each simulation starts them at other times, which are the same
    for all machines. Ctrl-C ends the simulations, and those of machines that are finished are returned."""
    work = _SimulationJobs(
        trace, parameters, [(machine, seed) for machine in machines for seed in _start_seeds(repeat)]
    )
    begun = time.monotonic()
    with InterruptGuard() as stop, ProgressDisplay() as display:
        report = AccessReporter(display, len(work.jobs) * trace.metadata.accesses)
        try:
            stop.run(lambda: work.run_all(report))
        except KeyboardInterrupt:
            err.print(f"stopped: {len(work.finished)} of {len(work.jobs)} simulations were finished")
    # If all simulations are of one machine, some of them give a mean, too.
    min_repeats = repeat if len(machines) > 1 else min(repeat, 2)
    by_machine = [
        tuple(work.finished[job] for job in range(first, first + repeat) if job in work.finished)
        for first in range(0, len(work.jobs), repeat)
    ]
    return VariantResults(
        tuple(RepeatedReplay(found) if len(found) >= min_repeats else None for found in by_machine),
        stop.exit_code if stop.signal_number else 0,
        len(work.finished),
        time.monotonic() - begun,
        work.named_lines,
    )


def _start_seeds(repeat: int) -> list[int | None]:
    return [None] if repeat == 1 else list(range(1, repeat + 1))


class _SimulationJobs:
    """The simulations of one trace: (machine, start seed) each."""

    def __init__(
        self, trace: Trace, parameters: SimulationParameters, jobs: Sequence[tuple[DescribedMachine, int | None]]
    ) -> None:
        self.jobs = jobs
        self.finished: dict[int, Replay] = {}  # by the job's index
        self.named_lines: list[SourceLine] = []
        self._chosen, self._streams = parameters, trace.streams()
        self._lines, self._flops_of = read_lines(trace), flops_of_objects(trace)
        self._accesses = [0] * len(jobs)  # number of accesses that each job has read

    def run_all(self, report: AccessReporter) -> None:
        """Runs the jobs. Raises the error of the first job that fails; the other jobs end, too."""
        threads = min(self._chosen.threads, self._cluster_of(self.jobs[0][0]).nodes)

        def simulate(job: int, raise_if_ended: Callable[[], None]) -> Replay:
            return self._simulate(job, threads, raise_if_ended)

        at_once = max(1, self._chosen.threads // threads)
        for job, found in run_in_threads(len(self.jobs), simulate, at_once, lambda: report(sum(self._accesses))):
            self.finished[job] = found

    def _simulate(self, job: int, threads: int, raise_if_ended: Callable[[], None]) -> Replay:
        machine, seed = self.jobs[job]

        def progress(accesses: int) -> None:
            raise_if_ended()
            self._accesses[job] = accesses

        with broken_streams_as_errors():
            return replay_program(
                self._cluster_of(machine), self._streams, self._flops_of, self._line_of, self._chosen.regions,
                progress, threads, start_seed=seed,
            )  # fmt: skip

    def _cluster_of(self, machine: DescribedMachine) -> Cluster:
        return replace(self._chosen.cluster_of(len(self._streams)), machine=machine)

    def _line_of(self, called: str, frames: list[tuple[str, int]]) -> str:
        self.named_lines.append(line_of_call(self._lines, called, frames))
        return str(self.named_lines[-1])
