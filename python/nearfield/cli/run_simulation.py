"""Runs the simulations of `nearfield simulate run`: of a trace, or of a program while it runs."""

from __future__ import annotations

import shlex
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import typer

from nearfield._native import stream
from nearfield.base.errors import MeasurementError, NearfieldError
from nearfield.cli.trace_argument import AccessReporter
from nearfield.measure.interrupt import InterruptGuard
from nearfield.measure.sim.mpi_shards import SingleShard
from nearfield.observe.live import MachineCode, ObservedCommand
from nearfield.observe.observing import prepare_command
from nearfield.observe.replay import Cluster, Replay, replay_program
from nearfield.observe.source_lines import SourceLine, line_of_call
from nearfield.observe.summary import flops_of_objects, read_lines
from nearfield.observe.trace import Trace, broken_streams_as_errors, require_usable_folder
from nearfield.ui.progress import ProgressDisplay
from nearfield.ui.terminal import err


@dataclass(frozen=True)
class SimulationParameters:
    """The parameters of a simulation, from the command-line options."""

    cluster_of: Callable[[int], Cluster]  # returns the cluster for a number of ranks
    policies: tuple[str, ...]
    slowdowns: tuple[float, ...]
    regions: tuple[str, ...]
    threads: int
    scheduled_policy: int | None = None  # index of the policy whose schedules are recorded
    first_reads: bool = False  # whether to measure how long received data lies before it is read


@dataclass(frozen=True)
class SimulationResult:
    """The result of the simulation of a program."""

    replay: Replay
    command: str
    seconds: float
    decides_outcomes: bool = False  # whether the simulation, not the host, decided nondeterministic MPI outcomes
    named_lines: list[SourceLine] = field(default_factory=list)  # source lines resolved for `replay`


@dataclass(frozen=True)
class OutcomeSource:
    """Whether the simulation or the host decides a command's nondeterministic MPI outcomes and its MPI_Wtime."""

    simulates_outcomes: bool = True  # whether the simulation decides nondeterministic outcomes; otherwise the host
    simulates_clock: bool = False  # whether MPI_Wtime returns simulated time


def is_command(words: list[str]) -> bool:
    """Returns whether the argument is a command to run; otherwise it is a trace."""
    return bool(words) and bool(shutil.which(words[0])) and not (len(words) == 1 and Path(words[0]).is_dir())


def simulate_trace(trace: Trace, parameters: SimulationParameters, shards: SingleShard) -> SimulationResult:
    """Simulates the trace on all shards (processes of an MPI job). The first shard gets the result. Ctrl-C exits."""
    streams = trace.streams()
    lines = shards.run_on_all(lambda: {} if shards.shard_index else read_lines(trace))
    cluster = shards.run_on_all(lambda: parameters.cluster_of(len(streams)))

    named_lines: list[SourceLine] = []

    def line_of(called: str, frames: list[tuple[str, int]]) -> str:
        named_lines.append(line_of_call(lines, called, frames))
        return str(named_lines[-1])

    def simulated() -> Replay:
        with broken_streams_as_errors():
            return replay_program(
                cluster, streams, flops_of_objects(trace), line_of, parameters.regions, pass_on, parameters.threads,
                shards, parameters.scheduled_policy, measures_first_reads=parameters.first_reads,
            )  # fmt: skip

    # A shard that gets a signal only records it, and forwards it to the others at their next exchange.
    with InterruptGuard((lambda: True) if shards.num_shards > 1 else None) as stop, ProgressDisplay() as display:
        reporter, begun = AccessReporter(display, cluster.num_runs * trace.metadata.accesses), time.monotonic()

        def pass_on(accesses: int) -> None:
            stop.raise_if_signalled()
            shards.report_progress(accesses)
            if not shards.shard_index:
                reporter(shards.total_accesses)

        try:
            found = shards.run_on_all(lambda: stop.run(simulated))
        except KeyboardInterrupt:
            if not shards.shard_index:
                err.print("stopped: the program was not simulated to its end")
            raise typer.Exit(stop.exit_code if stop.signal_number else 128 + signal.SIGINT) from None
        seconds = time.monotonic() - begun
    return SimulationResult(found, trace.metadata.command, seconds, named_lines=named_lines)


def simulate_live(
    argv: list[str], keep: Path | None, parameters: SimulationParameters, course: OutcomeSource
) -> SimulationResult:
    """Runs the command and simulates it concurrently. Ctrl-C ends both. Raises MeasurementError if the program was not
    observed completely."""

    def say(line: str) -> None:
        err.print(f"nearfield: {line}")

    if keep:
        require_usable_folder(keep, force=False)  # checked before anything is built
    prepared, begun = prepare_command(argv, progress=say), time.monotonic()
    with InterruptGuard() as stop:
        try:
            with ObservedCommand(
                prepared, keep, uses_live_queries=course.simulates_outcomes, controls_clock=course.simulates_clock
            ) as running:
                found = stop.run(lambda: _simulate_while_running(running, parameters))
                problem = stop.run(lambda: running.wait_for_end(say))
        except KeyboardInterrupt:
            err.print("stopped: the program was not simulated to its end")
            raise typer.Exit(stop.exit_code) from None
    if problem:
        raise MeasurementError(f"the program was simulated, but {problem}")
    return SimulationResult(
        found, shlex.join(argv), time.monotonic() - begun, decides_outcomes=course.simulates_outcomes
    )


def simulate_independently(argv: list[str], parameters: SimulationParameters, course: OutcomeSource) -> list[Replay]:
    """Runs and simulates the command once for each policy and memory speed. Returns the results, grouped by policy."""

    def once(policy: str, slowdown: float) -> Replay:
        def cluster_of(ranks: int) -> Cluster:
            return replace(
                parameters.cluster_of(ranks), policies=(policy,), slowdowns=(slowdown,), uses_independent_runs=False
            )

        err.print(f"nearfield: {policy} at slowdown {slowdown:g}")
        return simulate_live(argv, None, replace(parameters, cluster_of=cluster_of), course).replay

    return [once(policy, slowdown) for policy in parameters.policies for slowdown in parameters.slowdowns]


def _simulate_while_running(command: ObservedCommand, parameters: SimulationParameters) -> Replay:
    code = MachineCode()
    cluster = parameters.cluster_of(command.wait_for_ranks())
    with ProgressDisplay() as display:
        progress = command.make_cancellable(AccessReporter(display))
        try:
            found = command.run_in_thread(
                lambda: replay_program(
                    cluster,
                    command.streams,
                    code.flops_by_offset_of,
                    code.line_of,
                    parameters.regions,
                    progress,
                    parameters.threads,
                    scheduled_policy=parameters.scheduled_policy,
                    measures_first_reads=parameters.first_reads,
                )  # fmt: skip
            )
        except (stream.BrokenStream, NearfieldError) as error:
            raise _explain_failure(command, error) from error
    code.read_lines(found.replayed)
    return found


def _explain_failure(command: ObservedCommand, error: Exception) -> Exception:
    """Returns the error to raise for a simulation that ended before its program."""
    if not isinstance(error, stream.BrokenStream) and not command.has_left_processes:
        return error
    why = command.failure_reason()
    return MeasurementError(f"the program was not simulated to its end: {why or 'one of its ranks ended'}", str(error))
