"""Calibration: does a fit find the machine whose measurements it is given, with intervals that contain its values; do
places of virtual CPUs become descriptions of their own; and do the micro-benchmarks measure anything at all?"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from nearfield._native import calibration as bench
from nearfield._native import machine as structs
from nearfield.base.errors import MeasurementError
from nearfield.base.estimates import Estimate
from nearfield.calibrate import simulated as sim
from nearfield.calibrate.describing import describe_places, format_description_file, is_time_reproduced
from nearfield.calibrate.fitting import fit_machine, fitted_value
from nearfield.calibrate.measured import KERNEL_COPY_SIZES_BYTES, CalibratedPlace, Measurements, estimate_undisturbed
from nearfield.calibrate.places import PairSampler, StepSample, missing_lines_bytes
from nearfield.calibrate.probing import (
    NUM_WALKED_PAGES,
    PAGE_COUNTS,
    PAGE_STRIDE_BYTES,
    WALK_CHAIN_COUNTS,
    CalibrationRun,
)
from nearfield.calibrate.repeating import simulate_micro_benchmarks
from nearfield.calibrate.steps import find_last_below, fit_plateaus
from nearfield.machine import DescribedMachine, facts, load_machine
from nearfield.machine.captured import machine_from_profile, unmeasured_profile
from nearfield.profile import schema

KIB, MIB = 1 << 10, 1 << 20
GHZ = 2.5
HOST = schema.Machine(
    schema_version=1,
    name="here",
    cpu_model="a processor",
    cores=2,
    pus=2,
    line_bytes=64,
    cache=[
        schema.Cache(level=1, kind="data", size_bytes=32 * KIB, ways=8, line_bytes=64, shared_by=1, count=2),
        schema.Cache(level=2, kind="unified", size_bytes=512 * KIB, ways=8, line_bytes=64, shared_by=1, count=2),
        schema.Cache(level=3, kind="unified", size_bytes=8 * MIB, ways=16, line_bytes=64, shared_by=2, count=1),
    ],
    memory=schema.Memory(numa_nodes=1),
    pages=schema.Pages(base_bytes=4096),
)


def known_machine() -> structs.Machine:
    """Returns a machine with values that a fit does not know."""
    made = structs.Machine()
    made.name, made.cores = "known", 2
    made.core.clock_ghz, made.core.cycles_per_access, made.core.outstanding_misses = GHZ, 0.7, 18
    made.core.copy_bytes_per_cycle = 24.0
    caches = []
    for size, ways, shared, cycles in ((32 * KIB, 8, 1, 5), (512 * KIB, 8, 1, 15), (8 * MIB, 16, 2, 55)):
        cache = structs.Cache()
        cache.size_bytes, cache.ways, cache.line_bytes, cache.shared_by = size, ways, 64, shared
        cache.latency_cycles = float(cycles)
        caches.append(cache)
    made.caches = caches
    made.dram.latency_ns, made.dram.gb_per_s = 140.0, 25.0
    made.transfers.shared_cycles, made.transfers.outstanding = 150.0, 9
    made.transfers.upgrade_cycles, made.transfers.upgrade_miss_cycles = 20.0, 45.0
    tlbs = []
    for entries, cycles in ((64, 7), (1024, 80)):
        tlb = structs.Tlb()
        tlb.entries = tlb.ways = entries
        tlb.miss_cycles = float(cycles)
        tlbs.append(tlb)
    made.pages.tlbs, made.pages.walkers, made.pages.fault_ns, made.pages.huge_fault_ns = tlbs, 4, 900.0, 60e3
    made.messaging.system_call_ns, made.messaging.copy_page_ns = 1200.0, 250.0
    return made


def measured_on(made: structs.Machine, spread: float = 0.02) -> Measurements:
    """Returns what the micro-benchmarks would measure if this machine were the one at hand."""

    def about(ns: float) -> Estimate:
        return Estimate(ns, ns * (1 - spread / 2), ns * (1 + spread))

    huge = sim.with_huge_pages(made)
    chain = lambda size: about(sim.chase_ns(huge, size))  # noqa: E731
    quiet = structs.Machine(made)
    quiet.pages.fault_ns = 0.0
    cycle = 1 / made.core.clock_ghz
    found = Measurements(
        about(cycle), about(28.0), [(s, chain(s)) for s in (16 * KIB, 128 * KIB)], (64 * MIB, chain(64 * MIB))
    )
    found.last_cache_chains = {s: chain(s) for s in (1 * MIB, 1448 * KIB, 2 * MIB, 4 * MIB, 16 * MIB)}
    found.concurrent_memory_chains = {1: chain(64 * MIB), 24: about(sim.independent_chains_ns(huge, 64 * MIB))}
    found.in_order_chains = {
        s: about(sim.chase_ns(sim.without_fault_cost(made), s, in_order=True)) for s in (128 * KIB, 64 * MIB)
    }
    found.reads = {16 * KIB: about(sim.read_ns(huge, 16 * KIB))}
    found.copies = {s: about(sim.copy_ns(huge, s)) for s in (4 * KIB, 8 * KIB, 128 * KIB)}
    spread_pages = lambda n: about(sim.chase_ns(quiet, n * PAGE_STRIDE_BYTES, PAGE_STRIDE_BYTES))  # noqa: E731
    found.page_chains = {n: (spread_pages(n), chain(n * 64)) for n in PAGE_COUNTS}
    alone, packed = spread_pages(NUM_WALKED_PAGES), chain(NUM_WALKED_PAGES * 64)
    walk = alone.value - packed.value
    found.concurrent_page_chains = {
        n: (about(packed.value / n + walk / min(n, 4)), about(packed.value / n)) for n in WALK_CHAIN_COUNTS
    }
    found.page_fault = about(sim.first_touch_ns(made))
    big = structs.Machine(made)
    big.pages.page_bytes, big.pages.fault_ns = sim.HUGE_PAGE_BYTES, made.pages.huge_fault_ns
    found.huge_page_fault = about(sim.first_touch_ns(big, 16))
    found.kernel_copies = {s: about(sim.kernel_copy_ns(made, s)) for s in (1, 4 * KIB, 64 * KIB)}
    found.traffic_gb_per_s = about(made.dram.gb_per_s)
    shared, remote = sim.store_to_shared_lines_ns(huge, 16 * KIB), sim.read_of_written_lines_ns(huge, 16 * KIB)
    missing = sim.store_to_shared_lines_ns(huge, missing_lines_bytes([cache.size_bytes for cache in huge.caches]))
    found.places = [CalibratedPlace(about(sim.flag_ns(huge)), 1.0, 2, about(shared), about(remote), about(missing))]
    return found


@pytest.fixture(scope="module")
def fitted() -> tuple[DescribedMachine, Measurements]:
    found = measured_on(known_machine())
    base = machine_from_profile(unmeasured_profile(HOST))
    return fit_machine(base, found, found.places[0]), found


def test_a_fit_finds_the_machine_whose_measurements_it_is_given(fitted: tuple[DescribedMachine, Measurements]) -> None:
    """Within 10 %, each in its interval?"""
    machine, _ = fitted
    wanted = {
        "core.clock_ghz": GHZ,
        "core.cycles_per_access": 0.7,
        "core.outstanding_misses": 18,
        "core.copy_bytes_per_cycle": 24,
        "cache[0].latency_cycles": 5,
        "cache[1].latency_cycles": 15,
        "cache[2].latency_cycles": 55,
        "memory.latency_ns": 140,
        "transfers.shared_cycles": 150,
        "transfers.upgrade_cycles": 20,
        "transfers.upgrade_miss_cycles": 45,
        "transfers.outstanding": 9,
        "pages.fault_ns": 900,
        "pages.huge_fault_ns": 60e3,
        "pages.tlb[0].entries": 64,
        "pages.tlb[0].miss_cycles": 7,
        "pages.tlb[1].entries": 1024,
        "pages.tlb[1].miss_cycles": 80,
        "pages.walkers": 4,
        "messaging.system_call_ns": 1200,
        "messaging.copy_page_ns": 250,
    }
    known = dict(facts(machine))
    for key, value in wanted.items():
        assert known[key].kind == "fitted" and known[key].fitted_to, key
        assert known[key].plain_value == pytest.approx(value, rel=0.1), key
        low, high = known[key].interval or (0, 0)
        assert low <= known[key].plain_value <= high, key


def test_the_fitted_machine_repeats_the_micro_benchmarks(fitted: tuple[DescribedMachine, Measurements]) -> None:
    """Within 10 %, all of them?"""
    machine, found = fitted
    off = [
        (name, time.value, ns)
        for name, time, ns in simulate_micro_benchmarks(machine, found, found.places[0])
        if not is_time_reproduced(time, ns)
    ]
    assert not off


def test_without_a_gain_by_order_there_is_no_prefetcher(fitted: tuple[DescribedMachine, Measurements]) -> None:
    """The known machine has none."""
    assert fitted[0].prefetcher is None


def test_a_machine_that_prefetches_gets_a_prefetcher() -> None:
    """And one that repeats the chain through consecutive lines?"""
    made = known_machine()
    made.prefetcher = structs.Prefetcher()
    made.prefetcher.streams, made.prefetcher.distance_lines, made.prefetcher.level = 16, 16, 0
    made.prefetcher.outstanding, made.prefetcher.start = 32, structs.StreamStart.all
    found = measured_on(made)
    base = sim.without_fault_cost(made)
    found.in_order_chains = {
        s: Estimate(ns, ns, ns) for s in (128 * KIB, 64 * MIB) if (ns := sim.chase_ns(base, s, in_order=True))
    }
    machine = fit_machine(machine_from_profile(unmeasured_profile(HOST)), found, found.places[0])
    assert machine.prefetcher
    for name, time, ns in simulate_micro_benchmarks(machine, found, None):
        assert is_time_reproduced(time, ns) or not name.startswith("lines in order"), name


def test_a_cache_of_which_others_use_a_part_is_described_as_smaller() -> None:
    """As on a virtual machine whose host's last cache serves others, too."""
    made = known_machine()
    caches = made.caches
    small = structs.Cache()
    small.size_bytes, small.ways, small.line_bytes, small.shared_by, small.latency_cycles = 2 * MIB, 4, 64, 2, 55.0
    made.caches = [caches[0], caches[1], small]
    found = measured_on(made)
    machine = fit_machine(machine_from_profile(unmeasured_profile(HOST)), found, found.places[0])
    size = machine.cache[2].size_bytes
    assert size.kind == "fitted" and 1 * MIB <= size.value <= 4 * MIB
    assert size.value % (machine.cache[2].ways.value * 64) == 0


