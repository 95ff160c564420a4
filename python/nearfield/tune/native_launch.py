"""Launches the program that measures an MPI's own algorithms (src/preload/collectives/measure.cpp). An algorithm may
crash or hang the program; the printed lines then identify the algorithm."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.rules.native import NativeAlgorithm
from nearfield.tune.collectives import CollectiveCell
from nearfield.tune.starved import JobProcesses, JobTurn

HANG_REASON = "hangs"
SILENCE_LIMIT_S = 20.0  # a program that prints no line for this long, not counting waits for a CPU, hangs
SamplesByAlgorithm = Mapping[str, Sequence[float]]  # algorithm -> time per call in ns, one value per batch


@dataclass(frozen=True)
class AlgorithmFailure:
    """The reason why an algorithm is dropped. `algorithm` is empty if it is unknown which one failed."""

    cell: CollectiveCell
    algorithm: str
    reason: str


@dataclass
class LaunchOutput:
    """The parsed output of one launch. Each cell has samples for ranks that arrive simultaneously and, if its calls are
    short, samples for ranks that arrive late."""

    samples: dict[CollectiveCell, list[SamplesByAlgorithm]] = field(default_factory=dict)
    failures: list[AlgorithmFailure] = field(default_factory=list)
    c2c_latencies_ns: list[float] = field(default_factory=list)

    @property
    def median_c2c_latency_ns(self) -> float:
        """Returns the median core-to-core latency of the first two ranks in ns; 0 if it is unknown."""
        return median(self.c2c_latencies_ns) if self.c2c_latencies_ns else 0.0

    def min_times_ns(self, cell: CollectiveCell, algorithm: str) -> list[float]:
        """Returns the minimum over the batches, the least disturbed by other programs, for each arrival pattern of the
        ranks."""
        return [min(samples[algorithm]) for samples in self.samples[cell]]


class _SilenceDetector:
    """Detects that a program prints nothing although it has CPU time."""

    def __init__(self, program: Path) -> None:
        self._job = JobProcesses(program.parent)
        self.end()

    def end(self) -> None:
        self._turn = JobTurn(self._job, self._job.sample_processes())

    def is_silent_too_long(self) -> bool:
        return not self._turn.can_still_reply(SILENCE_LIMIT_S)


def format_algorithm_argument(algorithm: NativeAlgorithm) -> str:
    """Returns the algorithm and the control variables that select it, as a command-line argument of the measuring
    program."""
    return f"{algorithm.name}@{'&'.join(f'{name}={value}' for name, value in algorithm.settings.items())}"


def _find_failure_cause(lines: Sequence[str]) -> str:
    """Returns the first line that names the cause of a failure, prefixed by ": "; empty if there is none. Lines of an
    MPI about missing components are no causes."""
    causes = [line for line in lines if re.search(r"(?i)signal|segmentation|assert|fatal|unsupported", line)]
    return f": {causes[0]}" if causes else ""


def launch_measuring_program(
    inst: mpi.Installation,
    program: Path,
    cpus: Sequence[int],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    on_cell_finished: Callable[[int], None],
) -> LaunchOutput:
    """Runs the measuring program; `arguments` are its arguments, the mode and the cells. `on_cell_finished` is called
    with the number of finished cells. Raises MeasurementError if the program fails before it tries an algorithm."""
    found, silence = LaunchOutput(), _SilenceDetector(program)
    trying: list[tuple[CollectiveCell, str]] = []

    def read(stream: str, line: str) -> None:
        if stream != "stdout" or not line.startswith("{"):
            return
        silence.end()
        row: dict[str, Any] = json.loads(line)
        if "operation" in row:
            cell = CollectiveCell(row["operation"], row["bytes"])
            if "trying" in row:
                trying[:] = [(cell, row["trying"])]
            elif "refused" in row:
                found.failures.append(AlgorithmFailure(cell, row["algorithm"], row["refused"]))
            else:
                found.samples.setdefault(cell, []).append(row["samples"])
                on_cell_finished(len(found.samples))
        if "latency_ns" in row:
            found.c2c_latencies_ns.append(row["latency_ns"])

    argv = [str(program), ",".join(map(str, cpus)), *arguments]
    oversubscribes = len(set(cpus)) < len(cpus)
    done = mpi.run(
        inst, argv, len(cpus), oversubscribe=oversubscribes, env=dict(environment), on_line=read,
        is_dead=silence.is_silent_too_long,
    )  # fmt: skip
    if not done.has_succeeded:
        reason = (
            HANG_REASON
            if done.timed_out
            else f"ends the program (exit code {done.exit_code}){_find_failure_cause(done.output_lines)}"
        )
        if not trying:
            raise MeasurementError(f"measuring the algorithms of {inst.name} failed: it {reason}")
        cell, algorithm = trying[0]
        found.samples.pop(cell, None)  # the output for this cell may be incomplete
        found.failures.append(AlgorithmFailure(cell, algorithm, reason))
    return found
