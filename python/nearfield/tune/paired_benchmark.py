"""Compares settings with the baseline, whose job stays resident, one after another for a search."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nearfield import _native
from nearfield.base import job_key, own_command, shared_heap
from nearfield.base.errors import MeasurementError
from nearfield.base.paired import Gain
from nearfield.base.topology import Topology
from nearfield.mpi import Installation
from nearfield.rules.criterion import score
from nearfield.rules.gains import Case, Pair, in_dominant_placement, median_gain
from nearfield.rules.knobs import KnobFile, Settings
from nearfield.tune.paired_runs import ResidentJob, UnusableSetting, interleaved_pairs
from nearfield.tune.starved import Starved


class ReferenceFailed(MeasurementError):
    """The reference cannot be used, whatever the setting is that was compared with it."""


class PairedBenchmark:
    """Measurements on two cores of one distance, as a context manager. Leaving it ends the baseline job."""

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
        self._baseline: ResidentJob | None = None
        self._launches = 0
        self.all_pairs: list[Pair] = []  # of all comparisons
        self.until = math.inf  # the deadline on the monotonic clock
        # The variables without which the baseline, and settings without the shared heap, fail here (check_baseline).
        self.needed: dict[str, str] = {}

    def __enter__(self) -> PairedBenchmark:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_baseline()

    def check_baseline(self, cases: Sequence[Case]) -> None:
        """Finds out whether messages arrive under the MPI's defaults. If they do not, because the kernel forbids single
        copies, the baseline gets the variables that make it run. Raises MeasurementError if nothing does."""
        try:
            self._check_cases(cases)
        except UnusableSetting as error:
            self.end_baseline()
            self.needed = {n: value for n, value in self.knobs.without_single_copy.items() if n not in os.environ}
            try:
                self._check_cases(cases if self.needed else ())
            except UnusableSetting:
                self.needed = {}
            if not self.needed:
                raise MeasurementError(
                    f"there is no baseline: under the MPI's defaults a job {error.message}",
                    f"see what is forbidden here: {own_command.line('doctor')}",
                ) from error

    def _check_cases(self, cases: Sequence[Case]) -> None:
        if cases:
            baseline = self._baseline_for(sorted({size for _, size in cases}))
            for case in cases:
                baseline.check(case)

    @contextmanager
    def compare_with_baseline(self, settings: Settings, cases: Sequence[Case]) -> Iterator[Comparison]:
        """Yields a comparison of the settings with the baseline. Both jobs run, and the data of the new one is checked.
        Raises UnusableSetting if the settings cannot be used, and Starved if other programs prevented one of the jobs
        from running or the deadline has passed."""
        sizes = sorted({size for _, size in cases})
        baseline = self._baseline_for(sizes)
        self._launches += 1
        with self._job(sizes, self._environment(settings)) as other:
            comparison = Comparison(baseline, other, cases, self.all_pairs, self._launches)
            for case in comparison.cases:
                other.check(case)
            try:
                yield comparison
            except Starved:
                self.end_baseline()  # its reply may be the missing one
                raise
            except UnusableSetting as error:
                if error.job is not baseline:
                    raise
                self.end_baseline()
                raise UnusableSetting(f"the baseline beside it {error.message}") from error

    def compare_with_reference(
        self, reference: Settings, settings: Settings, cases: Sequence[Case], passes: int
    ) -> float:
        """Returns by how much the settings are better than the reference, as a score. Raises UnusableSetting if they
        cannot be used, and ReferenceFailed if the reference cannot."""
        sizes = sorted({size for _, size in cases})
        with ExitStack() as stack:
            try:
                baseline = stack.enter_context(self._job(sizes, self._environment(reference)))
            except UnusableSetting as error:
                raise ReferenceFailed(error.message) from error
            candidate = stack.enter_context(self._job(sizes, self._environment(settings)))
            for case in cases:
                candidate.check(case)
            self._launches += 1
            comparison = Comparison(baseline, candidate, cases, self.all_pairs, self._launches)
            try:
                comparison.measure(passes)
            except UnusableSetting as error:
                if error.job is baseline:
                    raise ReferenceFailed(error.message) from error
                raise
            return score(comparison.gains())

    def _environment(self, settings: Settings) -> dict[str, str]:
        environment = self.knobs.for_launch(settings, os.environ)
        return environment | job_key.make_key_variable({**os.environ, **environment})

    def _job(self, sizes: Sequence[int], environment: dict[str, str]) -> ResidentJob:
        common = {name: value for name, value in self.knobs.while_tuning.items() if name not in os.environ}
        needed = {} if shared_heap.VARIABLE in environment else self.needed
        both = {**common, **needed, **environment}
        return ResidentJob(self._inst, self._engine, self._topology, self._pair, sizes, both, until=lambda: self.until)

    def _baseline_for(self, sizes: Sequence[int]) -> ResidentJob:
        """Returns the baseline job. Launches it again if it lacks some of the sizes."""
        if self._baseline and {size for _, size in self._baseline.cases} >= set(sizes):
            return self._baseline
        self.end_baseline()
        self._baseline = self._job(sizes, {}).__enter__()
        return self._baseline

    def c2c_latency_ns(self) -> float:
        """Returns the core-to-core latency of the two cores now, in ns."""
        return _native.flag_ns(*self._pair)

    def end_baseline(self) -> None:
        """Ends the baseline job; the next comparison launches another one."""
        if self._baseline:
            self._baseline.__exit__(None, None, None)
            self._baseline = None


class Comparison:
    """Collects pairs of times of the baseline and one setting, case by case."""

    def __init__(
        self, baseline: ResidentJob, other: ResidentJob, cases: Sequence[Case], all_pairs: list[Pair], launch: int
    ) -> None:
        """Adds all pairs to `all_pairs`, too, with `launch` as the number of their launch."""
        self._baseline, self._other, self._all_pairs, self._launch = baseline, other, all_pairs, launch
        self.cases = cases
        self.found: dict[Case, list[Pair]] = defaultdict(list)

    def measure(self, count: int, cases: Iterable[Case] | None = None) -> None:
        """Measures `count` more pairs of each case (default: all cases)."""
        for case in self.cases if cases is None else cases:
            taken = [
                p._replace(launch=self._launch) for p in interleaved_pairs(self._baseline, self._other, case, count)
            ]
            self.found[case] += taken
            self._all_pairs += taken

    def counted_pairs(self) -> dict[Case, list[Pair]]:
        """Returns the pairs that count: those measured in the placement of the cores that was the most frequent."""
        return in_dominant_placement(self.found)

    def gains(self) -> dict[Case, Gain]:
        return {case: median_gain(pairs) for case, pairs in self.counted_pairs().items()}