def test_each_place_gets_a_separate_description(tmp_path: Path) -> None:
    """With its latency, its sharing of caches and its own name; and what is not known of a place is said?"""
    found = measured_on(known_machine())
    far = CalibratedPlace(Estimate(250.0, 240.0, 260.0), 0.3, None, Estimate(9.0, 8.0, 10.0))
    left = CalibratedPlace(Estimate(900.0, 890.0, 910.0), 0.1)
    found.places += [far, left]
    made, notes = describe_places(HOST, found, None, tmp_path / "mine.toml")
    assert [one.path.name for one in made] == ["mine.toml", "mine-250ns.toml"]
    near, other = (one.machine for one in made)
    assert near.cache[2].shared_by.value == 2 and near.transfers and not near.transfers.remote_cycles
    assert other.cache[2].shared_by.value == 1 and other.transfers and other.transfers.remote_cycles
    assert any("900 ns" in note for note in notes)
    for one in made:
        one.path.write_text(format_description_file(one, notes, "by nobody"))
        assert load_machine(str(one.path)) == one.machine


def test_a_rare_place_is_described_if_it_is_wanted() -> None:
    """Of a hundred visits three were at the profile's place: are all steps known there, and is it left out unless it is
    wanted?"""
    found = measured_on(known_machine())
    sampler = PairSampler((0, 0), [32 * KIB, 1 * MIB, 16 * MIB])
    steps = ["level 0", "level 1", "level 2", "store_read", "store_read_missing", "read_written"]
    steps += [f"kernel {n}" for n in KERNEL_COPY_SIZES_BYTES]
    near = [StepSample(step, 50.0, 52.0, [5.0]) for step in steps * 100]
    far = [StepSample(step, 240.0, 238.0, [9.0]) for step in steps * 3]
    sampler.samples = near + far + [StepSample("level 0", 50.0, 240.0, [7.0])]
    assert [place.flag_ns.value for place in sampler.find_places_of_pair(found)] == [pytest.approx(51, abs=1)]
    assert sampler.has_enough_visits(250.0) and not sampler.has_enough_visits(120.0)
    usual, wanted = sampler.find_places_of_pair(found, 250.0)
    assert (usual.flag_ns.value, wanted.flag_ns.value) == (pytest.approx(51, abs=1), pytest.approx(239, abs=1))
    assert (
        wanted.read_of_written_line_ns
        and wanted.read_of_written_line_ns.value == 9.0
        and set(wanted.kernel_copies) == {*KERNEL_COPY_SIZES_BYTES}
    )


