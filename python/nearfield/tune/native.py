"""`nearfield tune --collectives --native` without the command line: which of the MPI's own algorithms do a collective
of some length faster than the one that the MPI selects?

The search measures all algorithms of a cell in turn in one process, if the MPI lets them be changed there, and
otherwise in launches in turn, of which each is next to one of the MPI's own selection. Results are checked; algorithms
that crash, hang or are wrong are left out. Then what was found is written in the MPI's own formats, and programs that
load nothing are launched with and without it in turn: only lengths that gain there are kept. So nothing that was
selected for its luck remains, and what is written is what was measured."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean as geometric_mean_of
from statistics import median

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import MIN_PAIRS, Gain, paired_gain
from nearfield.base.progress import Progress
from nearfield.rules.collective_tables import CollectivePointTable, NativeCollectiveTable, NativeRangeTable
from nearfield.rules.collectives import NATIVE_OPERATIONS, OF_MPI
from nearfield.rules.criterion import MIN_REPORTED_GAIN
from nearfield.rules.gain_table import GainTable
from nearfield.rules.gains import geometric_mean, same_distance
from nearfield.rules.native import FAMILIES, Algorithm
from nearfield.tune.collectives import CLEAR, MIN_LAUNCHES, Cell, CollectiveTuning, Measured
from nearfield.tune.native_launch import HANGS, SILENCE_LIMIT_S, Launched, Refusal, argument, launch

SIZES = (8, 256, 4 << 10, 64 << 10, 1 << 20, 8 << 20)
USUAL_S = {"launches": 300.0}  # the time of a search, by how algorithms are selected
USUAL_OTHER_S = 120.0
CONFIRMING_PAIRS = 9  # so that the interval of 95 % leaves out the extremes
_SEARCHED = 0.7  # the share of the time after which the search ends
_BETWEEN_BASELINES = 2  # launches of algorithms between two launches of the MPI's own selection


class NativeMeasured(Measured):
    """The measurements of a cell, of which an algorithm is used only if it is surely faster than the MPI's choice."""

    def best(self) -> str:
        """Returns the fastest algorithm of those that gain; the MPI's choice if none does."""
        if self.launches < MIN_LAUNCHES:
            return OF_MPI
        gains = {name: self.gain(name) for name in self.algorithms if name != OF_MPI}
        gaining = [name for name, gain in gains.items() if gain.is_gain and gain.is_faster]
        return max(gaining, key=lambda name: gains[name].value, default=OF_MPI)

    def is_decided(self) -> bool:
        """Returns whether some algorithm gains, or none gains enough to be reported."""
        if self.launches < MIN_LAUNCHES:
            return False
        gains = [self.gain(name) for name in self.algorithms if name != OF_MPI]
        return self.best() != OF_MPI or all(gain.high < MIN_REPORTED_GAIN for gain in gains)

    def is_clear(self) -> bool:
        """Returns whether more launches would hardly change the choice."""
        if self.launches < MIN_LAUNCHES:
            return False
        others = [self.speed[name] for name in self.algorithms if name != OF_MPI]
        if all(max(speed) < 1.0 for speed in others):
            return True
        return len(others) == 1 and min(others[0]) > CLEAR


