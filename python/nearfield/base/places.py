"""Groups core-to-core latencies into places. The hypervisor of a virtual machine migrates its CPUs between cores of the
host: the core-to-core latency between two CPUs then jumps between distinct values, and message times depend on the
current value."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

MAX_LATENCY_RATIO = 1.25  # largest ratio of two latencies of one place; the same as in src/probe/places.hpp
MIN_PLACE_SHARE = 0.05  # a place has at least this share of all latencies


def find_places(latencies: Sequence[float]) -> list[tuple[float, float]]:
    """Returns (lowest, highest) latency of each place, the most frequent place first. A place is the range, at most
    MAX_LATENCY_RATIO wide, that holds the largest number of the latencies that belong to no other place yet; rare
    latencies belong to no place."""
    rest = sorted(latencies)
    places: list[tuple[float, float]] = []
    while rest:
        ends = [bisect_right(rest, MAX_LATENCY_RATIO * low, lo=begin) for begin, low in enumerate(rest)]
        begin = max(range(len(rest)), key=lambda index: ends[index] - index)
        end = ends[begin]
        if end - begin < MIN_PLACE_SHARE * len(latencies):
            break
        places.append((rest[begin], rest[end - 1]))
        del rest[begin:end]
    return places


def is_latency_of_place(place: tuple[float, float], latency_ns: float) -> bool:
    """Returns whether a latency belongs to the place (lowest, highest latency): whether it is within a factor of
    MAX_LATENCY_RATIO of the middle between the two."""
    middle_ns = (place[0] * place[1]) ** 0.5
    return bool(max(middle_ns, latency_ns) <= MAX_LATENCY_RATIO * min(middle_ns, latency_ns))