def test_the_undisturbed_time_is_near_the_fastest() -> None:
    """However long a third of the samples is?"""
    samples = [10.0 + 0.01 * i for i in range(20)] + [500.0] * 10
    found = estimate_undisturbed(samples)
    assert found.value == pytest.approx(10, rel=0.02) and found.low == 10 and found.high < 11


def test_a_fitted_value_stays_inside_the_interval_when_rounded() -> None:
    """For values whose digits do not end."""
    for value in (1 / 3, 2e5 / 7, math.pi * 1e-3):
        made = fitted_value(value, Estimate(value, value, value), "a probe", "a chain")
        low, high = made["interval"]
        assert low <= made["value"] <= high and made["value"] == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("curve", "steps"),
    [
        ({16: 0.0, 64: 0.1, 96: 2.4, 512: 2.5, 1024: 2.6, 2048: 30.0, 4096: 33.0}, [64, 1024]),
        ({16: 0.0, 64: 0.1, 96: 0.2, 512: 0.1, 1024: 0.2}, []),
        ({16: 0.1, 64: 0.0, 96: 3.0, 512: 3.1, 1024: 2.9}, [64]),
    ],
)
def test_steps_of_a_curve_are_found(curve: dict[int, float], steps: list[int]) -> None:
    """And noise is none?"""
    assert [at for at, _ in fit_plateaus(curve)] == steps


