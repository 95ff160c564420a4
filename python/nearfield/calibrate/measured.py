"""The results of the micro-benchmarks: values, each with the interval in which it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nearfield._native import quantile
from nearfield.base.estimates import Estimate

VALUE_QUANTILE, HIGH_QUANTILE = 0.10, 0.50  # quantiles
KERNEL_BYTES = (1, 4 << 10, 8 << 10, 16 << 10, 64 << 10)  # of copies by the kernel
DISTURBED_RATIO = 1.25  # high over value, from which a measurement counts as disturbed


def estimate_undisturbed(samples: Sequence[float]) -> Estimate:
    """Returns the time without the disturbances that samples contain: their 10th percentile, and an interval from the
    fastest to the median. Nothing makes a sample too short, and other programs make some too long."""
    low, value, high = min(samples), quantile(samples, VALUE_QUANTILE), quantile(samples, HIGH_QUANTILE)
    return Estimate(value, low, high)


@dataclass
class Place:
    """Where the two cores of a pair were: their core-to-core latency, and times per line of 64 bytes."""

    flag_ns: Estimate
    share: float  # of all samples of the latency
    shares_level: int | None = None  # the nearest cache, from 0, that the two share; None: no cache
    store_read_ns: Estimate | None = None  # a store to a line that the other core has read
    read_written_ns: Estimate | None = None  # reading in order what the other core has written
    kernel_copies: dict[int, Estimate] = field(default_factory=dict)  # by the kernel, from a process on the other core


@dataclass
class Measurements:
    """All measurements. Times are in ns; of chains per load, of copies and reads for the whole size."""

    addition: Estimate
    clock_reading: Estimate
    levels: list[tuple[int, Estimate]]  # for each cache: bytes and time of the chain that its latency is taken from
    memory: tuple[int, Estimate]
    by_bytes: dict[int, Estimate] = field(default_factory=dict)  # chains from beyond the last but one cache on
    chains: dict[int, Estimate] = field(default_factory=dict)  # number of chains -> per load, in memory
    in_order: dict[int, Estimate] = field(default_factory=dict)  # bytes -> chain through consecutive lines
    strided: dict[int, Estimate] = field(default_factory=dict)  # lines -> chain through every n-th line of memory
    reads: dict[int, Estimate] = field(default_factory=dict)
    copies: dict[int, Estimate] = field(default_factory=dict)
    # Pages -> the chain through one line of each, and the chain through as many lines in a row in huge pages.
    pages: dict[int, tuple[Estimate, Estimate]] = field(default_factory=dict)
    walks: dict[int, tuple[Estimate, Estimate]] = field(default_factory=dict)  # number of chains -> the same
    fault: Estimate | None = None
    huge_fault: Estimate | None = None
    kernel_copies: dict[int, Estimate] = field(default_factory=dict)  # from a process that sleeps
    traffic_gb_per_s: Estimate | None = None  # read by all cores at once
    places: list[Place] = field(default_factory=list)  # the most frequent one first
    pair: tuple[int, int] | None = None
    notes: list[str] = field(default_factory=list)  # what was not measured, and why

    def disturbed_share(self) -> float:
        """Returns the share of the measurements whose samples vary so much that other programs must have disturbed
        them."""
        single = [self.addition, self.clock_reading, self.memory[1], *(one for _, one in self.levels)]
        for group in (self.by_bytes, self.chains, self.in_order, self.reads, self.copies, self.kernel_copies):
            single += group.values()
        return sum(one.high > DISTURBED_RATIO * one.value for one in single) / len(single)
