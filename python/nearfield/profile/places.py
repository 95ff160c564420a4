"""Compares the places of the cores in two profiles. The CPUs of a virtual machine migrate between host cores, which
changes core-to-core latencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nearfield.base.places import MAX_LATENCY_RATIO

if TYPE_CHECKING:
    from nearfield.profile.schema import Run


class MovedPair(NamedTuple):
    """A pair of cores whose core-to-core latency (ns) differed between the measurements of profiles A and B."""

    pair: str
    a_latency_ns: float
    b_latency_ns: float

    def __str__(self) -> str:
        return f"the cores {self.pair} were {self.a_latency_ns:.0f} ns apart in A, and {self.b_latency_ns:.0f} ns in B"


def find_moved_pairs(a: Run, b: Run) -> list[MovedPair]:
    """Returns the pairs whose core-to-core latencies in the two profiles differ by more than MAX_LATENCY_RATIO."""
    in_a, in_b = ({place.pair or "": place.c2c_latency_ns for place in run.place if place.used} for run in (a, b))
    both = [MovedPair(pair, in_a[pair], in_b[pair]) for pair in in_a if pair in in_b]
    return [
        one
        for one in both
        if max(one.a_latency_ns, one.b_latency_ns) > MAX_LATENCY_RATIO * min(one.a_latency_ns, one.b_latency_ns)
    ]
