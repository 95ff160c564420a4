"""The results of the micro-benchmarks, each a value with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nearfield._native import quantile
from nearfield.base.estimates import Estimate

# Quantiles of the samples that become the value, and the upper end of its interval.
UNDISTURBED_QUANTILE, UPPER_END_QUANTILE = 0.10, 0.50
KERNEL_COPY_SIZES_BYTES = (1, 4 << 10, 8 << 10, 16 << 10, 64 << 10)  # sizes of the timed copies by process_vm_readv
MIN_DISTURBED_RATIO = 1.25  # ratio of high to value above which a measurement counts as disturbed by other programs


def estimate_undisturbed(samples: Sequence[float]) -> Estimate:
    """Returns the 10th percentile of the samples, with an interval from the minimum to the median. Low quantiles are
    used because other programs can only lengthen a sample."""
    low, value, high = min(samples), quantile(samples, UNDISTURBED_QUANTILE), quantile(samples, UPPER_END_QUANTILE)
    return Estimate(value, low, high)


@dataclass
class CalibratedPlace:
    """A place of a pair of cores (a range of core-to-core latency), and the times per cache line of 64 bytes that were
    measured there."""

    flag_ns: Estimate
    share_of_samples: float  # of all samples of the core-to-core latency
    # Level, counted from 0, of the nearest cache that the two cores share; None: they share none.
    shared_cache_level: int | None = None
    store_to_shared_line_ns: Estimate | None = None  # time of a store to a line that the other core has read
    read_of_written_line_ns: Estimate | None = (
        None  # time of a load, in order, from a line that the other core has written
    )
    # Time of a store to a line that the other core has read and that misses the nearest cache.
    store_to_shared_line_miss_ns: Estimate | None = None
    # Bytes -> time of process_vm_readv from the other core
    kernel_copies: dict[int, Estimate] = field(default_factory=dict)


@dataclass
class Measurements:
    """All micro-benchmark results. Times are in ns: per load for chains of dependent loads, for the whole size for
    copies and reads."""

    addition: Estimate
    clock_reading: Estimate
    # For each cache: bytes and time per load of the chain that determines its latency.
    cache_chains: list[tuple[int, Estimate]]
    memory_chain: tuple[int, Estimate]
    # Bytes -> time per load of a chain that is larger than the last cache but one.
    last_cache_chains: dict[int, Estimate] = field(default_factory=dict)
    # Number of concurrent chains in memory -> time per load.
    concurrent_memory_chains: dict[int, Estimate] = field(default_factory=dict)
    # Bytes -> time per load of a chain through consecutive lines
    in_order_chains: dict[int, Estimate] = field(default_factory=dict)
    # Stride in cache lines -> time per load of a chain through memory at that stride.
    strided_memory_chains: dict[int, Estimate] = field(default_factory=dict)
    reads: dict[int, Estimate] = field(default_factory=dict)
    copies: dict[int, Estimate] = field(default_factory=dict)
    # Number of pages -> time per load of a chain through one line of each page, and of a chain through the same number
    # of consecutive lines in huge pages.
    page_chains: dict[int, tuple[Estimate, Estimate]] = field(default_factory=dict)
    # Number of concurrent chains over NUM_WALKED_PAGES pages -> the same two times as in `page_chains`.
    concurrent_page_chains: dict[int, tuple[Estimate, Estimate]] = field(default_factory=dict)
    misprediction: Estimate | None = None
    page_fault: Estimate | None = None
    huge_page_fault: Estimate | None = None
    # Bytes -> time of process_vm_readv from a sleeping process
    kernel_copies: dict[int, Estimate] = field(default_factory=dict)
    traffic_gb_per_s: Estimate | None = None  # total rate at which all cores together read memory
    places: list[CalibratedPlace] = field(default_factory=list)  # the most frequent one first
    pair: tuple[int, int] | None = None
    notes: list[str] = field(default_factory=list)  # what was not measured, with the reason

    def share_of_disturbed_benchmarks(self) -> float:
        """Returns the share of the measurements whose samples scatter by more than MIN_DISTURBED_RATIO, so that other
        programs must have disturbed them."""
        single = [self.addition, self.clock_reading, self.memory_chain[1], *(one for _, one in self.cache_chains)]
        for group in (
            self.last_cache_chains,
            self.concurrent_memory_chains,
            self.in_order_chains,
            self.reads,
            self.copies,
            self.kernel_copies,
        ):
            single += group.values()
        return sum(one.high > MIN_DISTURBED_RATIO * one.value for one in single) / len(single)


def select_kernel_copies(measurements: Measurements, place: CalibratedPlace | None) -> dict[int, Estimate]:
    """Returns size in bytes -> time of a copy by the kernel: from a process that spins on the other core if measured at
    this place, otherwise from a sleeping process."""
    return place.kernel_copies if place and len(place.kernel_copies) > 1 else measurements.kernel_copies
