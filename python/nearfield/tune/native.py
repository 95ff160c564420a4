"""Runs `nearfield tune --collectives --native` without its command line: finds which of the MPI's own algorithms are
faster for a collective of some length than the algorithm that the MPI selects.

If the MPI allows a running process to change algorithms, the search measures all algorithms of a cell in turn in one
process. Otherwise each algorithm gets a launch of its own, next to a launch with the MPI's own selection. Results are
checked, and algorithms that crash, hang or return wrong results are dropped. Then the selection is written in the MPI's
own file format, and programs without any preloaded library are launched with and without the selection in turn. Only
lengths with a gain in these launches are selected. So no algorithm is selected by chance, and what is written is
exactly what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean as geometric_mean_of
from statistics import median
from typing import Any

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.owned_folder import OwnedFolder
from nearfield.base.paired import MIN_PAIRS, Gain, paired_gain
from nearfield.base.progress import Progress
from nearfield.rules.collective_tables import CollectivePointTable, NativeCollectiveTable, NativeRangeTable
from nearfield.rules.collectives import MPI_ALGORITHM, NATIVE_OPERATIONS
from nearfield.rules.criterion import MIN_REPORTED_GAIN
from nearfield.rules.gain_table import StoredGain
from nearfield.rules.gains import geometric_mean, is_same_distance
from nearfield.rules.native import FAMILIES, NativeAlgorithm
from nearfield.tune.collectives import (
    DECISIVE_SPEED_RATIO,
    MIN_LAUNCHES,
    CellMeasurements,
    CollectiveCell,
    CollectiveTuning,
)
from nearfield.tune.native_launch import (
    HANG_REASON,
    SILENCE_LIMIT_S,
    AlgorithmFailure,
    LaunchOutput,
    format_algorithm_argument,
    launch_measuring_program,
)

DEFAULT_NATIVE_LENGTHS = (8, 256, 4 << 10, 64 << 10, 1 << 20, 8 << 20)
DEFAULT_BUDGET_S_BY_MODE = {"launches": 300.0}  # default time budget in seconds, by NativeFamily.mode
DEFAULT_BUDGET_S = 120.0
NUM_CONFIRMING_PAIRS = 9  # enough pairs for a 95 % interval that excludes minimum and maximum
_SEARCH_BUDGET_SHARE = 0.7  # fraction of the time budget at which the search ends; the rest confirms
_LAUNCHES_PER_BASELINE = 2  # number of algorithm launches between two launches of the MPI's own selection


# algorithm -> speed-up over the MPI's choice; -> time in ns
_SpeedupsAndTimes = tuple[dict[str, float], dict[str, float]]


class NativeCellMeasurements(CellMeasurements):
    """The measurements of a cell. An algorithm is selected only if it is significantly faster than the MPI's choice."""

    def best_algorithm(self) -> str:
        """Returns the fastest algorithm with a significant gain; MPI_ALGORITHM if none has one."""
        if self.num_launches < MIN_LAUNCHES:
            return MPI_ALGORITHM
        gains = {name: self.gain_of(name) for name in self.algorithms if name != MPI_ALGORITHM}
        gaining = [name for name, gain in gains.items() if gain.is_gain and gain.is_faster]
        return max(gaining, key=lambda name: gains[name].value, default=MPI_ALGORITHM)

    def is_decided(self) -> bool:
        """Returns whether some algorithm has a significant gain, or the gains of all are certainly below
        MIN_REPORTED_GAIN."""
        if self.num_launches < MIN_LAUNCHES:
            return False
        gains = [self.gain_of(name) for name in self.algorithms if name != MPI_ALGORITHM]
        return self.best_algorithm() != MPI_ALGORITHM or all(gain.high < MIN_REPORTED_GAIN for gain in gains)

    def has_clear_choice(self) -> bool:
        """Returns whether further launches are unlikely to change the choice of the algorithm."""
        if self.num_launches < MIN_LAUNCHES:
            return False
        others = [self.speedups_by_algorithm[name] for name in self.algorithms if name != MPI_ALGORITHM]
        if all(max(speed) < 1.0 for speed in others):
            return True
        return len(others) == 1 and min(others[0]) > DECISIVE_SPEED_RATIO


