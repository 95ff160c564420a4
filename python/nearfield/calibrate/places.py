"""Measures what two cores do together at each place where they are (`nearfield.base.places`): between two samples of
the core-to-core latency, and sorted by it."""

from __future__ import annotations

import math
from statistics import median

from nearfield import _native
from nearfield._native import calibration as bench
from nearfield.base.estimates import Estimate
from nearfield.base.places import find_places
from nearfield.calibrate.measured import Measured, Place, undisturbed

ROUNDS = 60
FASTER = 0.5  # of the core-to-core latency: a cache that is slower than that does not show whether it is shared
MAX_FLAG_NS = 5000.0  # beyond, one of the two was not running
LINES_BYTES = 16 << 10  # over which stores to shared lines and reading are timed


def measure(pair: tuple[int, int], cache_bytes: list[int], found: Measured) -> list[Place]:
    """Returns the places that the pair was at, the most frequent one first; [] if the two cores never ran at the same
    time."""
    block = bench.Block(8 << 20, bench.PageKind.base)
    steps = [
        (f"level {n}", bench.PairStep.chase_written, _chain_bytes(cache_bytes, n)) for n in range(len(cache_bytes))
    ]
    steps += [("store_read", bench.PairStep.store_read, LINES_BYTES)]
    steps += [("read_written", bench.PairStep.read_written, LINES_BYTES)]
    samples: list[tuple[str, float, float, list[float]]] = []  # step, latency before and after, times
    flag = _native.flag_ns(*pair)
    for number in range(ROUNDS):
        name, step, size = steps[number % len(steps)]
        times = bench.pair_ns(block, size, step, *pair, samples=8)
        after = _native.flag_ns(*pair)
        if 0 < flag < MAX_FLAG_NS and 0 < after < MAX_FLAG_NS and times:
            samples.append((name, flag, after, times))
        flag = after
    return _sorted(samples, cache_bytes, found)


def _chain_bytes(cache_bytes: list[int], level: int) -> int:
    """Returns the length of a chain that fits this cache and no nearer one, for which only 2 MiB are used at most."""
    nearer = cache_bytes[level - 1] if level else 0
    return min(2 * nearer, (nearer + cache_bytes[level]) // 2, 2 << 20) if nearer else cache_bytes[0] // 2


def _sorted(
    samples: list[tuple[str, float, float, list[float]]], cache_bytes: list[int], found: Measured
) -> list[Place]:
    latencies = [latency for _, before, after, _ in samples for latency in (before, after)]
    places = []
    for low, high in find_places(latencies):
        here = [latency for latency in latencies if low <= latency <= high]
        times: dict[str, list[float]] = {}
        for name, before, after, some in samples:
            if low <= before <= high and low <= after <= high:
                times.setdefault(name, []).extend(some)
        flag = Estimate(median(here), min(here), max(here))
        place = Place(flag, len(here) / len(latencies))
        place.shares_level = _shared_level(times, flag.value, len(cache_bytes), found)
        place.store_read_ns = undisturbed(times["store_read"]) if "store_read" in times else None
        place.read_written_ns = undisturbed(times["read_written"]) if "read_written" in times else None
        places.append(place)
    return places


def _shared_level(times: dict[str, list[float]], flag_ns: float, levels: int, found: Measured) -> int | None:
    """Returns the nearest cache that the two cores share: what one of them has just written there, the other one reads
    in less than the geometric mean of that cache's latency and the core-to-core latency."""
    latency = [one.value for _, one in found.levels]
    if len(latency) < levels:
        latency.append(min((one.value for one in found.by_bytes.values()), default=found.memory[1].value))
    for level in range(levels):
        own_ns = latency[level]
        name = f"level {level}"
        is_faster = own_ns < FASTER * flag_ns  # else it does not show from where a line came
        if name in times and is_faster and undisturbed(times[name]).value < math.sqrt(own_ns * flag_ns):
            return level
    return None
