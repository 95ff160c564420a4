"""Finds where two cores are. The hypervisor of a virtual machine moves its CPUs between cores of the host: the
core-to-core latency of a pair then jumps between values far apart, and times belong to the latency beside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

MAX_RATIO = 1.25  # of two latencies of one place; src/probe/places.hpp has the same one
MIN_SHARE = 0.05  # of all latencies


def find_places(latencies: Sequence[float]) -> list[tuple[float, float]]:
    """Returns the lowest and the highest latency of each place, the most frequent place first. A place is the range,
    at most MAX_RATIO wide, that holds most of the latencies that are of no other place; rare ones are of none."""
    rest = sorted(latencies)
    places: list[tuple[float, float]] = []
    while rest:
        ends = [bisect_right(rest, MAX_RATIO * low, lo=begin) for begin, low in enumerate(rest)]
        begin = max(range(len(rest)), key=lambda index: ends[index] - index)
        end = ends[begin]
        if end - begin < MIN_SHARE * len(latencies):
            break
        places.append((rest[begin], rest[end - 1]))
        del rest[begin:end]
    return places
