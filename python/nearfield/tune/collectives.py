"""Runs `nearfield tune --collectives` without its command line: finds the fastest algorithm for each collective
operation and message length.

All algorithms of a cell (an operation and a length) are measured in turn in one process, on the same cores
(src/preload/collectives/measure.cpp). Because launches vary, several launches follow each other; later launches skip
algorithms that are clearly slower, and cells whose result is clear. If neighbouring lengths have different best
algorithms, a length between them is measured, until neighbours differ by a factor of two.

nearfield's own algorithm is selected only where the measurements show that it is not slower than the MPI's. If they are
inconclusive, the MPI's own algorithm is used."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean as geometric_mean_of
from statistics import median
from typing import NamedTuple

from nearfield import mpi
from nearfield.base import all_nodes, own_command
from nearfield.base.errors import MeasurementError, NodeLostError
from nearfield.base.paired import Gain, paired_gain
from nearfield.base.progress import Progress, Report, ignore_progress
from nearfield.base.units import counted
from nearfield.rules.collective_tables import CollectivePointTable, CollectiveRangeTable, CollectiveTable
from nearfield.rules.collectives import (
    COLLECTIVES_VARIABLE,
    DOUBLING_ALGORITHM,
    FLAT_ALGORITHM,
    MPI_ALGORITHM,
    algorithms_of,
    collectives_variables,
    max_doubling_bytes,
    operations_across_nodes,
)
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.gains import geometric_mean
from nearfield.tune.launch_log import LaunchLog

DEFAULT_LENGTHS = (8, 64, 256, *(1 << power for power in range(10, 25, 2)))  # message lengths from 8 B to 16 MiB
MIN_LAUNCHES, MAX_LAUNCHES = 3, 7
# lower confidence bound for a selected algorithm, as a fraction of the speed of the MPI's own
MIN_RELATIVE_SPEED = 0.97
DECISIVE_SPEED_RATIO = 1.2  # speed ratio beyond which the result of a cell is clear after MIN_LAUNCHES
MIN_SLOWDOWN_TO_DROP = 1.5  # an algorithm this many times slower than the best in each launch is dropped
LAUNCH_TIME_LIMIT_S = 120.0
MAX_BUFFER_BYTES = 128 << 20  # per rank, for the send buffer and for the receive buffer
# operations whose length is that of one block, with a block for each rank
_BLOCKWISE_OPERATIONS = ("gather", "scatter", "allgather", "alltoall")
_REFINEMENT_END_BUDGET_SHARE = 0.8  # fraction of the time budget after which no new lengths are added


class CollectiveCell(NamedTuple):
    """A collective operation and a length in bytes (0 for a barrier)."""

    operation: str
    size_bytes: int

    def to_argument(self, algorithms: Iterable[str]) -> str:
        """Returns the cell and the algorithms to measure, as a command-line argument of nearfield-collectives."""
        return f"{self.operation}:{self.size_bytes}:{','.join(algorithms)}"


@dataclass
class CellMeasurements:
    """All measurements of one cell, over all launches so far."""

    algorithms: list[str]  # algorithms still under measurement, including the MPI's own
    # algorithm -> speed-up over the MPI's own, one value per launch
    speedups_by_algorithm: dict[str, list[float]] = field(default_factory=dict)
    # algorithm -> time per call, one value per launch
    times_ns_by_algorithm: dict[str, list[float]] = field(default_factory=dict)

    @property
    def num_launches(self) -> int:
        return len(self.speedups_by_algorithm.get(MPI_ALGORITHM, ()))

    def add_launch(self, speedup_by_algorithm: Mapping[str, float], time_ns_by_algorithm: Mapping[str, float]) -> None:
        """Adds the results of a launch. Drops algorithms that were MIN_SLOWDOWN_TO_DROP times slower than the best in
        each of the launches so far."""
        for name in speedup_by_algorithm:
            self.speedups_by_algorithm.setdefault(name, []).append(speedup_by_algorithm[name])
            self.times_ns_by_algorithm.setdefault(name, []).append(time_ns_by_algorithm[name])
        if self.num_launches < 2:
            return
        best = [max(self.speedups_by_algorithm[name][i] for name in self.algorithms) for i in range(self.num_launches)]
        self.algorithms = [
            name
            for name in self.algorithms
            if name == MPI_ALGORITHM
            or any(
                b < MIN_SLOWDOWN_TO_DROP * own for b, own in zip(best, self.speedups_by_algorithm[name], strict=True)
            )
        ]

    def gain_of(self, algorithm: str) -> Gain:
        """Returns the speed-up of an algorithm over the MPI's own, with its confidence interval."""
        return paired_gain(self.speedups_by_algorithm[algorithm], [1.0] * len(self.speedups_by_algorithm[algorithm]))

    def has_clear_choice(self) -> bool:
        """Returns whether further launches are unlikely to change the choice of the algorithm."""
        if self.num_launches < MIN_LAUNCHES:
            return False
        own = [name for name in self.algorithms if name != MPI_ALGORITHM]
        if not own:
            return True
        worst_of_best = max(min(self.speedups_by_algorithm[name]) for name in own)
        return len(own) == 1 and (
            worst_of_best > DECISIVE_SPEED_RATIO or max(self.speedups_by_algorithm[own[0]]) < 1 / DECISIVE_SPEED_RATIO
        )

    def is_decided(self) -> bool:
        """Returns whether the measurements show that one of nearfield's algorithms is not slower than the MPI's own, or
        that all of them are slower."""
        if self.num_launches < MIN_LAUNCHES:
            return False
        gains = [self.gain_of(name) for name in self.algorithms if name != MPI_ALGORITHM]
        return any(_is_not_slower(gain) for gain in gains) or all(gain.high < 1 for gain in gains)

    def best_algorithm(self) -> str:
        """Returns the algorithm to select: the fastest of those that were not found slower than the MPI's own.
        nearfield's default algorithm FLAT_ALGORITHM is preferred to its other algorithms, unless another is
        significantly faster."""
        if self.num_launches < MIN_LAUNCHES:
            return MPI_ALGORITHM
        harmless = [name for name in self.algorithms if name != MPI_ALGORITHM and _is_not_slower(self.gain_of(name))]
        best = max(harmless, key=lambda name: self.gain_of(name).value, default=MPI_ALGORITHM)
        if best in (FLAT_ALGORITHM, MPI_ALGORITHM) or FLAT_ALGORITHM not in harmless:
            return best
        faster = paired_gain(self.speedups_by_algorithm[best], self.speedups_by_algorithm[FLAT_ALGORITHM])
        return best if faster.low > 1.0 and faster.value > 1 / MIN_RELATIVE_SPEED else FLAT_ALGORITHM


