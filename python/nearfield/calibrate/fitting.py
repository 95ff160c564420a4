"""Derives a machine description from micro-benchmark results. Most values follow from one measurement. The values of
the prefetcher and of cache ports are searched by simulation, so that the simulated micro-benchmark takes the measured
time.

The file is long because each value needs the ones that were derived before it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from nearfield._native import machine as structs
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.calibrate import simulated as sim
from nearfield.calibrate.measured import CalibratedPlace, Measurements, select_kernel_copies
from nearfield.calibrate.places import missing_lines_bytes
from nearfield.calibrate.probing import NUM_WALKED_PAGES
from nearfield.calibrate.steps import find_last_below, fit_plateaus
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native

MachineValues = dict[str, Any]
KIB = 1 << 10
CANDIDATE_PREFETCH_DISTANCES, CANDIDATE_PREFETCH_OUTSTANDING = (1, 2, 4, 8, 16, 32), (8, 16, 32, 48)
# Share of memory's latency above which a chain in the last cache counts as slow as a chain in memory.
MIN_SATURATED_LATENCY_SHARE = 0.7
# If latency rises below this share of the last cache's stated size, the cache is described as smaller than stated.
MIN_FITTED_SIZE_SHARE = 0.75
MAX_PORT_BYTES_PER_CYCLE = 256.0


def fitted_value(
    value: float, estimate: Estimate | None, probe: str, *fitted_to: str, is_integer: bool = False
) -> MachineValues:
    """Returns a value of kind "fitted" as the keys of a machine file: the value rounded to 4 digits, its interval, the
    probe, and the micro-benchmarks to which the value was fitted."""
    low, high = (estimate.low, estimate.high) if estimate else (value, value)
    rounded: float = round(value) if is_integer else float(f"{value:.4g}")
    interval = [float(f"{min(low, value):.4g}"), float(f"{max(high, value):.4g}")]
    interval = [min(interval[0], float(rounded)), max(interval[1], float(rounded))]
    return {"value": rounded, "kind": "fitted", "interval": interval, "probe": probe, "fitted_to": list(fitted_to)}


def fit_machine(
    base: DescribedMachine,
    measurements: Measurements,
    place: CalibratedPlace | None,
    machine_at_other_place: DescribedMachine | None = None,
) -> DescribedMachine:
    """Returns `base` with every measured value replaced. Values that were not measured are those of `base`.
    `machine_at_other_place` is the machine that was fitted at another place of the cores. Its prefetcher is copied,
    because a core's prefetcher does not depend on the place of the pair."""
    values = base.model_dump(exclude_none=True)
    fitting = _MachineFit(values, measurements)
    fitting.fit_core()
    fitting.fit_caches()
    fitting.fit_memory()
    fitting.fit_tlbs()
    if place:
        fitting.fit_cache_sharing(place)
    fitting.fit_transfers(place)
    if machine_at_other_place:
        fitting.copy_prefetcher(machine_at_other_place)
    else:
        fitting.fit_prefetcher()
    fitting.fit_cache_ports()
    fitting.fit_page_faults()
    fitting.fit_kernel_copies(place)
    return fitting.to_machine()


