"""`nearfield tune --collectives` without the command line: which algorithm does a collective of some length fastest?

All algorithms of a cell, that is of an operation and a length, are measured in turn in one process, on the same cores
(src/preload/collectives/measure.cpp); several launches follow each other, since launches differ. Algorithms that are
clearly slower, and cells that are clear, are left out of later launches. Where neighbouring lengths have different
algorithms, lengths between them are measured, until they differ by a factor of two.

nearfield's own algorithm is chosen only where it is not found slower than the MPI's: where the data do not decide, the
MPI does the collective itself."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import geometric_mean as geometric_mean_of
from statistics import median
from typing import NamedTuple

from nearfield import mpi
from nearfield.base import all_nodes, own_command
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain, paired_gain
from nearfield.base.progress import Progress, Report, ignore
from nearfield.rules.collective_tables import CollectivePointTable, CollectiveRangeTable, CollectiveTable
from nearfield.rules.collectives import (
    DOUBLING,
    FLAT,
    MAX_DOUBLING_BYTES,
    OF_MPI,
    VARIABLE,
    algorithms_of,
    for_installation,
    operations_of,
)
from nearfield.rules.gain_table import GainTable
from nearfield.rules.gains import geometric_mean

SIZES = (8, 64, 256, *(1 << power for power in range(10, 25, 2)))  # 8 B to 16 MiB
MIN_LAUNCHES, MAX_LAUNCHES = 3, 7
MIN_SPEED = 0.97  # of the MPI's own algorithm, that a chosen one has at least
CLEAR = 1.2  # a ratio beyond which a cell is clear after MIN_LAUNCHES
HOPELESS = 1.5  # times slower than the best one in each launch: the algorithm is left out
LAUNCH_LIMIT_S = 120.0
MAX_BUFFER_BYTES = 128 << 20  # of a rank, to send or to receive
_OF_BLOCKS = ("gather", "scatter", "allgather", "alltoall")  # there is one for each rank
_REFINED_BY = 0.8  # the share of the time after which no new lengths are measured


class Cell(NamedTuple):
    """An operation and a length in bytes; a barrier has length 0."""

    operation: str
    size_bytes: int

    def argument(self, algorithms: Iterable[str]) -> str:
        """Returns the cell as nearfield-collectives reads it."""
        return f"{self.operation}:{self.size_bytes}:{','.join(algorithms)}"


@dataclass
class Measured:
    """The measurements of one cell in all launches so far."""

    algorithms: list[str]  # that are still measured, the MPI's own among them
    speed: dict[str, list[float]] = field(default_factory=dict)  # algorithm -> MPI's time / its time, by launch
    times_ns: dict[str, list[float]] = field(default_factory=dict)  # algorithm -> time of a call, by launch

    @property
    def launches(self) -> int:
        return len(self.speed.get(OF_MPI, ()))

    def add(self, speed: Mapping[str, float], times_ns: Mapping[str, float]) -> None:
        """Adds a launch, and leaves out algorithms that were hopeless in each of the first launches."""
        for name in speed:
            self.speed.setdefault(name, []).append(speed[name])
            self.times_ns.setdefault(name, []).append(times_ns[name])
        if self.launches < 2:
            return
        best = [max(self.speed[name][i] for name in self.algorithms) for i in range(self.launches)]
        self.algorithms = [
            name
            for name in self.algorithms
            if name == OF_MPI or any(b < HOPELESS * own for b, own in zip(best, self.speed[name], strict=True))
        ]

    def gain(self, name: str) -> Gain:
        """Returns the time of the MPI's own algorithm divided by that of another one."""
        return paired_gain(self.speed[name], [1.0] * len(self.speed[name]))

    def is_clear(self) -> bool:
        """Returns whether more launches would hardly change the choice."""
        if self.launches < MIN_LAUNCHES:
            return False
        own = [name for name in self.algorithms if name != OF_MPI]
        if not own:
            return True
        worst_of_best = max(min(self.speed[name]) for name in own)
        return len(own) == 1 and (worst_of_best > CLEAR or max(self.speed[own[0]]) < 1 / CLEAR)

    def is_decided(self) -> bool:
        """Returns whether the data say if any of nearfield's algorithms is slower than the MPI's own."""
        if self.launches < MIN_LAUNCHES:
            return False
        gains = [self.gain(name) for name in self.algorithms if name != OF_MPI]
        return any(_is_harmless(gain) for gain in gains) or all(gain.high < 1 for gain in gains)

    def best(self) -> str:
        """Returns the algorithm to use: the fastest of those that are not found slower than the MPI's own. Between two
        of nearfield's, the one that it takes by itself is used unless the other one is faster in most launches."""
        if self.launches < MIN_LAUNCHES:
            return OF_MPI
        harmless = [name for name in self.algorithms if name != OF_MPI and _is_harmless(self.gain(name))]
        best = max(harmless, key=lambda name: self.gain(name).value, default=OF_MPI)
        if best in (FLAT, OF_MPI) or FLAT not in harmless:
            return best
        faster = paired_gain(self.speed[best], self.speed[FLAT])
        return best if faster.low > 1.0 and faster.value > 1 / MIN_SPEED else FLAT