def _is_not_slower(gain: Gain) -> bool:
    return gain.value >= 1.0 and gain.low >= MIN_RELATIVE_SPEED


@dataclass
class CollectiveTuning:
    """Selects the algorithms of an MPI's collectives, measured with one rank on each of `cpus`: the CPUs of the first
    host, then those of the second host, and so on."""

    inst: mpi.Installation
    cpus: Sequence[int]
    budget_s: float
    report: Report = ignore_progress
    hosts: Sequence[str] = ()  # hosts with equal numbers of ranks; empty: this machine
    operations: Sequence[str] = ()  # empty: all operations that nearfield's library implements
    sizes: Sequence[int] = DEFAULT_LENGTHS
    # operation -> lengths; replaces `operations` and `sizes`
    lengths_by_operation: Mapping[str, Sequence[int]] = field(default_factory=dict)
    cache_group_size: int = 0  # number of neighbouring ranks that share a last-level cache; 0: all or none share one
    cells: dict[CollectiveCell, CellMeasurements] = field(default_factory=dict)
    c2c_latencies_ns: list[float] = field(default_factory=list)  # core-to-core latencies between the first two ranks
    # the launches of an interrupted session, and where to record those of this one
    log: LaunchLog | None = None
    is_interrupted: bool = False
    lost_node_error: NodeLostError | None = None  # the error of a node that died, which ended the measurement

    def __post_init__(self) -> None:
        self.operations = self.operations or list(self.lengths_by_operation) or operations_across_nodes(self.num_nodes)

    def run(self) -> list[CollectiveTable]:
        """Returns a table for each operation all of whose lengths were measured in at least MIN_LAUNCHES launches.
        Ctrl-C, a node that dies (`lost_node_error`), or the end of the time budget ends the measurement early. Launches
        in `log` are not repeated. Raises MeasurementError if the measuring program fails."""
        settings = [os.environ.get(COLLECTIVES_VARIABLE, ""), "after=0", "all_nodes=1" if self.hosts else ""]
        environment = collectives_variables(self.inst, os.environ, self.report)
        environment[COLLECTIVES_VARIABLE] = ",".join(filter(None, settings))
        if self.hosts:
            environment |= all_nodes.open_mpi_forwarding_variable(("mpirun",), {**os.environ, **environment})
        program = mpi.build_target(self.inst, mpi.COLLECTIVES_PROGRAM_TARGET, progress=self.report)
        self._begun = time.monotonic()
        place = self._make_log_key(program)
        launches = self.use_logged_launches(place)
        self.report(
            f"{self.inst.name}: {len(self.cells)} operations and lengths on {self._format_placement()}, at most "
            f"{self.budget_s + LAUNCH_TIME_LIMIT_S / 10:.0f} s"
        )
        self.report_continuation(launches)
        try:
            while cells := self._cells_for_next_launch():
                rows = self._run_measuring_program([str(program)], environment, cells)
                if self.log:
                    self.log.add_launch(place, rows)
                self._add_output_rows(rows)
        except KeyboardInterrupt:
            self.is_interrupted = True
        except NodeLostError as error:
            self.lost_node_error = error
        tables = [self._table_of_operation(name) for name in self.operations]
        return [table for table in tables if table]

    def report_continuation(self, num_launches: int) -> None:
        """Reports that launches of an earlier session count."""
        if self.log and num_launches:
            said = f"continues after {counted(num_launches, 'launch', 'launches')} in {self.log.path}"
            self.report(f"{said}; --overwrite starts again")

    def use_logged_launches(self, log_key: str) -> int:
        """Makes the cells, with what earlier sessions have measured at this place. Returns the number of launches."""
        self._add_cells(CollectiveCell(name, size) for name in self.operations for size in self._lengths_of(name))
        earlier = self.log.launches_of(log_key) if self.log else ()
        for rows in earlier:
            self._add_output_rows(rows)
        return len(earlier)

    @property
    def num_nodes(self) -> int:
        return max(len(self.hosts), 1)

    @property
    def ranks_per_node(self) -> int:
        """Returns the number of ranks per node."""
        return len(self.cpus) // self.num_nodes

    def _format_placement(self) -> str:
        return f"{self.ranks_per_node} ranks" + (f" on each of {self.num_nodes} nodes" if self.num_nodes > 1 else "")

    def _make_log_key(self, program: Path) -> str:
        """Returns the text that identifies this measurement in a log: the build of the program for this MPI, the CPUs
        and the hosts."""
        return f"{program.parent.name} {','.join(map(str, self.cpus))} {','.join(self.hosts)}".rstrip()

    def _lengths_of(self, operation: str) -> Sequence[int]:
        """Returns the lengths to measure for an operation. Where each rank has a block of this length, leaves out
        lengths whose blocks exceed MAX_BUFFER_BYTES in total."""
        if operation == "barrier":
            return [0]
        blocks = len(self.cpus) if operation in _BLOCKWISE_OPERATIONS else 1
        return [
            size for size in self.lengths_by_operation.get(operation, self.sizes) if size * blocks <= MAX_BUFFER_BYTES
        ]

    def undecided_cells(self) -> list[CollectiveCell]:
        """Returns the cells for which the measurements do not show whether nearfield's algorithms are slower than the
        MPI's."""
        return [cell for cell, measured in self.cells.items() if not measured.is_decided()]

    def _add_cells(self, cells: Iterable[CollectiveCell]) -> None:
        for cell in cells:
            self.cells.setdefault(cell, CellMeasurements(self._algorithms_to_measure(cell)))

    def _algorithms_to_measure(self, cell: CollectiveCell) -> list[str]:
        """Returns the algorithms to measure for a cell. Leaves out recursive doubling for two ranks, which exchange
        data in one step with any algorithm, and for lengths that it cannot send."""
        names = algorithms_of(cell.operation, self.cache_group_size, self.num_nodes)
        return [
            name
            for name in names
            if name != DOUBLING_ALGORITHM
            or (len(self.cpus) > 2 and cell.size_bytes <= max_doubling_bytes(cell.operation, len(self.cpus)))
        ]

    def _cells_for_next_launch(self) -> list[CollectiveCell]:
        """Returns the cells to measure in the next launch; empty if all are decided or the time budget is used up."""
        passed = (time.monotonic() - self._begun) / self.budget_s
        if passed > 1:
            return []
        left = self._unfinished_cells()
        if not left and passed < _REFINEMENT_END_BUDGET_SHARE:
            self._add_intermediate_lengths()
            left = self._unfinished_cells()
        return left

    def _unfinished_cells(self) -> list[CollectiveCell]:
        return [
            cell for cell, one in self.cells.items() if one.num_launches < MAX_LAUNCHES and not one.has_clear_choice()
        ]

    def _add_intermediate_lengths(self) -> None:
        """Adds a length between any two neighbouring lengths with different best algorithms."""
        for name in self.operations:
            cells = self._cells_of(name)
            for low, high in zip(cells, cells[1:], strict=False):
                if (
                    self.cells[low].best_algorithm() == self.cells[high].best_algorithm()
                    or high.size_bytes <= 2 * low.size_bytes
                ):
                    continue
                middle = 1 << round((math.log2(low.size_bytes) + math.log2(high.size_bytes)) / 2)
                self._add_cells([CollectiveCell(name, middle)])

    def _cells_of(self, operation: str) -> list[CollectiveCell]:
        return sorted(cell for cell in self.cells if cell.operation == operation)

    def _run_measuring_program(
        self, program: list[str], environment: dict[str, str], cells: Sequence[CollectiveCell]
    ) -> list[dict[str, object]]:
        """Measures the cells in one launch of the measuring program. Returns the lines that the program printed. Raises
        NodeLostError if a node dies, and MeasurementError if the program fails."""
        number = 1 + min(self.cells[cell].num_launches for cell in cells)
        phase = f"{self._format_placement()}, launch {number}"

        def read(stream: str, line: str) -> None:
            if stream == "stdout" and line.startswith("{"):
                rows.append(json.loads(line))
                done = sum(row.get("arrival") == "together" for row in rows)
                share = min(0.99, (time.monotonic() - self._begun) / self.budget_s)
                self.report(Progress(f"{done} of {len(cells)} operations and lengths", share, phase=phase))

        rows: list[dict[str, object]] = []
        words = [cell.to_argument(self.cells[cell].algorithms) for cell in cells]
        argv = [*program, ",".join(map(str, self.cpus)), *words]
        hosts = [(host, self.ranks_per_node) for host in self.hosts] or None
        limit_s = LAUNCH_TIME_LIMIT_S + self.budget_s
        finished = mpi.run(
            self.inst, argv, len(self.cpus), hosts=hosts, env=environment, on_line=read, timeout_s=limit_s
        )
        where = finished.first_ended_node
        if not finished.has_succeeded or (where and len(rows) <= len(cells)):  # some launchers exit with 0
            if where:
                said = [*finished.output_lines, finished.describe_silence][0]
                raise NodeLostError(f"the processes on node {where} ended first, without notice: {said}")
            what = "did not end in time" if finished.timed_out else f"failed (exit code {finished.exit_code})"
            raise MeasurementError(
                f"measuring collectives {what}: {[*finished.output_lines, finished.describe_silence][0]}",
                f"{own_command.command_line('doctor')} shows whether ranks may read each other's memory",
            )
        return rows

    def _add_output_rows(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Adds the output lines of one launch to the cells. An algorithm's time is the minimum over its batches, the
        least disturbed by other programs. Batches with simultaneous and with late arrivals of the ranks have equal
        weight."""
        found: dict[CollectiveCell, list[dict[str, list[float]]]] = {}
        for row in rows:
            self.c2c_latencies_ns.append(float(row["latency_ns"]))  # type: ignore[arg-type]
            if MPI_ALGORITHM in row.get("samples", {}):  # type: ignore[operator]
                cell = CollectiveCell(str(row["operation"]), int(row["bytes"]))  # type: ignore[call-overload]
                found.setdefault(cell, []).append(row["samples"])  # type: ignore[arg-type]
        for cell, arrivals in found.items():
            names = set(arrivals[0]).intersection(*arrivals[1:])
            if not self._is_requested(cell):
                continue
            self._add_cells([cell])  # a length between two others may be of an earlier session
            if not names.issuperset(self.cells[cell].algorithms):
                continue  # the log of an earlier session was damaged
            speed, times = {}, {}
            for name in names:
                ratios = [min(samples[MPI_ALGORITHM]) / min(samples[name]) for samples in arrivals]
                speed[name] = geometric_mean_of(ratios)
                times[name] = min(arrivals[0][name])
            self.cells[cell].add_launch(speed, times)

    def _is_requested(self, cell: CollectiveCell) -> bool:
        """Returns whether a cell of the log belongs to this request, which may be another than that of the log."""
        if cell in self.cells or cell.operation not in self.operations:
            return cell in self.cells
        sizes = self._lengths_of(cell.operation)
        return min(sizes) < cell.size_bytes < max(sizes)

    def _table_of_operation(self, operation: str) -> CollectiveTable | None:
        """Returns the table of algorithms selected for an operation; None if some length has too few launches."""
        cells = self._cells_of(operation)
        usual = [cell for cell in cells if cell.size_bytes in self._lengths_of(operation)]
        if not usual or any(self.cells[cell].num_launches < MIN_LAUNCHES for cell in usual):
            return None
        cells = [cell for cell in cells if self.cells[cell].num_launches >= MIN_LAUNCHES]
        points = [_make_point_table(cell, self.cells[cell]) for cell in cells]
        nodes = self.num_nodes if self.num_nodes > 1 else None
        return CollectiveTable(
            operation=operation, ranks=self.ranks_per_node, nodes=nodes, range=ranges_from_points(points), point=points
        )


def ranges_from_points(points: Sequence[CollectivePointTable]) -> list[CollectiveRangeTable]:
    """Returns the ranges of lengths with the same algorithm, from points in ascending order of length. Each range
    extends to the last measured length with this algorithm. Lengths below half the shortest point and above twice the
    longest are left to the MPI, unless the points reach the ends of DEFAULT_LENGTHS."""
    shortest, longest = points[0].size_bytes, points[-1].size_bytes
    ranges: list[CollectiveRangeTable] = []
    if shortest > DEFAULT_LENGTHS[0] and points[0].algorithm != MPI_ALGORITHM:
        ranges.append(CollectiveRangeTable(to_bytes=shortest // 2, algorithm=MPI_ALGORITHM))
    for algorithm, group in groupby(points, lambda point: point.algorithm):
        neighbours = list(group)
        gain = geometric_mean(one.gain.as_gain() for one in neighbours)
        ranges.append(
            CollectiveRangeTable(to_bytes=neighbours[-1].size_bytes, algorithm=algorithm, gain=StoredGain.of(gain))
        )
    if 0 < longest < DEFAULT_LENGTHS[-1] and ranges[-1].algorithm != MPI_ALGORITHM:
        ranges[-1].to_bytes = 2 * longest
        ranges.append(CollectiveRangeTable(algorithm=MPI_ALGORITHM))
    ranges[-1].to_bytes = None
    return ranges


def merge_points(old_table: CollectiveTable, new_table: CollectiveTable) -> CollectiveTable:
    """Returns a table with the points of both tables. For lengths in both, the point of `new_table` is used."""
    points = {point.size_bytes: point for point in [*old_table.point, *new_table.point]}
    merged = [points[size] for size in sorted(points)]
    return new_table.model_copy(update={"range": ranges_from_points(merged), "point": merged})


def _make_point_table(cell: CollectiveCell, measurements: CellMeasurements) -> CollectivePointTable:
    best = measurements.best_algorithm()
    return CollectivePointTable(
        size_bytes=cell.size_bytes,
        algorithm=best,
        mpi_ns=round(median(measurements.times_ns_by_algorithm[MPI_ALGORITHM]), 1),
        algorithm_ns=round(median(measurements.times_ns_by_algorithm[best]), 1),
        gain=StoredGain.of(measurements.gain_of(best)),
    )
