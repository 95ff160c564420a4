"""Measures what two cores do together at each place where they are (`nearfield.base.places`): between two samples of
the core-to-core latency, and sorted by it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from nearfield import _native
from nearfield._native import calibration as bench
from nearfield.base.estimates import Estimate
from nearfield.base.places import MAX_RATIO, find_places
from nearfield.calibrate.measured import KERNEL_BYTES, Measurements, Place, estimate_undisturbed

MAX_LATENCY_SHARE = (
    0.5  # of the core-to-core latency: a cache that is slower than that does not show whether it is shared
)
MAX_FLAG_NS = 5000.0  # beyond, one of the two was not running
SHARED_LINES_BYTES = 16 << 10  # over which stores to shared lines and reading are timed
SAMPLES_PER_VISIT = 8  # of a step at a visit
MIN_VISITS = 2  # of each step at a place, from which the place can be described


class PairSampler:
    """Measures the steps of two cores in turn. The thread that calls `run` may be pinned to any core."""

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
        self._steps["read_written"] = step(bench.PairStep.read_written, SHARED_LINES_BYTES)
        self._steps |= {f"kernel {size}": kernel_copy(size) for size in KERNEL_BYTES}
        self.samples: list[StepSample] = []

    def run(self, rounds: int) -> None:
        """Measures each step this many times, about 10 ms each."""
        for _ in range(rounds):
            flag = _native.flag_ns(*self._pair)
            for name, measure in self._steps.items():
                times = measure()
                after = _native.flag_ns(*self._pair)
                if 0 < flag < MAX_FLAG_NS and 0 < after < MAX_FLAG_NS and times:
                    self.samples.append(StepSample(name, flag, after, times))
                flag = after

    def has_enough_visits(self, flag_ns: float) -> bool:
        """Returns whether each step was measured often enough at the place of this core-to-core latency in ns."""
        low, high = flag_ns / MAX_RATIO, flag_ns * MAX_RATIO
        visits = Counter(sample.step for sample in self.samples if sample.has_latencies_within(low, high))
        refused = self._steps.keys() - {sample.step for sample in self.samples}
        return all(visits[name] >= MIN_VISITS for name in self._steps.keys() - refused)

    def places(self, found: Measurements, flag_ns: float | None = None) -> list[Place]:
        """Returns the places that the pair was at, the most frequent one first, and that of `flag_ns`, however rare, if
        it can be described; [] if the two cores never ran at the same time."""
        latencies = [latency for sample in self.samples for latency in (sample.before_ns, sample.after_ns)]
        ranges = find_places(latencies)
        if flag_ns and self.has_enough_visits(flag_ns) and not any(low <= flag_ns <= high for low, high in ranges):
            rest = [latency for latency in latencies if not any(low <= latency <= high for low, high in ranges)]
            near = [latency for latency in rest if flag_ns / MAX_RATIO <= latency <= flag_ns * MAX_RATIO]
            ranges += find_places(near)[:1]
        return [self._describe_place(low, high, latencies, found) for low, high in ranges]

    def _describe_place(self, low: float, high: float, latencies: list[float], found: Measurements) -> Place:
        inside = [latency for latency in latencies if low <= latency <= high]
        times: dict[str, list[float]] = {}
        for sample in self.samples:
            if sample.has_latencies_within(low, high):
                times.setdefault(sample.step, []).extend(sample.times)
        flag = Estimate(median(inside), min(inside), max(inside))
        place = Place(flag, len(inside) / len(latencies))
        place.shares_level = _shared_level(times, flag.value, len(self._cache_bytes), found)
        place.store_read_ns = estimate_undisturbed(times["store_read"]) if "store_read" in times else None
        place.read_written_ns = estimate_undisturbed(times["read_written"]) if "read_written" in times else None
        kernel = {size: times.get(f"kernel {size}") for size in KERNEL_BYTES}
        place.kernel_copies = {size: estimate_undisturbed(some) for size, some in kernel.items() if some}
        return place


class StepSample(NamedTuple):
    """One measurement of a step: times in ns, and the core-to-core latencies before and after it."""

    step: str
    before_ns: float
    after_ns: float
    times: list[float]

    def has_latencies_within(self, low: float, high: float) -> bool:
        return low <= self.before_ns <= high and low <= self.after_ns <= high


def _chain_bytes(cache_bytes: list[int], level: int) -> int:
    """Returns the length of a chain that fits this cache and no nearer one, for which only 2 MiB are used at most."""
    nearer = cache_bytes[level - 1] if level else 0
    return min(2 * nearer, (nearer + cache_bytes[level]) // 2, 2 << 20) if nearer else cache_bytes[0] // 2


def _shared_level(times: dict[str, list[float]], flag_ns: float, levels: int, found: Measurements) -> int | None:
    """Returns the nearest cache that the two cores share: what one of them has just written there, the other one reads
    in less than the geometric mean of that cache's latency and the core-to-core latency."""
    latency = [one.value for _, one in found.levels]
    if len(latency) < levels:
        latency.append(min((one.value for one in found.by_bytes.values()), default=found.memory[1].value))
    for level in range(levels):
        own_ns = latency[level]
        name = f"level {level}"
        is_faster = own_ns < MAX_LATENCY_SHARE * flag_ns  # else it does not show from where a line came
        if name in times and is_faster and estimate_undisturbed(times[name]).value < math.sqrt(own_ns * flag_ns):
            return level
    return None