def _is_harmless(gain: Gain) -> bool:
    return gain.value >= 1.0 and gain.low >= MIN_SPEED


@dataclass
class CollectiveTuning:
    """One search for the algorithms of an MPI's collectives, with a rank on each of `cpus`, which are those of the
    first host, then those of the second one, and so on."""

    inst: mpi.Installation
    cpus: Sequence[int]
    budget_s: float
    report: Report = ignore
    hosts: Sequence[str] = ()  # on each of which the same number of ranks runs; none: this machine
    operations: Sequence[str] = ()  # none: all that can be done directly
    sizes: Sequence[int] = SIZES
    lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by operation, in place of the two above
    group: int = 0  # neighbouring ranks that share their last cache; 0: all share it, or none
    cells: dict[Cell, Measured] = field(default_factory=dict)
    latencies_ns: list[float] = field(default_factory=list)  # core-to-core, between the first two ranks
    is_interrupted: bool = False

    def __post_init__(self) -> None:
        self.operations = self.operations or list(self.lengths) or operations_of(self.nodes)

    def run(self) -> list[CollectiveTable]:
        """Returns a table for each operation of which each length was measured in MIN_LAUNCHES launches. Ctrl-C, or the
        end of the time, ends the measurement early. Raises MeasurementError if the program fails."""
        settings = [os.environ.get(VARIABLE, ""), "after=0", "all_nodes=1" if self.hosts else ""]
        environment = for_installation(self.inst, os.environ, self.report)
        environment[VARIABLE] = ",".join(filter(None, settings))
        if self.hosts:
            environment |= all_nodes.open_mpi_forwarding_variable(("mpirun",), {**os.environ, **environment})
        program = mpi.program(self.inst, mpi.COLLECTIVES_PROGRAM, progress=self.report)
        self._begun = time.monotonic()
        self._add_cells(Cell(name, size) for name in self.operations for size in self._sizes_of(name))
        self.report(
            f"{self.inst.name}: {len(self.cells)} operations and lengths on {self._place()}, at most "
            f"{self.budget_s + LAUNCH_LIMIT_S / 10:.0f} s"
        )
        try:
            while cells := self._next_cells():
                self._launch([str(program)], environment, cells)
        except KeyboardInterrupt:
            self.is_interrupted = True
        tables = [self._table(name) for name in self.operations]
        return [table for table in tables if table]

    @property
    def nodes(self) -> int:
        return max(len(self.hosts), 1)

    @property
    def ranks(self) -> int:
        """Returns the number of ranks on each node."""
        return len(self.cpus) // self.nodes

    def _place(self) -> str:
        return f"{self.ranks} ranks" + (f" on each of {self.nodes} nodes" if self.nodes > 1 else "")

    def _sizes_of(self, operation: str) -> Sequence[int]:
        """Returns the lengths to measure. A block for each rank must not take more than MAX_BUFFER_BYTES in all."""
        if operation == "barrier":
            return [0]
        blocks = len(self.cpus) if operation in _OF_BLOCKS else 1
        return [size for size in self.lengths.get(operation, self.sizes) if size * blocks <= MAX_BUFFER_BYTES]

    def undecided(self) -> list[Cell]:
        """Returns the cells of which the data do not say whether nearfield's algorithms are slower."""
        return [cell for cell, measured in self.cells.items() if not measured.is_decided()]

    def _add_cells(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            self.cells.setdefault(cell, Measured(self._algorithms(cell)))

    def _algorithms(self, cell: Cell) -> list[str]:
        """Returns the algorithms to measure: two ranks read from each other in one step in any case."""
        names = algorithms_of(cell.operation, self.group, self.nodes)
        return [
            name for name in names if name != DOUBLING or (len(self.cpus) > 2 and cell.size_bytes <= MAX_DOUBLING_BYTES)
        ]

    def _next_cells(self) -> list[Cell]:
        """Returns the cells of the next launch; none if all is decided or the time is over."""
        passed = (time.monotonic() - self._begun) / self.budget_s
        if passed > 1:
            return []
        left = self._unfinished()
        if not left and passed < _REFINED_BY:
            self._refine()
            left = self._unfinished()
        return left

    def _unfinished(self) -> list[Cell]:
        return [cell for cell, one in self.cells.items() if one.launches < MAX_LAUNCHES and not one.is_clear()]

    def _refine(self) -> None:
        """Adds a length between neighbours of which different algorithms are best."""
        for name in self.operations:
            cells = self._cells_of(name)
            for low, high in zip(cells, cells[1:], strict=False):
                if self.cells[low].best() == self.cells[high].best() or high.size_bytes <= 2 * low.size_bytes:
                    continue
                middle = 1 << round((math.log2(low.size_bytes) + math.log2(high.size_bytes)) / 2)
                self._add_cells([Cell(name, middle)])

    def _cells_of(self, operation: str) -> list[Cell]:
        return sorted(cell for cell in self.cells if cell.operation == operation)

    def _launch(self, program: list[str], environment: dict[str, str], cells: Sequence[Cell]) -> None:
        """Measures the cells in one launch."""
        number = 1 + min(self.cells[cell].launches for cell in cells)
        phase = f"{self._place()}, launch {number}"

        def read(stream: str, line: str) -> None:
            if stream == "stdout" and line.startswith("{"):
                rows.append(json.loads(line))
                done = sum(row.get("arrival") == "together" for row in rows)
                share = min(0.99, (time.monotonic() - self._begun) / self.budget_s)
                self.report(Progress(f"{done} of {len(cells)} operations and lengths", share, phase=phase))

        rows: list[dict[str, object]] = []
        words = [cell.argument(self.cells[cell].algorithms) for cell in cells]
        argv = [*program, ",".join(map(str, self.cpus)), *words]
        hosts = [(host, self.ranks) for host in self.hosts] or None
        limit_s = LAUNCH_LIMIT_S + self.budget_s
        finished = mpi.run(
            self.inst, argv, len(self.cpus), hosts=hosts, env=environment, on_line=read, timeout_s=limit_s
        )
        if not finished.ok:
            what = "did not end in time" if finished.timed_out else f"failed (exit code {finished.exit_code})"
            raise MeasurementError(
                f"measuring collectives {what}: {[*finished.words, finished.silence][0]}",
                f"{own_command.line('doctor')} says whether ranks may read each other's memory",
            )
        self._add_rows(rows)

    def _add_rows(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Adds the lines of one launch. An algorithm's time is that of its fastest batch, which no other program
        disturbed; arrivals together and late count alike."""
        found: dict[Cell, list[dict[str, list[float]]]] = {}
        for row in rows:
            self.latencies_ns.append(float(row["latency_ns"]))  # type: ignore[arg-type]
            if "samples" in row:
                cell = Cell(str(row["operation"]), int(row["bytes"]))  # type: ignore[call-overload]
                found.setdefault(cell, []).append(row["samples"])  # type: ignore[arg-type]
        for cell, arrivals in found.items():
            speed, times = {}, {}
            for name in arrivals[0]:
                ratios = [min(samples[OF_MPI]) / min(samples[name]) for samples in arrivals]
                speed[name] = geometric_mean_of(ratios)
                times[name] = min(arrivals[0][name])
            self.cells[cell].add(speed, times)

    def _table(self, operation: str) -> CollectiveTable | None:
        """Returns what is selected for an operation; None if some length was not measured."""
        cells = self._cells_of(operation)
        usual = [cell for cell in cells if cell.size_bytes in self._sizes_of(operation)]
        if not usual or any(self.cells[cell].launches < MIN_LAUNCHES for cell in usual):
            return None
        cells = [cell for cell in cells if self.cells[cell].launches >= MIN_LAUNCHES]
        points = [_point(cell, self.cells[cell]) for cell in cells]
        nodes = self.nodes if self.nodes > 1 else None
        return CollectiveTable(
            operation=operation, ranks=self.ranks, nodes=nodes, range=ranges_of(points), point=points
        )


def ranges_of(points: Sequence[CollectivePointTable]) -> list[CollectiveRangeTable]:
    """Returns the ranges of lengths with one algorithm, from measured lengths in rising order: each range ends with the
    last neighbour that has its algorithm. Lengths below half of the shortest one and above twice the longest one are
    left to the MPI, unless these are the shortest and the longest of SIZES."""
    shortest, longest = points[0].size_bytes, points[-1].size_bytes
    ranges: list[CollectiveRangeTable] = []
    if shortest > SIZES[0] and points[0].algorithm != OF_MPI:
        ranges.append(CollectiveRangeTable(to_bytes=shortest // 2, algorithm=OF_MPI))
    for algorithm, group in groupby(points, lambda point: point.algorithm):
        neighbours = list(group)
        gain = geometric_mean(one.gain.as_gain() for one in neighbours)
        ranges.append(
            CollectiveRangeTable(to_bytes=neighbours[-1].size_bytes, algorithm=algorithm, gain=GainTable.of(gain))
        )
    if 0 < longest < SIZES[-1] and ranges[-1].algorithm != OF_MPI:
        ranges[-1].to_bytes = 2 * longest
        ranges.append(CollectiveRangeTable(algorithm=OF_MPI))
    ranges[-1].to_bytes = None
    return ranges


def merge_points(old: CollectiveTable, new: CollectiveTable) -> CollectiveTable:
    """Returns a table of the lengths of both, the new one's where both have one."""
    points = {point.size_bytes: point for point in [*old.point, *new.point]}
    merged = [points[size] for size in sorted(points)]
    return new.model_copy(update={"range": ranges_of(merged), "point": merged})


def _point(cell: Cell, measured: Measured) -> CollectivePointTable:
    best = measured.best()
    return CollectivePointTable(
        size_bytes=cell.size_bytes,
        algorithm=best,
        mpi_ns=round(median(measured.times_ns[OF_MPI]), 1),
        algorithm_ns=round(median(measured.times_ns[best]), 1),
        gain=GainTable.of(measured.gain(best)),
    )