def test_a_curve_that_stays_below_has_no_end() -> None:
    """A cache that is as large as stated."""
    assert find_last_below({1: 5.0, 2: 6.0}, 10) is None
    assert find_last_below({1: 5.0, 2: 6.0, 4: 50.0}, 10) == (2, 4)


def test_the_micro_benchmarks_return_as_many_samples_as_requested() -> None:
    """And refuse chains that their block cannot hold?"""
    block = bench.Block(1 << 20)
    measured = [bench.addition_ns(7), bench.clock_reading_ns(7), bench.misprediction_ns(7)]
    measured += [bench.chase_ns(block, 4096, samples=7)]
    measured += [bench.chase_ns(block, 1 << 20, chains=8, samples=7), bench.read_ns(block, 4096, 7)]
    measured += [bench.copy_ns(block, bench.Block(4096), 4096, samples=7), bench.first_touch_ns(4, samples=7)]
    for samples in measured:
        assert len(samples) == 7 and min(samples) > 0
    for size, stride, chains in ((2 << 20, 64, 1), (4096, 4096, 2), (4096, 64, 0), (4096, 4, 1)):
        with pytest.raises(ValueError):
            bench.chase_ns(block, size, stride, chains)


def test_a_machine_without_known_caches_is_refused() -> None:
    """With a reason?"""
    with pytest.raises(MeasurementError, match="caches"):
        CalibrationRun(HOST.model_copy(update={"cache": []}), [0], None).measure()
