"""Compares one setting after another with the baseline, whose job stays resident."""

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
from nearfield.rules.criterion import search_score
from nearfield.rules.gains import BenchmarkCase, TimePair, median_gain, pairs_in_dominant_placement
from nearfield.rules.knobs import KnobFile, Settings
from nearfield.tune.paired_runs import ResidentJob, UnusableSetting, measure_interleaved_pairs
from nearfield.tune.starved import JobStarved


class ReferenceFailed(MeasurementError):
    """The reference settings cannot be used, independently of the setting that was compared with them."""


class PairedBenchmark:
    """Measures settings on two cores at one core distance. Use as a context manager, which ends the baseline job."""

    def __init__(
        self,
        inst: Installation,
        engine: Path,
        topology: Topology,
        core_pair: tuple[int, int],
        knobs: KnobFile,
    ) -> None:
        self._inst, self._engine, self._topology, self._pair = inst, engine, topology, core_pair
        self.knobs = knobs
        self._baseline: ResidentJob | None = None
        self._launches = 0
        self.all_pairs: list[TimePair] = []  # pairs of times of all comparisons
        self.deadline_s = math.inf  # the deadline on the monotonic clock
        # Variables without which the baseline, and settings without the shared heap, fail on this machine
        # (check_baseline).
        self.needed: dict[str, str] = {}

    def __enter__(self) -> PairedBenchmark:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_baseline_job()

    def check_baseline(self, cases: Sequence[BenchmarkCase]) -> None:
        """Checks that messages arrive with the MPI's default settings. If the kernel forbids single-copy transfers
        (CMA), adds the environment variables to the baseline with which it runs. Raises MeasurementError if no setting
        helps."""
        try:
            self._check_cases(cases)
        except UnusableSetting as error:
            self.end_baseline_job()
            self.needed = {n: value for n, value in self.knobs.without_single_copy.items() if n not in os.environ}
            try:
                self._check_cases(cases if self.needed else ())
            except UnusableSetting:
                self.needed = {}
            if not self.needed:
                raise MeasurementError(
                    f"there is no baseline: under the MPI's defaults a job {error.message}",
                    f"see which copies are forbidden: {own_command.command_line('doctor')}",
                ) from error

    def _check_cases(self, cases: Sequence[BenchmarkCase]) -> None:
        if cases:
            baseline = self._baseline_job_for(sorted({size for _, size in cases}))
            for case in cases:
                baseline.check_data(case)

    @contextmanager
    def compare_with_baseline(self, settings: Settings, cases: Sequence[BenchmarkCase]) -> Iterator[PairedComparison]:
        """Launches a job with the settings, checks its data, and yields its comparison with the resident baseline job.
        Raises UnusableSetting if the settings cannot be used, and JobStarved if other programs starved one of the jobs
        of CPU time or the deadline has passed."""
        sizes = sorted({size for _, size in cases})
        baseline = self._baseline_job_for(sizes)
        self._launches += 1
        with self._make_job(sizes, self._job_environment(settings)) as other:
            comparison = PairedComparison(baseline, other, cases, self.all_pairs, self._launches)
            for case in comparison.cases:
                other.check_data(case)
            try:
                yield comparison
            except JobStarved:
                self.end_baseline_job()  # the missing reply may be that of the baseline
                raise
            except UnusableSetting as error:
                if error.job is not baseline:
                    raise
                self.end_baseline_job()
                raise UnusableSetting(f"the baseline beside it {error.message}") from error

    def compare_with_reference(
        self, reference: Settings, settings: Settings, cases: Sequence[BenchmarkCase], num_passes: int
    ) -> float:
        """Returns the score of the settings relative to the reference settings; positive if they are faster. Raises
        UnusableSetting if the settings cannot be used, and ReferenceFailed if the reference cannot."""
        sizes = sorted({size for _, size in cases})
        with ExitStack() as stack:
            try:
                baseline = stack.enter_context(self._make_job(sizes, self._job_environment(reference)))
            except UnusableSetting as error:
                raise ReferenceFailed(error.message) from error
            candidate = stack.enter_context(self._make_job(sizes, self._job_environment(settings)))
            for case in cases:
                candidate.check_data(case)
            self._launches += 1
            comparison = PairedComparison(baseline, candidate, cases, self.all_pairs, self._launches)
            try:
                comparison.measure(num_passes)
            except UnusableSetting as error:
                if error.job is baseline:
                    raise ReferenceFailed(error.message) from error
                raise
            return search_score(comparison.gains())

    def _job_environment(self, settings: Settings) -> dict[str, str]:
        environment = self.knobs.launch_environment(settings, os.environ)
        return environment | job_key.make_key_variable({**os.environ, **environment})

    def _make_job(self, sizes: Sequence[int], environment: dict[str, str]) -> ResidentJob:
        common = {name: value for name, value in self.knobs.while_tuning.items() if name not in os.environ}
        needed = {} if shared_heap.HEAP_VARIABLE in environment else self.needed
        both = {**common, **needed, **environment}
        return ResidentJob(
            self._inst, self._engine, self._topology, self._pair, sizes, both, get_deadline_s=lambda: self.deadline_s
        )

    def _baseline_job_for(self, sizes: Sequence[int]) -> ResidentJob:
        """Returns the resident baseline job. Launches a new one if the resident one lacks some of the message sizes."""
        if self._baseline and {size for _, size in self._baseline.cases} >= set(sizes):
            return self._baseline
        self.end_baseline_job()
        self._baseline = self._make_job(sizes, {}).__enter__()
        return self._baseline

    def measure_c2c_latency_ns(self) -> float:
        """Measures the current core-to-core latency of the two cores. Returns it in ns."""
        return _native.flag_ns(*self._pair)

    def end_baseline_job(self) -> None:
        """Ends the baseline job. The next comparison launches a new one."""
        if self._baseline:
            self._baseline.__exit__(None, None, None)
            self._baseline = None


class PairedComparison:
    """Collects pairs of times of the baseline and one setting for each case."""

    def __init__(
        self,
        baseline: ResidentJob,
        tuned_job: ResidentJob,
        cases: Sequence[BenchmarkCase],
        all_pairs: list[TimePair],
        launch: int,
    ) -> None:
        """Every pair is also appended to `all_pairs`. `launch` is the number that identifies the launch of the jobs in
        the pairs."""
        self._baseline, self._other, self._all_pairs, self._launch = baseline, tuned_job, all_pairs, launch
        self.cases = cases
        self.pairs_by_case: dict[BenchmarkCase, list[TimePair]] = defaultdict(list)

    def measure(self, num_pairs: int, cases: Iterable[BenchmarkCase] | None = None) -> None:
        """Measures `num_pairs` more pairs of times for each case (default: all cases)."""
        for case in self.cases if cases is None else cases:
            taken = [
                p._replace(launch_number=self._launch)
                for p in measure_interleaved_pairs(self._baseline, self._other, case, num_pairs)
            ]
            self.pairs_by_case[case] += taken
            self._all_pairs += taken

    def pairs_in_dominant_placement(self) -> dict[BenchmarkCase, list[TimePair]]:
        """Returns the pairs of times from the dominant placement of the cores; the others do not count."""
        return pairs_in_dominant_placement(self.pairs_by_case)

    def gains(self) -> dict[BenchmarkCase, Gain]:
        return {case: median_gain(pairs) for case, pairs in self.pairs_in_dominant_placement().items()}
