"""Measures pair steps, such as reading lines that the other core wrote, on two cores. The CPUs of a virtual machine
migrate between host cores, so each step is enclosed by two samples of the core-to-core latency and assigned to the
place with that latency (`nearfield.base.places`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from nearfield import _native
from nearfield._native import calibration as bench
from nearfield.base.estimates import Estimate
from nearfield.base.places import MAX_LATENCY_RATIO, find_places
from nearfield.calibrate.measured import KERNEL_COPY_SIZES_BYTES, CalibratedPlace, Measurements, estimate_undisturbed

# If a cache's latency exceeds this share of the core-to-core latency, it cannot be decided whether two cores share it.
MAX_DECIDABLE_LATENCY_SHARE = 0.5
MAX_FLAG_NS = 5000.0  # a larger core-to-core latency means that one of the two cores was not running
SHARED_LINES_BYTES = 16 << 10  # buffer for the steps store_read and read_written
SAMPLES_PER_VISIT = 8  # samples of a step per visit
MIN_VISITS = 2  # minimum visits of each step at a place for a description of the place


class PairSampler:
    """Measures the pair steps of two cores one after the other. The calling thread may be pinned to any core, because
    the steps pin threads of their own."""

    def __init__(self, pair: tuple[int, int], cache_bytes: list[int]) -> None:
        self._pair, self._cache_bytes = pair, cache_bytes
        block, target = (bench.Block(8 << 20, bench.PageKind.base) for _ in range(2))

        def step(kind: bench.PairStep, size: int) -> Callable[[], list[float]]:
            return lambda: list(bench.pair_ns(block, size, kind, *pair, samples=SAMPLES_PER_VISIT))

        def kernel_copy(size: int) -> Callable[[], list[float]]:
            return lambda: list(bench.kernel_copy_ns(target, block, size, *pair, samples=SAMPLES_PER_VISIT))

        self._steps = {
            f"level {level}": step(bench.PairStep.chase_written, _chain_bytes(cache_bytes, level))
            for level in range(len(cache_bytes))
        }
        self._steps["store_read"] = step(bench.PairStep.store_read, SHARED_LINES_BYTES)
        if len(cache_bytes) > 1:
            self._steps["store_read_missing"] = step(bench.PairStep.store_read, missing_lines_bytes(cache_bytes))
        self._steps["read_written"] = step(bench.PairStep.read_written, SHARED_LINES_BYTES)
        self._steps |= {f"kernel {size}": kernel_copy(size) for size in KERNEL_COPY_SIZES_BYTES}
        self.samples: list[StepSample] = []

    def sample_all_steps(self, rounds: int) -> None:
        """Measures every step `rounds` times. A step takes about 10 ms."""
        for _ in range(rounds):
            before_ns = _native.flag_ns(*self._pair)
            for name, measure in self._steps.items():
                times = measure()
                after_ns = _native.flag_ns(*self._pair)
                if 0 < before_ns < MAX_FLAG_NS and 0 < after_ns < MAX_FLAG_NS and times:
                    self.samples.append(StepSample(name, before_ns, after_ns, times))
                before_ns = after_ns

    def has_enough_visits(self, flag_ns: float) -> bool:
        """Returns whether every step was measured at least MIN_VISITS times at the place with this core-to-core latency
        in ns. Steps without any sample, because the kernel refuses them, are ignored."""
        low, high = flag_ns / MAX_LATENCY_RATIO, flag_ns * MAX_LATENCY_RATIO
        visits = Counter(sample.step for sample in self.samples if sample.has_latencies_within(low, high))
        refused = self._steps.keys() - {sample.step for sample in self.samples}
        return all(visits[name] >= MIN_VISITS for name in self._steps.keys() - refused)

    def find_places_of_pair(self, measurements: Measurements, flag_ns: float | None = None) -> list[CalibratedPlace]:
        """Returns the places of the pair, the most frequent one first, and in addition the place of `flag_ns`, however
        rare, if it has enough visits. Returns [] if the two cores never ran at the same time."""
        latencies = [latency for sample in self.samples for latency in (sample.before_ns, sample.after_ns)]
        ranges = find_places(latencies)
        if flag_ns and self.has_enough_visits(flag_ns) and not any(low <= flag_ns <= high for low, high in ranges):
            other_latencies = [
                latency for latency in latencies if not any(low <= latency <= high for low, high in ranges)
            ]
            nearby_latencies = [
                latency
                for latency in other_latencies
                if flag_ns / MAX_LATENCY_RATIO <= latency <= flag_ns * MAX_LATENCY_RATIO
            ]
            ranges += find_places(nearby_latencies)[:1]
        return [self._describe_place(low, high, latencies, measurements) for low, high in ranges]

    def _describe_place(
        self, low: float, high: float, latencies: list[float], measurements: Measurements
    ) -> CalibratedPlace:
        """Returns the place with the given range of core-to-core latency, with the times of the steps that were
        measured there."""
        latencies_inside = [latency for latency in latencies if low <= latency <= high]
        times: dict[str, list[float]] = {}
        for sample in self.samples:
            if sample.has_latencies_within(low, high):
                times.setdefault(sample.step, []).extend(sample.times)
        flag = Estimate(median(latencies_inside), min(latencies_inside), max(latencies_inside))
        place = CalibratedPlace(flag, len(latencies_inside) / len(latencies))
        place.shared_cache_level = _find_shared_cache_level(times, flag.value, len(self._cache_bytes), measurements)
        place.store_to_shared_line_ns = estimate_undisturbed(times["store_read"]) if "store_read" in times else None
        place.store_to_shared_line_miss_ns = (
            estimate_undisturbed(times["store_read_missing"]) if "store_read_missing" in times else None
        )
        place.read_of_written_line_ns = estimate_undisturbed(times["read_written"]) if "read_written" in times else None
        kernel = {size: times.get(f"kernel {size}") for size in KERNEL_COPY_SIZES_BYTES}
        place.kernel_copies = {size: estimate_undisturbed(some) for size, some in kernel.items() if some}
        return place


class StepSample(NamedTuple):
    """One measurement of a pair step: its times in ns, and the core-to-core latencies just before and after it."""

    step: str
    before_ns: float
    after_ns: float
    times: list[float]

    def has_latencies_within(self, low: float, high: float) -> bool:
        return low <= self.before_ns <= high and low <= self.after_ns <= high


def missing_lines_bytes(cache_bytes: Sequence[int]) -> int:
    """Returns the size in bytes of a buffer whose lines mostly miss the nearest cache and hit the next one."""
    return _chain_bytes(cache_bytes, 1)


def _chain_bytes(cache_bytes: Sequence[int], level: int) -> int:
    """Returns the length of a chain that fits into the cache of this level but into no nearer cache; at most 2 MiB."""
    nearer = cache_bytes[level - 1] if level else 0
    return min(2 * nearer, (nearer + cache_bytes[level]) // 2, 2 << 20) if nearer else cache_bytes[0] // 2


def _find_shared_cache_level(
    times: dict[str, list[float]], flag_ns: float, num_levels: int, measurements: Measurements
) -> int | None:
    """Returns the level of the nearest cache that the two cores share, or None. A cache is shared if a core loads lines
    just written by the other core in less than the geometric mean of the cache's latency and the core-to-core
    latency."""
    latency_by_level = [one.value for _, one in measurements.cache_chains]
    if len(latency_by_level) < num_levels:
        latency_by_level.append(
            min(
                (one.value for one in measurements.last_cache_chains.values()),
                default=measurements.memory_chain[1].value,
            )
        )
    for level in range(num_levels):
        cache_latency_ns = latency_by_level[level]
        name = f"level {level}"
        # Otherwise a cache hit and a core-to-core transfer take similar times.
        is_faster = cache_latency_ns < MAX_DECIDABLE_LATENCY_SHARE * flag_ns
        if (
            name in times
            and is_faster
            and estimate_undisturbed(times[name]).value < math.sqrt(cache_latency_ns * flag_ns)
        ):
            return level
    return None
