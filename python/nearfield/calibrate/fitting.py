"""Derives a machine description from micro-benchmark results. Most values follow from one measurement. The values of
the prefetcher and of cache ports are searched by simulation, so that the simulated micro-benchmark takes the measured
time."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from nearfield._native import machine as structs
from nearfield.base.estimates import Estimate
from nearfield.base.units import format_bytes
from nearfield.calibrate import simulated as sim
from nearfield.calibrate.measured import Measurements, Place, select_kernel_copies
from nearfield.calibrate.places import missing_lines_bytes
from nearfield.calibrate.probing import WALKED_PAGES
from nearfield.calibrate.steps import fit_plateaus, last_below
from nearfield.machine import DescribedMachine
from nearfield.machine.native import to_native

Values = dict[str, Any]
KIB = 1 << 10
PREFETCH_DISTANCES, PREFETCH_OUTSTANDING = (1, 2, 4, 8, 16, 32), (8, 16, 32, 48)
MEMORY_LATENCY_SHARE = 0.7  # of memory's latency, above which a chain in the last cache is as slow as one in memory
MIN_SIZE_SHARE = 0.75  # of the stated size; if latency rises at a smaller size, the last cache is described as smaller
MAX_BYTES_PER_CYCLE = 256.0


def fitted_value(value: float, estimate: Estimate | None, probe: str, *fitted_to: str, whole: bool = False) -> Values:
    """Returns a value of kind "fitted" as the keys of a machine file: the value rounded to 4 digits, its interval, the
    probe, and the micro-benchmarks to which the value was fitted."""
    low, high = (estimate.low, estimate.high) if estimate else (value, value)
    rounded: float = round(value) if whole else float(f"{value:.4g}")
    interval = [float(f"{min(low, value):.4g}"), float(f"{max(high, value):.4g}")]
    interval = [min(interval[0], float(rounded)), max(interval[1], float(rounded))]
    return {"value": rounded, "kind": "fitted", "interval": interval, "probe": probe, "fitted_to": list(fitted_to)}


def fit_machine(
    base: DescribedMachine, found: Measurements, place: Place | None, other: DescribedMachine | None = None
) -> DescribedMachine:
    """Returns `base` with every measured value replaced. Values that were not measured are those of `base`. `other` is
    the machine fitted at another place of the cores: its prefetcher is copied, because a core's prefetcher does not
    depend on the place of the pair."""
    values = base.model_dump(exclude_none=True)
    fitting = _MachineFit(values, found)
    fitting.fit_core()
    fitting.fit_caches()
    fitting.fit_memory()
    fitting.fit_tlbs()
    if place:
        fitting.fit_cache_sharing(place)
    fitting.fit_transfers(place)
    if other:
        fitting.copy_prefetcher(other)
    else:
        fitting.fit_prefetcher()
    fitting.fit_cache_ports()
    fitting.fit_page_faults()
    fitting.fit_kernel_copies(place)
    return fitting.to_machine()


class _MachineFit:
    """Replaces the values of one machine by fitted ones. The methods must be called in the order of `fit_machine`,
    since later fits simulate with the values of earlier ones."""

    def __init__(self, values: Values, found: Measurements) -> None:
        self.values, self.found = values, found
        self.ghz = 1 / found.addition.value

    def to_machine(self) -> DescribedMachine:
        return DescribedMachine.model_validate(copy.deepcopy(self.values))

    def to_native_machine(self, pages: bool = False) -> structs.Machine:
        """Returns the machine with the values fitted so far as the simulator's struct: with base pages if `pages`,
        otherwise with huge pages."""
        made = to_native(self.to_machine())
        return made if pages else sim.in_huge_pages(made)

    def _fitted_cycles(self, time: Estimate, probe: str, what: str) -> Values:
        return fitted_value(time.value * self.ghz, time * self.ghz, probe, what)

    # ---- values of one core

    def fit_core(self) -> None:
        add, core = self.found.addition, self.values["core"]
        clock = Estimate(1 / add.value, 1 / add.high, 1 / add.low)
        core["clock_ghz"] = fitted_value(clock.value, clock, "a chain of additions takes a cycle each", "additions")
        size = min(self.found.reads)
        words = size // 8
        core["cycles_per_access"] = self._fitted_cycles(
            self.found.reads[size] * (1 / words), "reading in words of 8 bytes", f"reading {format_bytes(size)}"
        )
        size = min(self.found.copies, key=lambda one: abs(one - 8 * KIB))
        rate = _rate_of(self.found.copies[size], size / self.ghz)
        core["copy_bytes_per_cycle"] = fitted_value(rate.value, rate, "memcpy", f"copying {format_bytes(size)}")
        reading = self.found.clock_reading
        core["clock_reading_ns"] = fitted_value(reading.value, reading, "reading the clock", "clock readings")
        if self.found.misprediction:
            core["mispredict_cycles"] = self._fitted_cycles(
                self.found.misprediction, "branches on random bits, half of them mispredicted", "branches"
            )
        latency = self.found.memory[1]
        best = min(self.found.chains.values(), key=lambda one: one.value)
        count = _ratio_of(latency, best)
        probe = "latency of one chain through memory over the time per load of many"
        core["outstanding_misses"] = fitted_value(
            max(1.0, count.value), count, probe, "chains through memory", whole=True
        )

    # ---- caches and memory

    def fit_caches(self) -> None:
        caches = self.values["cache"]
        for cache, (size, time) in zip(caches, self.found.levels, strict=False):
            cache["latency_cycles"] = self._fitted_cycles(
                time, "a chain in huge pages", f"chain of {format_bytes(size)}"
            )
        if self.found.by_bytes and len(caches) > len(self.found.levels):
            self._fit_last_cache(caches[-1])

    def _fit_last_cache(self, cache: Values) -> None:
        """Fits latency and size of the last cache. The latency is that of a chain twice as long as the next nearer
        cache, or four times as long if such a chain is still much faster than memory. If chains become slow below the
        stated size, sets the smaller size, because other tenants of the host use the rest of the cache."""
        curve = {size: one.value for size, one in self.found.by_bytes.items()}
        sizes = list(curve)
        memory_ns = self.found.memory[1].value
        at = sizes[0]
        if len(sizes) > 2 and curve[sizes[2]] < math.sqrt(curve[sizes[0]] * memory_ns):
            at = sizes[2]
        probe = "a chain in huge pages"
        if curve[at] > MEMORY_LATENCY_SHARE * memory_ns:
            probe += ", as slow as one in memory: other programs, or other machines of the host, use this cache"
        cache["latency_cycles"] = self._fitted_cycles(self.found.by_bytes[at], probe, f"chain of {format_bytes(at)}")
        self.last_cache_bytes = cache["size_bytes"]["value"]
        end = last_below(curve, math.sqrt(curve[at] * memory_ns))
        if end is None or end[0] >= MIN_SIZE_SHARE * self.last_cache_bytes:
            return
        set_bytes = cache["line_bytes"]["value"] * cache["ways"]["value"]
        ours = max(1, round(math.sqrt(end[0] * end[1]) / set_bytes)) * set_bytes
        probe = f"chains get slower beyond {format_bytes(end[0])}: others use the rest of what the topology states"
        names = [f"chains of {format_bytes(sizes[0])} to {format_bytes(sizes[-1])}"]
        size = Estimate(ours, float(end[0]), float(end[1]))
        cache["size_bytes"] = fitted_value(size.value, size, probe, *names, whole=True)
        self.last_cache_bytes = ours

    def fit_memory(self) -> None:
        size, time = self.found.memory
        probe, what = "a chain in huge pages", f"chain of {format_bytes(size)}"
        self.values["memory"]["latency_ns"] = fitted_value(time.value, time, probe, what)
        if traffic := self.found.traffic_gb_per_s:
            probe = "all cores read memory at once; a lower bound where they cannot saturate it"
            self.values["memory"]["gb_per_s"] = fitted_value(traffic.value, traffic, probe, "all cores reading")

    # ---- TLBs and page faults

    def fit_tlbs(self) -> None:
        pages = self.values.setdefault("pages", {})
        extra = {count: spread.value - packed.value for count, (spread, packed) in self.found.pages.items()}
        steps = fit_plateaus(extra)
        if steps:  # the last step ends at many pages, since a TLB without LRU replacement misses before it is full
            steps[-1] = steps[-1][0], max(extra[WALKED_PAGES] - sum(height for _, height in steps[:-1]), 0.1)
        counts = list(extra)
        tlbs = []
        for entries, height in steps:
            after = counts[counts.index(entries) + 1]
            noise = max(self.found.pages[entries][0].high - self.found.pages[entries][0].value, 0.1 * height)
            what = f"chains over {counts[0]} to {counts[-1]} pages"
            tlbs.append(
                {
                    "entries": fitted_value(
                        entries, Estimate(entries, entries, after), "pages per chain", what, whole=True
                    ),
                    "ways": {"value": entries, "kind": "chosen", "reason": "not measured", "claims": []},
                    "miss_cycles": fitted_value(
                        height * self.ghz,
                        Estimate(height, max(height - noise, 1e-3), height + noise) * self.ghz,
                        "a line of each page against lines in a row in huge pages",
                        what,
                    ),
                }
            )
        if not tlbs:
            return
        pages["tlb"] = tlbs
        walks = {
            chains: max(spread.value - packed.value, 0.01) for chains, (spread, packed) in self.found.walks.items()
        }
        count = min(max(1.0, walks[1] / min(walks.values())), float(max(walks)))
        spread = self.found.walks[1][0]
        bounds = Estimate(count, max(1.0, count * spread.low / spread.high), count * spread.high / spread.low)
        probe = "TLB misses of one chain over those of many"
        pages["walkers"] = fitted_value(count, bounds, probe, f"chains over {WALKED_PAGES} pages", whole=True)

    def fit_page_faults(self) -> None:
        pages, found = self.values["pages"], self.found
        if found.fault:
            pages["fault_ns"] = self._fault_value(
                found.fault, "base", sim.first_touch_ns(self._machine_without_faults(4 * KIB))
            )
        if found.huge_fault:
            rest = sim.first_touch_ns(self._machine_without_faults(sim.HUGE_BYTES), 16)
            pages["huge_fault_ns"] = self._fault_value(found.huge_fault, "huge", rest)

    def _machine_without_faults(self, page_bytes: int) -> structs.Machine:
        made = self.to_native_machine(pages=True)
        made.pages.page_bytes, made.pages.fault_ns = page_bytes, 0.0
        return made

    @staticmethod
    def _fault_value(time: Estimate, kind: str, rest_ns: float) -> Values:
        """Returns the page fault cost: the measured time of a first touch minus `rest_ns`, the simulated time of the
        same store without a page fault."""
        known = Estimate(rest_ns, rest_ns, rest_ns)
        less = time - known
        probe = "the first write to each page of new memory"
        return fitted_value(max(less.value, 0.0), less, probe, f"first touch of {kind} pages")

    # ---- values that are searched by simulation

    def fit_prefetcher(self) -> None:
        """Searches the prefetcher's distance, requests in flight and target cache for which simulated chains through
        consecutive lines take the measured times. Removes the prefetcher if such a chain is hardly faster than a chain
        in random order."""
        latencies = dict(self.found.levels) | self.found.by_bytes | {self.found.memory[0]: self.found.memory[1]}
        in_order = {size: time.value for size, time in self.found.in_order.items()}
        at_random = self.found.memory[1].value
        if in_order[max(in_order)] > 0.7 * at_random:
            self.values.pop("prefetcher", None)
            return
        made = sim.without_fault_cost(self.to_native_machine(pages=True))
        targets = {size: ns for size, ns in in_order.items() if size >= min(latencies)}

        def error(level: int, distance: int, outstanding: int) -> float:
            made.prefetcher = _native_prefetcher(level, distance, outstanding)
            ratios = [sim.chase_ns(made, size, in_order=True) / ns for size, ns in targets.items()]
            return sum(math.log(ratio) ** 2 for ratio in ratios)

        options = [(k, d, o) for k in (0, 1) for d in PREFETCH_DISTANCES for o in PREFETCH_OUTSTANDING if o >= d]
        scores = {option: error(*option) for option in options if option[0] < len(made.caches)}
        best = min(scores, key=lambda option: scores[option])
        good = [option for option, score in scores.items() if score <= 2 * scores[best] + 0.01]
        names = [f"lines in order of {format_bytes(size)}" for size in targets]
        probe = "chains through consecutive lines, repeated by simulation"

        def of(part: int) -> Values:
            ends = [option[part] for option in good]
            return fitted_value(best[part], Estimate(best[part], min(ends), max(ends)), probe, *names, whole=True)

        streams = {"value": 16, "kind": "chosen", "reason": "not measured; usual value", "claims": []}
        start = {"value": "all", "kind": "chosen", "reason": "as processors of today do", "claims": []}
        self.values["prefetcher"] = {
            "streams": streams, "distance_lines": of(1), "level": of(0), "outstanding": of(2), "start": start
        }  # fmt: skip

    def copy_prefetcher(self, other: DescribedMachine) -> None:
        """Replaces the prefetcher by that of another machine, or removes it."""
        self.values.pop("prefetcher", None)
        if other.prefetcher:
            self.values["prefetcher"] = other.prefetcher.model_dump(exclude_none=True)

    def fit_cache_ports(self) -> None:
        """Limits the bytes per cycle of each cache from which the simulated machine would copy faster than the real one
        did."""
        caches = self.values["cache"]
        reach = getattr(self, "last_cache_bytes", caches[-1]["size_bytes"]["value"])
        for place, cache in enumerate(caches[1:], 1):
            size = self._copy_size_in(caches[place - 1], cache if place < len(caches) - 1 else None, reach)
            if size is None:
                continue
            time = self.found.copies[size]
            cache.pop("bytes_per_cycle", None)
            rate = self._port_bytes_per_cycle(place, size, time.value)
            if rate is not None:
                ends = [
                    self._port_bytes_per_cycle(place, size, ns) or MAX_BYTES_PER_CYCLE for ns in (time.high, time.low)
                ]
                cache["bytes_per_cycle"] = fitted_value(
                    rate, Estimate(rate, *ends), "memcpy, repeated by simulation", f"copying {format_bytes(size)}"
                )

    def _copy_size_in(self, nearer: Values, cache: Values | None, reach: int) -> int | None:
        """Returns the shortest measured copy whose two buffers exceed the nearer cache and fit into `cache` (or into
        `reach` bytes if `cache` is None); None if no such copy was measured."""
        low, high = nearer["size_bytes"]["value"], cache["size_bytes"]["value"] if cache else reach
        return min((size for size in self.found.copies if 1.5 * low <= 2 * size <= high), default=None)

    def _port_bytes_per_cycle(self, place: int, size: int, time_ns: float) -> float | None:
        """Returns the bytes per cycle of a cache at which the simulated copy takes `time_ns`; None if the copy takes at
        least as long without a limit."""
        cache = self.values["cache"][place]

        def copied_ns(rate: float) -> float:
            cache["bytes_per_cycle"] = {"value": rate, "source": "a trial"}
            return sim.copy_ns(self.to_native_machine(), size)

        try:
            return (
                solve_descending(copied_ns, time_ns, 0.5, MAX_BYTES_PER_CYCLE)
                if copied_ns(MAX_BYTES_PER_CYCLE) < time_ns
                else None
            )
        finally:
            del cache["bytes_per_cycle"]

    def fit_kernel_copies(self, place: Place | None) -> None:
        messaging, kernel = self.values.get("messaging"), select_kernel_copies(self.found, place)
        if not kernel or messaging is None:
            return
        made = self.to_native_machine()
        page = self.values["pages"]["page_bytes"]["value"]
        short, long = page, max(kernel)
        rest = {size: kernel[size] - _exact_estimate(sim.copy_ns(made, size)) for size in (short, long)}
        pages = long // page - 1
        each = (rest[long] - rest[short]) * (1 / pages)
        names = [f"copying {format_bytes(size)} by the kernel" for size in (short, long)]
        messaging["copy_page_ns"] = fitted_value(
            max(each.value, 0.0), each, "process_vm_readv, for each page more", *names
        )
        call = rest[short] - each
        messaging["system_call_ns"] = fitted_value(
            max(call.value, 0.0), call, "process_vm_readv, without its pages", *names
        )

    # ---- transfers between two cores

    def fit_cache_sharing(self, place: Place) -> None:
        """Corrects which caches the cores share on a machine with exactly two cores. With more cores, one measured pair
        does not determine the sharing of the others."""
        caches, cores = self.values["cache"], self.values["cores"]["value"]
        if cores != 2:
            return
        probe = "one core follows a chain that the other core has just written"
        for level, cache in enumerate(caches):
            shared = 2 if place.shares_level is not None and level >= place.shares_level else 1
            if cache["shared_by"]["value"] != shared:
                cache["shared_by"] = fitted_value(
                    shared, None, probe, "chains that the other core has written", whole=True
                )

    def fit_transfers(self, place: Place | None) -> None:
        cores, last = self.values["cores"]["value"], self.values["cache"][-1]["shared_by"]["value"]
        if cores == 1:
            self.values.pop("transfers", None)
            return
        transfers = self.values.setdefault("transfers", {})
        if place is None:
            return
        access_ns = self.values["core"]["cycles_per_access"]["value"] / self.ghz
        upgrade = Estimate(0.0, 0.0, 0.0)
        if place.store_read_ns:
            upgrade = place.store_read_ns - _exact_estimate(access_ns)
            transfers["upgrade_cycles"] = fitted_value(
                max(upgrade.value, 1e-3) * self.ghz, upgrade * self.ghz, "stores to lines that the other core has read",
                "stores to shared lines",
            )  # fmt: skip
        way = place.flag_ns - _exact_estimate(access_ns + max(upgrade.value, 0.0))
        cycles = fitted_value(
            max(way.value, 1.0) * self.ghz, way * self.ghz, "core-to-core latency, less the store's time", "flag"
        )
        if place.read_written_ns:
            count = _ratio_of(way, place.read_written_ns)
            transfers["outstanding"] = fitted_value(
                max(count.value, 1.0), count, "core-to-core latency over the time per line of many",
                "reading what the other core wrote", whole=True,
            )  # fmt: skip
        private = {"value": cycles["value"], "kind": "chosen", "reason": "as the other transfers", "claims": []}
        is_remote = last < cores and (place.shares_level is None or cores == 2)
        for key, needed in (("shared_cycles", last > 1), ("remote_cycles", last < cores)):
            if not needed:
                transfers.pop(key, None)
            elif (key == "remote_cycles") == is_remote:
                transfers[key] = cycles
            else:
                transfers.setdefault(key, private)
        if place.store_read_missing_ns:
            self._fit_upgrades_of_misses(transfers, place.store_read_missing_ns)

    def _fit_upgrades_of_misses(self, transfers: Values, store_ns: Estimate) -> None:
        """Fits the extra time of stores to shared lines that miss the nearest cache: what the simulated stores, without
        that time, take less than the measured ones."""
        made = self.to_native_machine()
        made.transfers.upgrade_miss_cycles = 1e-3
        size = missing_lines_bytes([cache.size_bytes for cache in made.caches])
        extra = store_ns - _exact_estimate(sim.store_read_ns(made, size))
        transfers["upgrade_miss_cycles"] = fitted_value(
            max(extra.value, 1e-3) * self.ghz, extra * self.ghz,
            "stores to lines that the other core has read and that miss the nearest cache",
            "stores to shared lines beyond the nearest cache",
        )  # fmt: skip


def solve_descending(function: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Returns the argument in [low, high] at which a descending function has the value `wanted`, by 24 steps of
    bisection on a logarithmic scale."""
    for _ in range(24):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) > wanted else (low, middle)
    return math.sqrt(low * high)


def _native_prefetcher(level: int, distance: int, outstanding: int) -> structs.Prefetcher:
    made = structs.Prefetcher()
    made.streams, made.level, made.distance_lines, made.outstanding = 16, level, distance, outstanding
    made.start = structs.StreamStart.all
    return made


def _rate_of(time: Estimate, factor: float) -> Estimate:
    """Returns factor / time, with its interval."""
    return Estimate(factor / time.value, factor / time.high, factor / time.low)


def _ratio_of(a: Estimate, b: Estimate) -> Estimate:
    """Returns a / b with the widest possible interval."""
    return Estimate(a.value / b.value, a.low / b.high, a.high / b.low)


def _exact_estimate(value: float) -> Estimate:
    """Returns an estimate whose interval is the value itself."""
    return Estimate(value, value, value)