@dataclass
class NativeTuning(CollectiveTuning):
    """Selects among the MPI's own algorithms of collectives, measured with one rank on each of `cpus` of this
    machine."""

    sizes: Sequence[int] = DEFAULT_NATIVE_LENGTHS
    # (operation, algorithm) -> reason why the algorithm is dropped
    drop_reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    # cells whose gain in the search was not confirmed
    unconfirmed_cells: list[CollectiveCell] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.family = FAMILIES[self.inst.family]
        self.budget_s = self.budget_s or DEFAULT_BUDGET_S_BY_MODE.get(self.family.measurement_mode, DEFAULT_BUDGET_S)
        self._gains: dict[CollectiveCell, Gain] = {}  # cell -> confirmed gain

    def search(self) -> list[NativeCollectiveTable]:
        """Returns a table for each operation all of whose lengths were measured in at least MIN_LAUNCHES launches.
        After Ctrl-C the tables select nothing, because nothing was confirmed. Raises MeasurementError if the measuring
        program fails."""
        self._program = mpi.build_target(self.inst, mpi.COLLECTIVES_PROGRAM_TARGET, progress=self.report)
        listed = self.family.list_algorithms(self.inst, self.report)
        self._algorithms_of = {name: {one.name: one for one in ones} for name, ones in listed.items()}
        self.operations = self.operations or [name for name in NATIVE_OPERATIONS if self._algorithms_of.get(name)]
        self._begun, budget_s = time.monotonic(), self.budget_s
        place = f"native {self._make_log_key(self._program)}"
        launches = self.use_logged_launches(place)
        number = sum(map(len, self._algorithms_of.values()))
        self.report(
            f"{self.inst.name}: {number} algorithms of its own on {self._format_placement()}, about {budget_s:.0f} s"
        )
        self.report_continuation(launches)
        try:
            self.budget_s *= _SEARCH_BUDGET_SHARE
            while cells := self._cells_for_next_launch():
                rows = self._measure_round(cells)
                self._add_output_rows(rows)
                if self.log:
                    latency = [{"latency_ns": median(self.c2c_latencies_ns)}] if self.c2c_latencies_ns else []
                    self.log.add_launch(place, [*rows, *latency])
            self.budget_s = budget_s
            self._confirm_selection()
        except KeyboardInterrupt:
            self.is_interrupted = True
            self._gains.clear()
        tables = [self._make_native_table(name) for name in self.operations]
        return [table for table in tables if table]

    def _add_cells(self, cells: Iterable[CollectiveCell]) -> None:
        for cell in cells:
            names = [
                name for name in self._algorithms_of[cell.operation] if (cell.operation, name) not in self.drop_reasons
            ]
            self.cells.setdefault(cell, NativeCellMeasurements([MPI_ALGORITHM, *names]))

    # ---- search

    def _measure_round(self, cells: Sequence[CollectiveCell]) -> list[dict[str, object]]:
        """Measures every remaining algorithm of the cells once more. Returns the rows of this round for the log: what
        was dropped, and the measurements of each cell."""
        number = 1 + min(self.cells[cell].num_launches for cell in cells)
        self._dropped: list[dict[str, object]] = []
        measured = (
            self._measure_in_separate_launches(cells, number)
            if self.family.measurement_mode == "launches"
            else self._measure_in_one_launch(cells, number)
        )
        rounds: list[dict[str, object]] = [
            {"operation": cell.operation, "bytes": cell.size_bytes, "speed": speed, "times_ns": times}
            for cell, (speed, times) in measured.items()
        ]
        return [*self._dropped, *rounds]

    def _add_output_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Adds the measurements of one round, of this session or of an earlier one."""
        for row in rows:
            if "operation" not in row:
                self.c2c_latencies_ns.append(row["latency_ns"])
                continue
            cell = CollectiveCell(row["operation"], row["bytes"])
            if not self._is_requested(cell):
                continue
            if "dropped" in row:
                self._drop_algorithm(cell, row["dropped"], row["reason"])
                continue
            self._add_cells([cell])  # a length between two others may be of an earlier session
            one = self.cells[cell]
            one.algorithms = [name for name in one.algorithms if name in row["speed"]]
            if MPI_ALGORITHM in row["times_ns"]:
                one.add_launch(row["speed"], row["times_ns"])

    def _measure_in_one_launch(
        self, cells: Sequence[CollectiveCell], number: int
    ) -> dict[CollectiveCell, _SpeedupsAndTimes]:
        """Measures all algorithms of all cells in one launch. Returns the speed and the time of each algorithm."""
        known = self._algorithms_of
        words = [
            self._cell_argument(
                cell,
                [known[cell.operation][name] for name in self._remaining_algorithms(cell)],
                self.cells[cell].num_launches == 0,
            )
            for cell in cells
        ]
        found = self._launch_program(words, self.family.measurement_variables, f"launch {number}", len(cells))
        measured: dict[CollectiveCell, _SpeedupsAndTimes] = {}
        for cell, arrivals in found.samples.items():
            if cell not in self.cells:
                continue
            speed = {
                name: geometric_mean_of([min(one[MPI_ALGORITHM]) / min(one[name]) for one in arrivals])
                for name in arrivals[0]
            }
            measured[cell] = speed, {name: min(arrivals[0][name]) for name in arrivals[0]}
        return measured

    def _measure_in_separate_launches(
        self, cells: Sequence[CollectiveCell], number: int
    ) -> dict[CollectiveCell, _SpeedupsAndTimes]:
        """Measures each algorithm in a launch of its own, next to a launch with the MPI's own selection. Returns the
        speed and the time of each algorithm, without those that failed."""
        names = list(dict.fromkeys(name for cell in cells for name in self._remaining_algorithms(cell)))
        speed: dict[CollectiveCell, dict[str, float]] = {cell: {MPI_ALGORITHM: 1.0} for cell in cells}
        times: dict[CollectiveCell, dict[str, float]] = {cell: {} for cell in cells}
        for place, name in enumerate(names):
            phase = f"launch {number}, algorithm {place + 1} of {len(names)}"
            if place % _LAUNCHES_PER_BASELINE == 0:
                base = self._launch_mpi_selection(cells, phase, number == 1)
            own = [cell for cell in cells if cell in base.samples and name in self._remaining_algorithms(cell)]
            found = self._launch_algorithm(own, name, phase, number == 1)
            # the virtual machine's vCPUs were moved to other cores between the launches
            if not is_same_distance(base.median_c2c_latency_ns, found.median_c2c_latency_ns):
                base = self._launch_mpi_selection(cells, phase, False)
                found = self._launch_algorithm(own, name, phase, False)
            for cell in set(found.samples) & set(base.samples):
                pairs = list(
                    zip(base.min_times_ns(cell, MPI_ALGORITHM), found.min_times_ns(cell, MPI_ALGORITHM), strict=True)
                )
                speed[cell][name] = geometric_mean_of([mpi_ns / own_ns for mpi_ns, own_ns in pairs])
                times[cell] |= {MPI_ALGORITHM: pairs[0][0], name: pairs[0][1]}
        return {cell: (speed[cell], times[cell]) for cell in cells if cell in self.cells}

    def _launch_mpi_selection(self, cells: Sequence[CollectiveCell], phase: str, checks_results: bool) -> LaunchOutput:
        """Launches the program with the MPI's own selection for all cells."""
        words = [self._cell_argument(cell, [], checks_results) for cell in cells if cell in self.cells]
        return self._launch_program(words, {}, phase, len(words))

    def _launch_algorithm(
        self, cells: Sequence[CollectiveCell], algorithm: str, phase: str, checks_results: bool
    ) -> LaunchOutput:
        """Launches the program with the environment variables that select algorithm `algorithm` for all operations of
        the cells at once."""
        settings: dict[str, str] = {}
        for operation in {cell.operation for cell in cells}:
            one = self._algorithms_of[operation][algorithm]
            settings |= {variable: str(value) for variable, value in one.settings.items()}
        words = [
            self._cell_argument(cell, [], checks_results)
            for cell in cells
            if algorithm in self._remaining_algorithms(cell)
        ]
        return self._launch_program(words, settings, phase, len(words), algorithm) if words else LaunchOutput()

    def _remaining_algorithms(self, cell: CollectiveCell) -> list[str]:
        """Returns the names of the algorithms still under measurement in a cell, without MPI_ALGORITHM."""
        return [name for name in self.cells[cell].algorithms if name != MPI_ALGORITHM] if cell in self.cells else []

    def _cell_argument(self, cell: CollectiveCell, algorithms: Sequence[NativeAlgorithm], checks_results: bool) -> str:
        word = cell.to_argument([MPI_ALGORITHM, *map(format_algorithm_argument, algorithms)])
        if not checks_results:
            return word
        return f"{word}:{'check' if self.family.excludes_user_operators else 'check-any-call'}"

    def _launch_program(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        phase: str,
        num_cells: int,
        selected_algorithm: str = "",
    ) -> LaunchOutput:
        """Launches the program with one argument per cell. `selected_algorithm` is the algorithm that the environment
        selects, if any. If then the measurement of MPI_ALGORITHM fails, drops `selected_algorithm`."""

        def on_cell(num_done: int) -> None:
            share = min(0.99, (time.monotonic() - self._begun) / (self.budget_s / _SEARCH_BUDGET_SHARE))
            self.report(
                Progress(
                    f"{num_done} of {num_cells} operations and lengths",
                    share,
                    phase=f"{self._format_placement()}, {phase}",
                )
            )

        mode = "native-communicators" if self.family.measurement_mode == "native-communicators" else "native-calls"
        found = launch_measuring_program(self.inst, self._program, self.cpus, [mode, *arguments], environment, on_cell)
        self.c2c_latencies_ns += found.c2c_latencies_ns
        for refusal in found.failures:
            self._handle_failure(refusal, selected_algorithm)
        return found

    def _handle_failure(self, failure: AlgorithmFailure, selected_algorithm: str) -> None:
        """Drops the algorithm that failed, and adds that to the rows of this round."""
        if failure.reason == HANG_REASON:
            self._begun += SILENCE_LIMIT_S  # extends the time budget by the time spent waiting for the hung program
        cell, name = failure.cell, selected_algorithm or failure.algorithm
        row = {"operation": cell.operation, "bytes": cell.size_bytes, "dropped": name, "reason": failure.reason}
        self._dropped.append(row)
        self._drop_algorithm(cell, name, failure.reason)

    def _drop_algorithm(self, cell: CollectiveCell, algorithm: str, reason: str) -> None:
        """Drops an algorithm that failed: for the failing cell only, if the MPI itself would not use the algorithm for
        this call (an MPI error code), and for all lengths of the operation otherwise."""
        operation = cell.operation
        if algorithm == MPI_ALGORITHM:  # without the MPI's own selection there is no baseline
            self.drop_reasons[operation, "all"] = f"the MPI's own selection {reason}"
            self.operations = [one for one in self.operations if one != operation]
            self.cells = {one: measured for one, measured in self.cells.items() if one.operation != operation}
            return
        is_of_call = reason.startswith("MPI_ERR") and self.family.excludes_user_operators
        for other, measured in self.cells.items():
            if other == cell or (other.operation == operation and not is_of_call):
                measured.algorithms = [
                    one for one in measured.algorithms if one == MPI_ALGORITHM or algorithm not in (one, "")
                ]
        if not is_of_call:
            self.drop_reasons[operation, algorithm or "all"] = reason

    # ---- confirmation

    def _confirm_selection(self) -> None:
        """Launches the program with and without the written selection in turn, with no library preloaded. Ignores pairs
        of launches between which a virtual machine's vCPUs were moved. Raises MeasurementError if the MPI fails without
        the selection."""
        chosen = {
            cell: one.best_algorithm() for cell, one in self.cells.items() if one.best_algorithm() != MPI_ALGORITHM
        }
        if not chosen:
            return
        tables = [table for name in self.operations if (table := self._make_native_table(name, chosen))]
        ratios: dict[CollectiveCell, list[float]] = {cell: [] for cell in chosen}
        with OwnedFolder("nearfield-") as folder:
            selected = self.family.make_selection(tables, self.inst).write_files(Path(folder))
            for number in range(2 * NUM_CONFIRMING_PAIRS):
                order = [{}, selected] if number % 2 == 0 else [selected, {}]
                found = [self._launch_selection(chosen, one, number) for one in order]
                if any(one.failures for one in found):
                    break
                base, other = found if number % 2 == 0 else reversed(found)
                if is_same_distance(base.median_c2c_latency_ns, other.median_c2c_latency_ns):
                    for cell in chosen:
                        times = zip(
                            base.min_times_ns(cell, MPI_ALGORITHM), other.min_times_ns(cell, MPI_ALGORITHM), strict=True
                        )
                        ratios[cell].append(geometric_mean_of([mpi_ns / own_ns for mpi_ns, own_ns in times]))
                if all(len(values) >= NUM_CONFIRMING_PAIRS for values in ratios.values()):
                    break
        gains = {cell: paired_gain(of, [1.0] * len(of)) for cell, of in ratios.items() if len(of) >= MIN_PAIRS}
        self._gains = {cell: gain for cell, gain in gains.items() if gain.is_gain}
        self.unconfirmed_cells = [cell for cell in chosen if cell not in self._gains]

    def _launch_selection(
        self, algorithm_by_cell: Mapping[CollectiveCell, str], settings: Mapping[str, str], number: int
    ) -> LaunchOutput:
        """Measures the cells with or without the selection. Checks results in the first pair of launches. Records a
        refusal if the selection fails. Raises MeasurementError if the MPI fails without the selection."""
        words = [self._cell_argument(cell, [], number == 0) for cell in algorithm_by_cell]
        phase = f"{self._format_placement()}, confirming, pair {number + 1} of launches"
        share = _SEARCH_BUDGET_SHARE + (1 - _SEARCH_BUDGET_SHARE) * min(number / NUM_CONFIRMING_PAIRS, 0.99)

        def on_cell(num_done: int) -> None:
            self.report(Progress(f"{num_done} of {len(algorithm_by_cell)} operations and lengths", share, phase=phase))

        found = launch_measuring_program(
            self.inst, self._program, self.cpus, ["native-calls", *words], settings, on_cell
        )
        for refusal in found.failures:
            if not settings:
                raise MeasurementError(f"{self.inst.name} itself fails: {refusal.reason}")
            self.drop_reasons[refusal.cell.operation, "all that was found"] = refusal.reason
        return found

    # ---- result tables

    def _make_native_table(
        self, operation: str, algorithm_by_cell: Mapping[CollectiveCell, str] | None = None
    ) -> NativeCollectiveTable | None:
        """Returns the ranges of lengths with the algorithm selected for each: the search's choice if
        `algorithm_by_cell` is passed, otherwise the confirmed choice. Returns None if some length has too few launches.
        Lengths above the longest measured one are left to the MPI."""
        cells = [cell for cell in self._cells_of(operation) if self.cells[cell].num_launches >= MIN_LAUNCHES]
        if not cells or not {CollectiveCell(operation, size) for size in self._lengths_of(operation)} <= set(cells):
            return None
        points = [self._make_native_point(cell, algorithm_by_cell) for cell in cells]
        ranges: list[NativeRangeTable] = []
        for i, point in enumerate(points):
            if i + 1 < len(points) and points[i + 1].algorithm == point.algorithm:
                continue
            same = [one for one in points if one.algorithm == point.algorithm and one.size_bytes <= point.size_bytes]
            begin = ranges[-1].to_bytes if ranges else None
            gains = [one.gain.as_gain() for one in same if begin is None or one.size_bytes > begin]
            ranges.append(
                NativeRangeTable(
                    to_bytes=point.size_bytes,
                    algorithm=point.algorithm,
                    id=self._algorithm_id(operation, point.algorithm),
                    gain=StoredGain.of(geometric_mean(gains) if len(gains) > 1 else gains[0]),
                )
            )
        if ranges[-1].algorithm == MPI_ALGORITHM or operation == "barrier":
            ranges[-1].to_bytes = None
        else:
            ranges.append(NativeRangeTable(algorithm=MPI_ALGORITHM))
        return NativeCollectiveTable(operation=operation, ranks=self.ranks_per_node, range=ranges, point=points)

    def _make_native_point(
        self, cell: CollectiveCell, algorithm_by_cell: Mapping[CollectiveCell, str] | None
    ) -> CollectivePointTable:
        measured = self.cells[cell]
        selected = (
            (algorithm_by_cell or {})
            if algorithm_by_cell is not None
            else {one: self.cells[one].best_algorithm() for one in self._gains}
        )
        name = selected.get(cell, MPI_ALGORITHM)
        gain = self._gains.get(cell) if algorithm_by_cell is None else None
        return CollectivePointTable(
            size_bytes=cell.size_bytes,
            algorithm=name,
            mpi_ns=round(median(measured.times_ns_by_algorithm[MPI_ALGORITHM]), 1),
            algorithm_ns=round(median(measured.times_ns_by_algorithm[name]), 1),
            gain=StoredGain.of(gain or measured.gain_of(name)),
        )

    def _algorithm_id(self, operation: str, algorithm: str) -> int | None:
        one = self._algorithms_of[operation].get(algorithm)
        return one.id if one else None