@dataclass
class NativeTuning(CollectiveTuning):
    """One search among the algorithms of an MPI, with a rank on each of `cpus` of this machine."""

    sizes: Sequence[int] = SIZES
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)  # operation, algorithm -> why it is left out
    unconfirmed: list[Cell] = field(default_factory=list)  # that gained in the search only

    def __post_init__(self) -> None:
        self.family = FAMILIES[self.inst.family]
        self.budget_s = self.budget_s or USUAL_S.get(self.family.mode, USUAL_OTHER_S)
        self._gains: dict[Cell, Gain] = {}  # that were confirmed

    def search(self) -> list[NativeCollectiveTable]:
        """Returns a table for each operation of which each length was measured in MIN_LAUNCHES launches. After Ctrl-C
        nothing is selected, since nothing was confirmed. Raises MeasurementError if the program fails."""
        self._program = mpi.program(self.inst, mpi.COLLECTIVES_PROGRAM, progress=self.report)
        listed = self.family.list_algorithms(self.inst, self.report)
        self._algorithms_of = {name: {one.name: one for one in ones} for name, ones in listed.items()}
        self.operations = self.operations or [name for name in NATIVE_OPERATIONS if self._algorithms_of.get(name)]
        self._begun, budget_s = time.monotonic(), self.budget_s
        self._add_cells(Cell(name, size) for name in self.operations for size in self._sizes_of(name))
        number = sum(map(len, self._algorithms_of.values()))
        self.report(f"{self.inst.name}: {number} algorithms of its own on {self._place()}, about {budget_s:.0f} s")
        try:
            self.budget_s *= _SEARCHED
            while cells := self._next_cells():
                self._measure(cells)
            self.budget_s = budget_s
            self._confirm()
        except KeyboardInterrupt:
            self.is_interrupted = True
            self._gains.clear()
        tables = [self._native_table(name) for name in self.operations]
        return [table for table in tables if table]

    def _add_cells(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            names = [
                name for name in self._algorithms_of[cell.operation] if (cell.operation, name) not in self.refusals
            ]
            self.cells.setdefault(cell, NativeMeasured([OF_MPI, *names]))

    # ---- the search

    def _measure(self, cells: Sequence[Cell]) -> None:
        """Measures each algorithm of the cells once more."""
        number = 1 + min(self.cells[cell].launches for cell in cells)
        if self.family.mode == "launches":
            self._measure_in_turn(cells, number)
            return
        known = self._algorithms_of
        words = [
            self._word(
                cell, [known[cell.operation][name] for name in self._names(cell)], self.cells[cell].launches == 0
            )
            for cell in cells
        ]
        found = self._launch_words(words, self.family.measuring, f"launch {number}", len(cells))
        for cell, arrivals in found.samples.items():
            if cell not in self.cells:
                continue
            speed = {
                name: geometric_mean_of([min(one[OF_MPI]) / min(one[name]) for one in arrivals]) for name in arrivals[0]
            }
            self.cells[cell].add(speed, {name: min(arrivals[0][name]) for name in arrivals[0]})

    def _measure_in_turn(self, cells: Sequence[Cell], number: int) -> None:
        """Measures each algorithm in a launch of its own, which is next to one of the MPI's own selection. A cell whose
        algorithm failed has no time of it in this round."""
        names = list(dict.fromkeys(name for cell in cells for name in self._names(cell)))
        speed: dict[Cell, dict[str, float]] = {cell: {OF_MPI: 1.0} for cell in cells}
        times: dict[Cell, dict[str, float]] = {cell: {} for cell in cells}
        for place, name in enumerate(names):
            phase = f"launch {number}, algorithm {place + 1} of {len(names)}"
            if place % _BETWEEN_BASELINES == 0:
                base = self._launch_base(cells, phase, number == 1)
            own = [cell for cell in cells if cell in base.samples and name in self._names(cell)]
            found = self._launch_one(own, name, phase, number == 1)
            if not same_distance(base.latency_ns, found.latency_ns):  # the cores of a virtual machine moved
                base = self._launch_base(cells, phase, False)
                found = self._launch_one(own, name, phase, False)
            for cell in set(found.samples) & set(base.samples):
                pairs = list(zip(base.best_ns(cell, OF_MPI), found.best_ns(cell, OF_MPI), strict=True))
                speed[cell][name] = geometric_mean_of([mpi_ns / own_ns for mpi_ns, own_ns in pairs])
                times[cell] |= {OF_MPI: pairs[0][0], name: pairs[0][1]}
        for cell in filter(self.cells.__contains__, cells):
            one = self.cells[cell]
            one.algorithms = [name for name in one.algorithms if name in speed[cell]]
            if OF_MPI in times[cell]:
                one.add(speed[cell], times[cell])

    def _launch_base(self, cells: Sequence[Cell], phase: str, checks: bool) -> Launched:
        """Measures the MPI's own selection."""
        words = [self._word(cell, [], checks) for cell in cells if cell in self.cells]
        return self._launch_words(words, {}, phase, len(words))

    def _launch_one(self, cells: Sequence[Cell], name: str, phase: str, checks: bool) -> Launched:
        """Measures an algorithm that the environment selects, for all these operations at once."""
        settings: dict[str, str] = {}
        for operation in {cell.operation for cell in cells}:
            one = self._algorithms_of[operation][name]
            settings |= {variable: str(value) for variable, value in one.settings.items()}
        words = [self._word(cell, [], checks) for cell in cells if name in self._names(cell)]
        return self._launch_words(words, settings, phase, len(words), name) if words else Launched()

    def _names(self, cell: Cell) -> list[str]:
        """Returns the algorithms that are still measured, without the MPI's choice."""
        return [name for name in self.cells[cell].algorithms if name != OF_MPI] if cell in self.cells else []

    def _word(self, cell: Cell, algorithms: Sequence[Algorithm], checks: bool) -> str:
        word = cell.argument([OF_MPI, *map(argument, algorithms)])
        if not checks:
            return word
        return f"{word}:{'check' if self.family.guards_operators else 'check-any-call'}"

    def _launch_words(
        self, words: Sequence[str], environment: Mapping[str, str], phase: str, cells: int, selected: str = ""
    ) -> Launched:
        """Launches the program. `selected` is the algorithm that the environment selects, if it does: then this one is
        left out where the program finds fault with the MPI's choice."""

        def on_cell(done: int) -> None:
            share = min(0.99, (time.monotonic() - self._begun) / (self.budget_s / _SEARCHED))
            self.report(Progress(f"{done} of {cells} operations and lengths", share, phase=f"{self._place()}, {phase}"))

        mode = "native-communicators" if self.family.mode == "native-communicators" else "native-calls"
        found = launch(self.inst, self._program, self.cpus, [mode, *words], environment, on_cell)
        self.latencies_ns += found.latencies_ns
        for refusal in found.refusals:
            self._leave_out(refusal, selected)
        return found

    def _leave_out(self, refusal: Refusal, selected: str) -> None:
        """Leaves an algorithm out, for all lengths unless only this call was refused and the MPI would not make it."""
        name = selected or refusal.algorithm
        cell, operation = refusal.cell, refusal.cell.operation
        if refusal.reason == HANGS:
            self._begun += SILENCE_LIMIT_S  # which was no measurement
        if name == OF_MPI:  # nothing can be compared with it
            self.refusals[operation, "all"] = f"the MPI's own selection {refusal.reason}"
            self.operations = [one for one in self.operations if one != operation]
            self.cells = {one: measured for one, measured in self.cells.items() if one.operation != operation}
            return
        is_of_call = refusal.reason.startswith("MPI_ERR") and self.family.guards_operators
        for other, measured in self.cells.items():
            if other == cell or (other.operation == operation and not is_of_call):
                measured.algorithms = [one for one in measured.algorithms if one == OF_MPI or name not in (one, "")]
        if not is_of_call:
            self.refusals[operation, name or "all"] = refusal.reason

    # ---- the confirmation

    def _confirm(self) -> None:
        """Launches a program that loads nothing with and without the selection, in turn. Pairs of launches between
        which a virtual machine's cores moved do not count. Raises MeasurementError if the MPI fails without it."""
        chosen = {cell: one.best() for cell, one in self.cells.items() if one.best() != OF_MPI}
        if not chosen:
            return
        tables = [table for name in self.operations if (table := self._native_table(name, chosen))]
        ratios: dict[Cell, list[float]] = {cell: [] for cell in chosen}
        with tempfile.TemporaryDirectory(prefix="nearfield-") as folder:
            selected = self.family.select(tables, self.inst).write(Path(folder))
            for number in range(2 * CONFIRMING_PAIRS):
                order = [{}, selected] if number % 2 == 0 else [selected, {}]
                found = [self._launch_chosen(chosen, one, number) for one in order]
                if any(one.refusals for one in found):
                    break
                base, other = found if number % 2 == 0 else reversed(found)
                if same_distance(base.latency_ns, other.latency_ns):
                    for cell in chosen:
                        times = zip(base.best_ns(cell, OF_MPI), other.best_ns(cell, OF_MPI), strict=True)
                        ratios[cell].append(geometric_mean_of([mpi_ns / own_ns for mpi_ns, own_ns in times]))
                if all(len(values) >= CONFIRMING_PAIRS for values in ratios.values()):
                    break
        gains = {cell: paired_gain(of, [1.0] * len(of)) for cell, of in ratios.items() if len(of) >= MIN_PAIRS}
        self._gains = {cell: gain for cell, gain in gains.items() if gain.is_gain}
        self.unconfirmed = [cell for cell in chosen if cell not in self._gains]

    def _launch_chosen(self, chosen: Mapping[Cell, str], selected: Mapping[str, str], number: int) -> Launched:
        """Measures the cells, whose results are checked the first time. If one fails, nothing is selected."""
        words = [self._word(cell, [], number == 0) for cell in chosen]
        phase = f"{self._place()}, confirming, pair {number + 1} of launches"
        share = _SEARCHED + (1 - _SEARCHED) * min(number / CONFIRMING_PAIRS, 0.99)

        def on_cell(done: int) -> None:
            self.report(Progress(f"{done} of {len(chosen)} operations and lengths", share, phase=phase))

        found = launch(self.inst, self._program, self.cpus, ["native-calls", *words], selected, on_cell)
        for refusal in found.refusals:
            if not selected:
                raise MeasurementError(f"{self.inst.name} itself fails: {refusal.reason}")
            self.refusals[refusal.cell.operation, "all that was found"] = refusal.reason
        return found

    # ---- the result

    def _native_table(self, operation: str, chosen: Mapping[Cell, str] | None = None) -> NativeCollectiveTable | None:
        """Returns what is selected for an operation: what the search chose, or without `chosen`, what is confirmed.
        None if some length was not measured. Beyond the longest that was measured, the MPI selects."""
        cells = [cell for cell in self._cells_of(operation) if self.cells[cell].launches >= MIN_LAUNCHES]
        if not cells or not {Cell(operation, size) for size in self._sizes_of(operation)} <= set(cells):
            return None
        points = [self._native_point(cell, chosen) for cell in cells]
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
                    id=self._id_of(operation, point.algorithm),
                    gain=GainTable.of(geometric_mean(gains) if len(gains) > 1 else gains[0]),
                )
            )
        if ranges[-1].algorithm == OF_MPI or operation == "barrier":
            ranges[-1].to_bytes = None
        else:
            ranges.append(NativeRangeTable(algorithm=OF_MPI))
        return NativeCollectiveTable(operation=operation, ranks=self.ranks, range=ranges, point=points)

    def _native_point(self, cell: Cell, chosen: Mapping[Cell, str] | None) -> CollectivePointTable:
        measured = self.cells[cell]
        selected = (chosen or {}) if chosen is not None else {one: self.cells[one].best() for one in self._gains}
        name = selected.get(cell, OF_MPI)
        gain = self._gains.get(cell) if chosen is None else None
        return CollectivePointTable(
            size_bytes=cell.size_bytes,
            algorithm=name,
            mpi_ns=round(median(measured.times_ns[OF_MPI]), 1),
            algorithm_ns=round(median(measured.times_ns[name]), 1),
            gain=GainTable.of(gain or measured.gain(name)),
        )

    def _id_of(self, operation: str, name: str) -> int | None:
        one = self._algorithms_of[operation].get(name)
        return one.id if one else None
