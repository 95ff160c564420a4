"""Measures one setting after another against stock, whose job stays resident, for a search."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nearfield import _native
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.rules.criterion import score
from nearfield.rules.gains import Case, Gain, Pair, in_dominant_placement, median_gain
from nearfield.rules.knobs import KnobFile, Settings
from nearfield.tune.paired_runs import ResidentJob, UnusableSetting, interleaved_pairs
from nearfield.tune.starved import Starved


class ReferenceFailed(UnusableSetting):
    """The champion has failed, not the setting that was measured against it."""


class PairedBenchmark:
    """Two cores of one distance. Use it as a context; its end also ends stock."""

    def __init__(
        self,
        inst: Installation,
        engine: Path,
        topology: Topology,
        pair: tuple[int, int],
        knobs: KnobFile,
    ) -> None:
        self._inst, self._engine, self._topology, self._pair = inst, engine, topology, pair
        self.knobs = knobs
        self._stock: ResidentJob | None = None
        self._launches = 0
        self.all_pairs: list[Pair] = []  # all pairs that were ever measured
        self.until = math.inf  # the time of the monotonic clock after which nothing is measured

    def __enter__(self) -> PairedBenchmark:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_baseline()

    @contextmanager
    def compare_with_baseline(self, settings: Settings, cases: Sequence[Case]) -> Iterator[Comparison]:
        """Yields a comparison of these settings, running and checked, with stock. Raises Unfit if they are unusable,
        and Starved if other programs kept one of the two from running, or the time was over."""
        sizes = sorted({size for _, size in cases})
        stock = self._baseline_for(sizes)
        self._launches += 1
        with self._job(sizes, self._environment(settings)) as other:
            comparison = Comparison(stock, other, cases, self.all_pairs, self._launches)
            for case in comparison.cases:
                other.check(case)
            try:
                yield comparison
            except Starved:
                self._end_baseline()  # it may be the one that still owes an answer
                raise
            except UnusableSetting as error:
                if error.job is not stock:
                    raise
                self._end_baseline()  # so that the next setting gets a living stock
                raise UnusableSetting(f"stock, beside it, {error.message}") from error

    @contextmanager
    def reference(self, settings: Settings, cases: Sequence[Case]) -> Iterator[ReferenceJob]:
        """Yields these settings, resident, for duels with others. Raises ChampionUnfit if they cannot be used."""
        with ExitStack() as stack:
            try:
                sizes = sorted({size for _, size in cases})
                job = stack.enter_context(self._job(sizes, self._environment(settings)))
            except UnusableSetting as error:
                raise ReferenceFailed(error.message) from error
            yield ReferenceJob(job, settings, cases)

    def compare_with_reference(self, reference: ReferenceJob, settings: Settings, passes: int) -> float:
        """Returns how much better these settings are than the champion, as a score. Raises Unfit if they cannot be
        used, and ChampionUnfit if the champion fails."""
        cases = reference.cases
        with self._job(sorted({size for _, size in cases}), self._environment(settings)) as challenger:
            for case in cases:
                challenger.check(case)
            self._launches += 1
            comparison = Comparison(reference.job, challenger, cases, self.all_pairs, self._launches)
            try:
                comparison.measure(passes)
            except UnusableSetting as error:
                if error.job is reference.job:
                    raise ReferenceFailed(error.message) from error
                raise
            return score(comparison.gains())

    def _environment(self, settings: Settings) -> dict[str, str]:
        return self.knobs.for_launch(settings, os.environ)

    def _job(self, sizes: Sequence[int], environment: dict[str, str]) -> ResidentJob:
        common = {name: value for name, value in self.knobs.while_tuning.items() if name not in os.environ}
        both = {**common, **environment}
        return ResidentJob(self._inst, self._engine, self._topology, self._pair, sizes, both, until=lambda: self.until)

    def _baseline_for(self, sizes: Sequence[int]) -> ResidentJob:
        """Returns stock; starts it anew if it lacks some of the sizes."""
        if self._stock and {size for _, size in self._stock.cases} >= set(sizes):
            return self._stock
        self._end_baseline()
        self._stock = self._job(sizes, {}).__enter__()
        return self._stock

    def flag_ns(self) -> float:
        """Returns the ns of a flag between the two cores now."""
        return _native.flag_ns(*self._pair)

    def restart_baseline(self) -> None:
        """Ends stock, which the next comparison then launches again."""
        self._end_baseline()

    def _end_baseline(self) -> None:
        if self._stock:
            self._stock.__exit__(None, None, None)
            self._stock = None


@dataclass
class ReferenceJob:
    """A setting that others must beat."""

    job: ResidentJob
    settings: Settings
    cases: Sequence[Case]


class Comparison:
    """Collects pairs of times of stock and one setting, case by case."""

    def __init__(
        self, stock: ResidentJob, other: ResidentJob, cases: Sequence[Case], everything: list[Pair], launch: int
    ) -> None:
        """All pairs are also added to `everything`, and get `launch` as their number."""
        self._stock, self._other, self._everything, self._launch = stock, other, everything, launch
        self.cases = cases
        self.found: dict[Case, list[Pair]] = defaultdict(list)

    def measure(self, count: int, cases: Iterable[Case] | None = None) -> None:
        """Measures `count` more pairs of each case (default: all cases)."""
        for case in self.cases if cases is None else cases:
            taken = [p._replace(launch=self._launch) for p in interleaved_pairs(self._stock, self._other, case, count)]
            self.found[case] += taken
            self._everything += taken

    def here(self) -> dict[Case, list[Pair]]:
        """Returns the pairs that count: those taken while the cores were as far apart as mostly."""
        return in_dominant_placement(self.found)

    def gains(self) -> dict[Case, Gain]:
        return {case: median_gain(pairs) for case, pairs in self.here().items()}
