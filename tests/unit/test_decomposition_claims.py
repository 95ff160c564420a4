"""S3.5 on the described machines: do plans pick the study's winners on 256 x 256 x 256?

The study gives times of a whole application; a plan gives those of its exchanges. Since sweeping takes time under any
split, an application's ratio lies between 1 and that of the exchanges: that, and who wins, is what can be asserted.
`bench/decomposition_claims.py` puts the numbers side by side.

Read from its section 5: C order with x slowest, so that a z face is single elements apart; the edges are not periodic;
a cell's two doubles are two arrays. The latter is what "5 times larger" for the z split says: doubles side by side
would share a line.
"""

from __future__ import annotations

import pytest

from nearfield._native import Plan
from nearfield.machine import load_machine
from nearfield.plan import costs_of_machine, find_plans

GRID, RANKS = (256, 256, 256), 32
MODES = [
    ("t3e-900", "buffered"),
    ("t3e-900", "synchronous"),
    ("origin-2000", "two-threads"),
    ("origin-2000", "one-thread"),
]
# Gains of the application: z split over x split; 1-D and 3-D over the best 2-D split.
Z_OVER_X = {("t3e-900", "buffered"): 2.0, ("t3e-900", "synchronous"): 1.6, ("origin-2000", "two-threads"): 1.3}
OVER_2D = {("t3e-900", "buffered"): (1.15, 1.05), ("origin-2000", "two-threads"): (1.22, 1.08)}


def all_splits(machine: str, mode: str, ranks: int = RANKS) -> list[Plan]:
    described = load_machine(machine)
    per_node = int(described.communication.ranks_per_node.value)
    return find_plans(GRID, ranks, costs_of_machine(described, mode), ranks_per_node=per_node)


def time_of(listed: list[Plan], *dims: int) -> float:
    return next(p.time_ns for p in listed if tuple(p.dims) == dims)


def best(listed: list[Plan], dimensions: int) -> float:
    """Returns the best of the splits that cut that many dimensions."""
    return min(p.time_ns for p in listed if sum(n > 1 for n in p.dims) == dimensions)


@pytest.mark.parametrize(("machine", "mode"), MODES)
@pytest.mark.parametrize("ranks", [16, 32])
def test_x_beats_z(machine: str, mode: str, ranks: int) -> None:
    """Is the split along x faster than that along z, by at least what the application gained?"""
    listed = all_splits(machine, mode, ranks)
    x, y, z = (time_of(listed, *dims) for dims in ((ranks, 1, 1), (1, ranks, 1), (1, 1, ranks)))
    assert z / x > Z_OVER_X.get((machine, mode), 1.3)
    assert y / x < 1.05  # "the x and y-direction partitioning were found to be more efficient"


def test_z_starts_five_times_as_long_when_buffered() -> None:
    """Does the one time of communication in section 5 hold: "the time spent in the initiation of message sending is 5
    times larger in the Z-partitioning"."""
    listed = all_splits("t3e-900", "buffered")
    assert time_of(listed, 1, 1, RANKS) / time_of(listed, RANKS, 1, 1) == pytest.approx(5, rel=0.05)


@pytest.mark.parametrize(("machine", "mode"), MODES)
def test_the_best_split_is_two_dimensional(machine: str, mode: str) -> None:
    """With 32 ranks, does a split of x and y win, and by enough to allow what the application gained?"""
    listed = all_splits(machine, mode)
    assert listed[0].dims in ([8, 4, 1], [4, 8, 1])
    one, three = (best(listed, n) / best(listed, 2) for n in (1, 3))
    paper_one, paper_three = OVER_2D.get((machine, mode), (1.0, 1.0))
    assert one > paper_one and three > paper_three


@pytest.mark.parametrize("factor", [5, 8, 16])
def test_the_weakest_number_does_not_decide(factor: float) -> None:
    """The Origin's contiguous bandwidth is inferred (machines/origin-2000.toml). Is the winner the same for all ratios
    to that of strides that a line of 16 doubles allows, 5 to 16?"""
    machine = load_machine("origin-2000")
    costs = costs_of_machine(machine)
    link = costs.network
    strided = link.strided[128]
    link.ns_per_byte = strided / factor
    link.strided = {8: strided / factor, 128: strided}
    costs.network = costs.same_node = link
    assert find_plans(GRID, RANKS, costs, ranks_per_node=2)[0].dims in ([8, 4, 1], [4, 8, 1])
