"""Runs the micro-benchmarks on the host, with the calling thread pinned to one core. Each call into the extension
module is short, because Ctrl-C takes effect only between two calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic

from nearfield._native import calibration as bench
from nearfield.base import own_command
from nearfield.base.errors import MeasurementError
from nearfield.base.estimates import Estimate
from nearfield.base.progress import Progress, Report, ignore_progress
from nearfield.calibrate.measured import KERNEL_COPY_SIZES_BYTES, Measurements, estimate_undisturbed
from nearfield.calibrate.places import PairSampler
from nearfield.profile.schema import Machine

KIB, MIB = 1 << 10, 1 << 20
MAX_BLOCK_BYTES = 512 * MIB
CHAIN_COUNTS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48)
PAGE_COUNTS = (16, 32, 48, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144)
NUM_WALKED_PAGES, WALK_CHAIN_COUNTS = 4096, (1, 2, 4, 8, 16)
PAGE_STRIDE_BYTES = 4096 + 64  # one line per page; the additional 64 bytes spread the lines over the cache sets
REQUIRED_MEMORY_BYTES = 2 * MAX_BLOCK_BYTES
PAIR_ROUNDS = 2  # rounds of the pair sampler before each single-core measurement
MAX_WAIT_S = 60  # maximum wait until the pair is at the requested place


@dataclass
class CalibrationRun:
    """Runs all micro-benchmarks of one calibration. `machine` is the topology that hwloc and the kernel report."""

    machine: Machine
    pus: list[int]
    pair: tuple[int, int] | None
    report: Report = ignore_progress
    flag_ns: float | None = None  # core-to-core latency of the place that must be measured; None: any place
    _notes: list[str] = field(default_factory=list)

    def measure(self) -> Measurements:
        """Runs all micro-benchmarks. Raises MeasurementError if the machine has too little memory, or if its caches are
        unknown."""
        if not self.machine.data_caches:
            raise MeasurementError(
                "the caches of this machine are not known", f"See: {own_command.command_line('doctor')}"
            )
        with _pinned_to(self.pus[0]):
            try:
                return self._measure_all()
            except MemoryError as error:
                need = REQUIRED_MEMORY_BYTES // MIB
                raise MeasurementError(f"calibration needs {need} MiB of memory, and there is less") from error

    def _measure_all(self) -> Measurements:
        steps = iter(range(11))
        sizes = [cache.size_bytes for cache in self.machine.data_caches]
        sampler = PairSampler(self.pair, sizes) if self.pair else None

        def begin_step(step_name: str) -> None:
            self.report(Progress(step_name, share=next(steps) / 11, phase="calibrating"))
            if sampler:  # repeatedly, since a virtual machine's CPUs may migrate
                sampler.sample_all_steps(PAIR_ROUNDS)

        begin_step("clock")
        addition, clock = (
            estimate_undisturbed(bench.addition_ns(300)),
            estimate_undisturbed(bench.clock_reading_ns(300)),
        )
        misprediction = estimate_undisturbed(bench.misprediction_ns(60))
        begin_step("latencies of caches and memory")
        huge = self._allocate_block(self._memory_chain_bytes())
        measurements = self._measure_latencies(huge, addition, clock)
        measurements.misprediction = misprediction
        begin_step("loads in flight, prefetching")
        self._measure_chains(huge, measurements)
        begin_step("reading and copying")
        self._measure_copies(huge, measurements)
        begin_step("all cores reading")
        measurements.traffic_gb_per_s = self._measure_memory_bandwidth()
        del huge
        begin_step("pages and TLBs")
        self._measure_page_chains(measurements)
        begin_step("first touch of pages")
        self._measure_first_touch(measurements)
        begin_step("copies by the kernel")
        self._measure_kernel_copies(measurements)
        begin_step("two cores")
        if sampler:
            self._wait_for_place(sampler)
            measurements.pair = self.pair
            measurements.places = sampler.find_places_of_pair(measurements, self.flag_ns)
            if not measurements.places:
                self._notes.append("two cores: other programs never let both run at the same time")
        else:
            self._notes.append("two cores: only one core may be used")
        measurements.notes = self._notes
        return measurements

    def _wait_for_place(self, sampler: PairSampler) -> None:
        """Measures the pair repeatedly until the place of `flag_ns` has enough visits. Adds a note and gives up after
        MAX_WAIT_S."""
        begin = monotonic()
        while self.flag_ns and not sampler.has_enough_visits(self.flag_ns):
            waited_s = monotonic() - begin
            if waited_s > MAX_WAIT_S:
                self._notes.append(f"two cores: in {MAX_WAIT_S} s they were never {self.flag_ns:.0f} ns apart")
                return
            what = f"two cores, until they are {self.flag_ns:.0f} ns apart as in the profile"
            self.report(Progress(what, share=10 / 11, max_remaining_s=MAX_WAIT_S - waited_s, phase="calibrating"))
            sampler.sample_all_steps(1)

    # ---- memory blocks of the micro-benchmarks

    def _memory_chain_bytes(self) -> int:
        """Returns the size of a chain that misses all caches: four times the last cache, from 64 MiB to
        MAX_BLOCK_BYTES."""
        llc = self.machine.llc_bytes or MIB
        if 2 * llc > MAX_BLOCK_BYTES:
            self._notes.append(f"memory: chains of {MAX_BLOCK_BYTES // MIB} MiB hit a last cache of {llc // MIB} MiB")
        return min(max(4 * llc, 64 * MIB), MAX_BLOCK_BYTES)

    def _allocate_block(self, size: int) -> bench.Block:
        """Allocates a block in huge pages. If the kernel provides too few huge pages, appends a note that latencies
        contain TLB misses."""
        block = bench.Block(size, bench.PageKind.huge)
        share = block.bytes_in_huge_pages / size
        if share < 0.9:
            self._notes.append(
                f"huge pages: the kernel gave {share:.0%} of the memory in such, so latencies contain TLB misses"
            )
        return block

    # ---- measurements on one core

    def _measure_latencies(self, block: bench.Block, addition: Estimate, clock: Estimate) -> Measurements:
        sizes = [cache.size_bytes for cache in self.machine.data_caches]

        def chain(size: int, samples: int = 80) -> Estimate:
            return estimate_undisturbed(bench.chase_ns(block, size, samples=samples))

        levels, nearer = [], 0
        for place, size in enumerate(sizes):
            if place < len(sizes) - 1 or not nearer:
                levels.append((at := _size_between_caches(nearer, size), chain(at)))
                nearer = size
        by_bytes: dict[int, Estimate] = {}
        if len(sizes) > 1:
            for size in _geometric_sizes(2 * nearer, min(2 * sizes[-1], block.bytes)):
                by_bytes[size] = chain(size)
        memory = block.bytes, chain(block.bytes, 120)
        return Measurements(addition, clock, levels, memory, last_cache_chains=by_bytes)

    def _measure_chains(self, block: bench.Block, measurements: Measurements) -> None:
        for chains in CHAIN_COUNTS:
            measurements.concurrent_memory_chains[chains] = estimate_undisturbed(
                bench.chase_ns(block, block.bytes, chains=chains, samples=100)
            )
        sizes = [cache.size_bytes for cache in self.machine.data_caches]
        base = bench.Block(block.bytes // 2, bench.PageKind.base)  # base pages, as in most programs
        for size in (*(_size_between_caches(a, b) for a, b in zip(sizes, sizes[1:], strict=False)), base.bytes):
            measurements.in_order_chains[size] = estimate_undisturbed(
                bench.chase_ns(base, size, in_order=True, samples=100)
            )
        for lines in (2, 4, 8):
            measurements.strided_memory_chains[lines] = estimate_undisturbed(
                bench.chase_ns(block, block.bytes, stride_bytes=64 * lines, in_order=True, samples=100)
            )

    def _measure_copies(self, block: bench.Block, measurements: Measurements) -> None:
        sizes = [cache.size_bytes for cache in self.machine.data_caches]
        other = self._allocate_block(max(sizes[-1] // 4, 16 * MIB))
        # Two buffers, each as long as a cache, together fit only into the next farther cache.
        for size in sorted({4 * KIB, sizes[0] // 4, *sizes[:-1], sizes[-1] // 4}):
            measurements.copies[size] = estimate_undisturbed(bench.copy_ns(other, block, size, samples=40))
        for size in (sizes[0] // 2, block.bytes // 2):
            measurements.reads[size] = estimate_undisturbed(bench.read_ns(block, size, samples=100))

    def _measure_memory_bandwidth(self) -> Estimate:
        """Reads memory on all cores at the same time, at most 64. Returns their total rate in GB/s."""
        pus = self.pus[: min(len(self.pus), 64)]
        size = max(32 * MIB, 2 * (self.machine.llc_bytes or MIB) // len(pus)) // MIB * MIB
        size = min(size, MAX_BLOCK_BYTES // len(pus))
        blocks = [bench.Block(size, bench.PageKind.huge) for _ in pus]
        rates: list[list[float]] = [[] for _ in pus]

        def read(pu_index: int) -> None:
            os.sched_setaffinity(0, {pus[pu_index]})
            rates[pu_index] += [size / ns for ns in bench.read_ns(blocks[pu_index], size, samples=200)]

        threads = [Thread(target=read, args=(which,)) for which in range(len(pus))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        together = [sum(some) for some in zip(*rates, strict=True)]
        times = estimate_undisturbed([1 / rate for rate in together])
        return Estimate(1 / times.value, 1 / times.high, 1 / times.low)

    # ---- TLBs and page faults

    def _measure_page_chains(self, measurements: Measurements) -> None:
        size = max(PAGE_COUNTS) * PAGE_STRIDE_BYTES
        base, huge = bench.Block(size, bench.PageKind.base), self._allocate_block(4 * MIB)

        def measure_spread_and_packed(pages: int, chains: int) -> tuple[Estimate, Estimate]:
            """Returns the time per load of chains through one line of each page, and through the same number of
            consecutive lines in huge pages."""
            spread = bench.chase_ns(base, pages * PAGE_STRIDE_BYTES, PAGE_STRIDE_BYTES, chains=chains, samples=40)
            packed = bench.chase_ns(huge, pages * 64, 64, chains=chains, samples=40)
            return estimate_undisturbed(spread), estimate_undisturbed(packed)

        for pages in PAGE_COUNTS:
            measurements.page_chains[pages] = measure_spread_and_packed(pages, 1)
        for chains in WALK_CHAIN_COUNTS:
            measurements.concurrent_page_chains[chains] = measure_spread_and_packed(NUM_WALKED_PAGES, chains)

    def _measure_first_touch(self, measurements: Measurements) -> None:
        measurements.page_fault = estimate_undisturbed(bench.first_touch_ns(256, bench.PageKind.base, 60))
        if bench.Block(4 * MIB, bench.PageKind.huge).bytes_in_huge_pages:
            measurements.huge_page_fault = estimate_undisturbed(bench.first_touch_ns(4, bench.PageKind.huge, 30))

    def _measure_kernel_copies(self, measurements: Measurements) -> None:
        to, source = (bench.Block(MIB, bench.PageKind.base) for _ in range(2))
        for size in KERNEL_COPY_SIZES_BYTES:
            samples = bench.kernel_copy_ns(to, source, size, self.pus[0], self.pus[0], 150)
            if not samples:
                self._notes.append("copies by the kernel: it refuses process_vm_readv")
                return
            measurements.kernel_copies[size] = estimate_undisturbed(samples)


def _size_between_caches(nearer: int, size: int) -> int:
    """Returns a size at which a chain misses the nearer cache and hits the cache of `size` bytes."""
    return size // 2 if not nearer else min(4 * nearer, (nearer + size) // 2) // (4 * KIB) * (4 * KIB)


def _geometric_sizes(min_bytes: int, max_bytes: int) -> Iterator[int]:
    """Yields sizes from `min_bytes` to `max_bytes`, two per doubling, rounded down to pages."""
    size = float(min_bytes)
    while size <= max_bytes * 1.01:
        yield int(size) // (4 * KIB) * (4 * KIB)
        size *= 2**0.5


@contextmanager
def _pinned_to(pu: int) -> Iterator[None]:
    """Pins the calling thread to a PU within the block, and restores its affinity afterwards."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {pu})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, before)