class _MachineFit:
    """Replaces the values of one machine by fitted ones. The methods must be called in the order of `fit_machine`,
    since later fits simulate with the values of earlier ones."""

    def __init__(self, values: MachineValues, measurements: Measurements) -> None:
        self.values, self.measurements = values, measurements
        self.clock_ghz = 1 / measurements.addition.value

    def to_machine(self) -> DescribedMachine:
        return DescribedMachine.model_validate(copy.deepcopy(self.values))

    def to_native_machine(self, with_base_pages: bool = False) -> structs.Machine:
        """Returns the machine with the values fitted so far, as the simulator's struct. All memory is in base pages if
        `with_base_pages`, otherwise in huge pages."""
        native_machine = to_native(self.to_machine())
        return native_machine if with_base_pages else sim.with_huge_pages(native_machine)

    def _fitted_cycles(self, time: Estimate, probe: str, benchmark: str) -> MachineValues:
        return fitted_value(time.value * self.clock_ghz, time * self.clock_ghz, probe, benchmark)

    # ---- values of one core

    def fit_core(self) -> None:
        add, core = self.measurements.addition, self.values["core"]
        clock = Estimate(1 / add.value, 1 / add.high, 1 / add.low)
        core["clock_ghz"] = fitted_value(clock.value, clock, "a chain of additions takes a cycle each", "additions")
        size = min(self.measurements.reads)
        num_words = size // 8
        core["cycles_per_access"] = self._fitted_cycles(
            self.measurements.reads[size] * (1 / num_words),
            "reading in words of 8 bytes",
            f"reading {format_bytes(size)}",
        )
        size = min(self.measurements.copies, key=lambda one: abs(one - 8 * KIB))
        rate = _divide_by_time(self.measurements.copies[size], size / self.clock_ghz)
        core["copy_bytes_per_cycle"] = fitted_value(rate.value, rate, "memcpy", f"copying {format_bytes(size)}")
        reading = self.measurements.clock_reading
        core["clock_reading_ns"] = fitted_value(reading.value, reading, "reading the clock", "clock readings")
        if self.measurements.misprediction:
            core["mispredict_cycles"] = self._fitted_cycles(
                self.measurements.misprediction, "branches on random bits, half of them mispredicted", "branches"
            )
        latency = self.measurements.memory_chain[1]
        best = min(self.measurements.concurrent_memory_chains.values(), key=lambda one: one.value)
        count = _divide_estimates(latency, best)
        probe = "latency of one chain through memory over the time per load of many"
        core["outstanding_misses"] = fitted_value(
            max(1.0, count.value), count, probe, "chains through memory", is_integer=True
        )

    # ---- caches and memory

    def fit_caches(self) -> None:
        caches = self.values["cache"]
        for cache, (size, time) in zip(caches, self.measurements.cache_chains, strict=False):
            cache["latency_cycles"] = self._fitted_cycles(
                time, "a chain in huge pages", f"chain of {format_bytes(size)}"
            )
        if self.measurements.last_cache_chains and len(caches) > len(self.measurements.cache_chains):
            self._fit_last_cache(caches[-1])

    def _fit_last_cache(self, cache: MachineValues) -> None:
        """Fits latency and size of the last cache. The latency is that of a chain twice as long as the next nearer
        cache, or four times as long if such a chain is still much faster than memory. If chains become slow below the
        stated size, sets the cache's size to where they become slow, because other tenants of the host use the rest of
        the cache."""
        curve = {size: one.value for size, one in self.measurements.last_cache_chains.items()}
        sizes = list(curve)
        memory_ns = self.measurements.memory_chain[1].value
        chain_bytes = sizes[0]
        if len(sizes) > 2 and curve[sizes[2]] < math.sqrt(curve[sizes[0]] * memory_ns):
            chain_bytes = sizes[2]
        probe = "a chain in huge pages"
        if curve[chain_bytes] > MIN_SATURATED_LATENCY_SHARE * memory_ns:
            probe += ", as slow as one in memory: other programs, or other machines of the host, use this cache"
        cache["latency_cycles"] = self._fitted_cycles(
            self.measurements.last_cache_chains[chain_bytes], probe, f"chain of {format_bytes(chain_bytes)}"
        )
        self.last_cache_bytes = cache["size_bytes"]["value"]
        size_range = find_last_below(curve, math.sqrt(curve[chain_bytes] * memory_ns))
        if size_range is None or size_range[0] >= MIN_FITTED_SIZE_SHARE * self.last_cache_bytes:
            return
        set_bytes = cache["line_bytes"]["value"] * cache["ways"]["value"]
        available_bytes = max(1, round(math.sqrt(size_range[0] * size_range[1]) / set_bytes)) * set_bytes
        probe = (
            f"chains get slower beyond {format_bytes(size_range[0])}: other cores use the rest of the capacity in "
            "the topology"
        )
        names = [f"chains of {format_bytes(sizes[0])} to {format_bytes(sizes[-1])}"]
        size = Estimate(available_bytes, float(size_range[0]), float(size_range[1]))
        cache["size_bytes"] = fitted_value(size.value, size, probe, *names, is_integer=True)
        self.last_cache_bytes = available_bytes

    def fit_memory(self) -> None:
        size, time = self.measurements.memory_chain
        probe, what = "a chain in huge pages", f"chain of {format_bytes(size)}"
        self.values["memory"]["latency_ns"] = fitted_value(time.value, time, probe, what)
        if traffic := self.measurements.traffic_gb_per_s:
            probe = "all cores read memory at once; a lower bound where they cannot saturate it"
            self.values["memory"]["gb_per_s"] = fitted_value(traffic.value, traffic, probe, "all cores reading")

    # ---- TLBs and page faults

    def fit_tlbs(self) -> None:
        pages = self.values.setdefault("pages", {})
        extra = {
            count: spread.value - packed.value for count, (spread, packed) in self.measurements.page_chains.items()
        }
        steps = fit_plateaus(extra)
        if steps:  # the last step ends at many pages, since a TLB without LRU replacement misses before it is full
            steps[-1] = steps[-1][0], max(extra[NUM_WALKED_PAGES] - sum(height for _, height in steps[:-1]), 0.1)
        counts = list(extra)
        tlbs = []
        for entries, height in steps:
            after = counts[counts.index(entries) + 1]
            noise = max(
                self.measurements.page_chains[entries][0].high - self.measurements.page_chains[entries][0].value,
                0.1 * height,
            )
            what = f"chains over {counts[0]} to {counts[-1]} pages"
            tlbs.append(
                {
                    "entries": fitted_value(
                        entries, Estimate(entries, entries, after), "pages per chain", what, is_integer=True
                    ),
                    "ways": {"value": entries, "kind": "chosen", "reason": "not measured", "claims": []},
                    "miss_cycles": fitted_value(
                        height * self.clock_ghz,
                        Estimate(height, max(height - noise, 1e-3), height + noise) * self.clock_ghz,
                        "a line of each page against lines in a row in huge pages",
                        what,
                    ),
                }
            )
        if not tlbs:
            return
        pages["tlb"] = tlbs
        walks = {
            chains: max(spread.value - packed.value, 0.01)
            for chains, (spread, packed) in self.measurements.concurrent_page_chains.items()
        }
        count = min(max(1.0, walks[1] / min(walks.values())), float(max(walks)))
        spread = self.measurements.concurrent_page_chains[1][0]
        bounds = Estimate(count, max(1.0, count * spread.low / spread.high), count * spread.high / spread.low)
        probe = "TLB misses of one chain over those of many"
        pages["walkers"] = fitted_value(count, bounds, probe, f"chains over {NUM_WALKED_PAGES} pages", is_integer=True)

    def fit_page_faults(self) -> None:
        pages, measurements = self.values["pages"], self.measurements
        if measurements.page_fault:
            pages["fault_ns"] = self._fit_fault_cost(
                measurements.page_fault, "base", sim.first_touch_ns(self._machine_without_faults(4 * KIB))
            )
        if measurements.huge_page_fault:
            rest = sim.first_touch_ns(self._machine_without_faults(sim.HUGE_PAGE_BYTES), 16)
            pages["huge_fault_ns"] = self._fit_fault_cost(measurements.huge_page_fault, "huge", rest)

    def _machine_without_faults(self, page_bytes: int) -> structs.Machine:
        native_machine = self.to_native_machine(with_base_pages=True)
        native_machine.pages.page_bytes, native_machine.pages.fault_ns = page_bytes, 0.0
        return native_machine

    @staticmethod
    def _fit_fault_cost(time: Estimate, kind: str, rest_ns: float) -> MachineValues:
        """Returns the page fault cost: the measured time of a first touch minus `rest_ns`, the simulated time of the
        same store without a page fault."""
        simulated = Estimate(rest_ns, rest_ns, rest_ns)
        fault_cost = time - simulated
        probe = "the first write to each page of new memory"
        return fitted_value(max(fault_cost.value, 0.0), fault_cost, probe, f"first touch of {kind} pages")

    # ---- values that are searched by simulation

    def fit_prefetcher(self) -> None:
        """Searches the prefetcher's distance, requests in flight and target cache for which simulated chains through
        consecutive lines take the measured times. Removes the prefetcher if such a chain is hardly faster than a chain
        in random order."""
        latencies = (
            dict(self.measurements.cache_chains)
            | self.measurements.last_cache_chains
            | {self.measurements.memory_chain[0]: self.measurements.memory_chain[1]}
        )
        in_order = {size: time.value for size, time in self.measurements.in_order_chains.items()}
        at_random = self.measurements.memory_chain[1].value
        if in_order[max(in_order)] > 0.7 * at_random:
            self.values.pop("prefetcher", None)
            return
        native_machine = sim.without_fault_cost(self.to_native_machine(with_base_pages=True))
        targets = {size: ns for size, ns in in_order.items() if size >= min(latencies)}

        def error(level: int, distance: int, outstanding: int) -> float:
            native_machine.prefetcher = _make_native_prefetcher(level, distance, outstanding)
            ratios = [sim.chase_ns(native_machine, size, in_order=True) / ns for size, ns in targets.items()]
            return sum(math.log(ratio) ** 2 for ratio in ratios)

        options = [
            (k, d, o)
            for k in (0, 1)
            for d in CANDIDATE_PREFETCH_DISTANCES
            for o in CANDIDATE_PREFETCH_OUTSTANDING
            if o >= d
        ]
        scores = {option: error(*option) for option in options if option[0] < len(native_machine.caches)}
        best = min(scores, key=lambda option: scores[option])
        good = [option for option, score in scores.items() if score <= 2 * scores[best] + 0.01]
        names = [f"lines in order of {format_bytes(size)}" for size in targets]
        probe = "chains through consecutive lines, repeated by simulation"

        def fit_part(part: int) -> MachineValues:
            ends = [option[part] for option in good]
            return fitted_value(best[part], Estimate(best[part], min(ends), max(ends)), probe, *names, is_integer=True)

        streams = {"value": 16, "kind": "chosen", "reason": "not measured; usual value", "claims": []}
        start = {"value": "all", "kind": "chosen", "reason": "as processors of today do", "claims": []}
        self.values["prefetcher"] = {
            "streams": streams, "distance_lines": fit_part(1), "level": fit_part(0), "outstanding": fit_part(2),
            "start": start,
        }  # fmt: skip

    def copy_prefetcher(self, source_machine: DescribedMachine) -> None:
        """Replaces the prefetcher by that of another machine, or removes it."""
        self.values.pop("prefetcher", None)
        if source_machine.prefetcher:
            self.values["prefetcher"] = source_machine.prefetcher.model_dump(exclude_none=True)

    def fit_cache_ports(self) -> None:
        """Limits the bytes per cycle of each cache from which the simulated machine would otherwise copy faster than
        the real one."""
        caches = self.values["cache"]
        last_cache_bytes = getattr(self, "last_cache_bytes", caches[-1]["size_bytes"]["value"])
        for place, cache in enumerate(caches[1:], 1):
            size = self._select_copy_size(
                caches[place - 1], cache if place < len(caches) - 1 else None, last_cache_bytes
            )
            if size is None:
                continue
            time = self.measurements.copies[size]
            cache.pop("bytes_per_cycle", None)
            rate = self._port_bytes_per_cycle(place, size, time.value)
            if rate is not None:
                ends = [
                    self._port_bytes_per_cycle(place, size, ns) or MAX_PORT_BYTES_PER_CYCLE
                    for ns in (time.high, time.low)
                ]
                cache["bytes_per_cycle"] = fitted_value(
                    rate, Estimate(rate, *ends), "memcpy, repeated by simulation", f"copying {format_bytes(size)}"
                )

    def _select_copy_size(self, nearer: MachineValues, cache: MachineValues | None, max_bytes: int) -> int | None:
        """Returns the size in bytes of the shortest measured copy whose two buffers exceed the nearer cache and fit
        into `cache` (or into `max_bytes` bytes if `cache` is None); None if no such copy was measured."""
        low, high = nearer["size_bytes"]["value"], cache["size_bytes"]["value"] if cache else max_bytes
        return min((size for size in self.measurements.copies if 1.5 * low <= 2 * size <= high), default=None)

    def _port_bytes_per_cycle(self, level: int, size: int, time_ns: float) -> float | None:
        """Returns the bytes per cycle of a cache at which the simulated copy takes `time_ns`; None if the copy takes at
        least as long without a limit."""
        cache = self.values["cache"][level]

        def copied_ns(rate: float) -> float:
            cache["bytes_per_cycle"] = {"value": rate, "source": "a trial"}
            return sim.copy_ns(self.to_native_machine(), size)

        try:
            return (
                solve_descending(copied_ns, time_ns, 0.5, MAX_PORT_BYTES_PER_CYCLE)
                if copied_ns(MAX_PORT_BYTES_PER_CYCLE) < time_ns
                else None
            )
        finally:
            del cache["bytes_per_cycle"]

    def fit_kernel_copies(self, place: CalibratedPlace | None) -> None:
        messaging, kernel = self.values.get("messaging"), select_kernel_copies(self.measurements, place)
        if not kernel or messaging is None:
            return
        native_machine = self.to_native_machine()
        page = self.values["pages"]["page_bytes"]["value"]
        short, long = page, max(kernel)
        software_time = {
            size: kernel[size] - _exact_estimate(sim.copy_ns(native_machine, size)) for size in (short, long)
        }
        pages = long // page - 1
        time_per_page = (software_time[long] - software_time[short]) * (1 / pages)
        names = [f"copying {format_bytes(size)} by the kernel" for size in (short, long)]
        messaging["copy_page_ns"] = fitted_value(
            max(time_per_page.value, 0.0), time_per_page, "process_vm_readv, for each page more", *names
        )
        call = software_time[short] - time_per_page
        messaging["system_call_ns"] = fitted_value(
            max(call.value, 0.0), call, "process_vm_readv, without its pages", *names
        )

    # ---- transfers between two cores

    def fit_cache_sharing(self, place: CalibratedPlace) -> None:
        """Corrects which caches the cores share on a machine with exactly two cores. With more cores, one measured pair
        does not determine the sharing of the others."""
        caches, cores = self.values["cache"], self.values["cores"]["value"]
        if cores != 2:
            return
        probe = "one core follows a chain that the other core has just written"
        for level, cache in enumerate(caches):
            shared = 2 if place.shared_cache_level is not None and level >= place.shared_cache_level else 1
            if cache["shared_by"]["value"] != shared:
                cache["shared_by"] = fitted_value(
                    shared, None, probe, "chains that the other core has written", is_integer=True
                )

    def fit_transfers(self, place: CalibratedPlace | None) -> None:
        cores, last = self.values["cores"]["value"], self.values["cache"][-1]["shared_by"]["value"]
        if cores == 1:
            self.values.pop("transfers", None)
            return
        transfers = self.values.setdefault("transfers", {})
        if place is None:
            return
        access_ns = self.values["core"]["cycles_per_access"]["value"] / self.clock_ghz
        upgrade = Estimate(0.0, 0.0, 0.0)
        if place.store_to_shared_line_ns:
            upgrade = place.store_to_shared_line_ns - _exact_estimate(access_ns)
            transfers["upgrade_cycles"] = fitted_value(
                max(upgrade.value, 1e-3) * self.clock_ghz, upgrade * self.clock_ghz,
                "stores to lines that the other core has read", "stores to shared lines",
            )  # fmt: skip
        way = place.flag_ns - _exact_estimate(access_ns + max(upgrade.value, 0.0))
        cycles = fitted_value(
            max(way.value, 1.0) * self.clock_ghz,
            way * self.clock_ghz,
            "core-to-core latency, less the store's time",
            "flag",
        )
        if place.read_of_written_line_ns:
            count = _divide_estimates(way, place.read_of_written_line_ns)
            transfers["outstanding"] = fitted_value(
                max(count.value, 1.0), count, "core-to-core latency over the time per line of many",
                "reading what the other core wrote", is_integer=True,
            )  # fmt: skip
        private = {"value": cycles["value"], "kind": "chosen", "reason": "as the other transfers", "claims": []}
        is_remote = last < cores and (place.shared_cache_level is None or cores == 2)
        for key, needed in (("shared_cycles", last > 1), ("remote_cycles", last < cores)):
            if not needed:
                transfers.pop(key, None)
            elif (key == "remote_cycles") == is_remote:
                transfers[key] = cycles
            else:
                transfers.setdefault(key, private)
        if place.store_to_shared_line_miss_ns:
            self._fit_upgrades_of_misses(transfers, place.store_to_shared_line_miss_ns)

    def _fit_upgrades_of_misses(self, transfers: MachineValues, store_ns: Estimate) -> None:
        """Fits the extra time of stores to shared lines that miss the nearest cache. It is the difference between the
        measured time and the time that is simulated without that extra time."""
        native_machine = self.to_native_machine()
        native_machine.transfers.upgrade_miss_cycles = 1e-3
        size = missing_lines_bytes([cache.size_bytes for cache in native_machine.caches])
        extra = store_ns - _exact_estimate(sim.store_to_shared_lines_ns(native_machine, size))
        transfers["upgrade_miss_cycles"] = fitted_value(
            max(extra.value, 1e-3) * self.clock_ghz, extra * self.clock_ghz,
            "stores to lines that the other core has read and that miss the nearest cache",
            "stores to shared lines beyond the nearest cache",
        )  # fmt: skip


def solve_descending(function: Callable[[float], float], target_value: float, low: float, high: float) -> float:
    """Returns the argument in [low, high] at which a descending function has the value `target_value`, by 24 steps of
    bisection on a logarithmic scale."""
    for _ in range(24):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) > target_value else (low, middle)
    return math.sqrt(low * high)


def _make_native_prefetcher(level: int, distance: int, outstanding: int) -> structs.Prefetcher:
    prefetcher = structs.Prefetcher()
    prefetcher.streams, prefetcher.level = 16, level
    prefetcher.distance_lines, prefetcher.outstanding = distance, outstanding
    prefetcher.start = structs.StreamStart.all
    return prefetcher


def _divide_by_time(time: Estimate, factor: float) -> Estimate:
    """Returns factor / time, with its interval."""
    return Estimate(factor / time.value, factor / time.high, factor / time.low)


def _divide_estimates(numerator: Estimate, denominator: Estimate) -> Estimate:
    """Returns numerator / denominator with the widest possible interval."""
    return Estimate(
        numerator.value / denominator.value, numerator.low / denominator.high, numerator.high / denominator.low
    )


def _exact_estimate(value: float) -> Estimate:
    """Returns an estimate whose interval is the value itself."""
    return Estimate(value, value, value)
