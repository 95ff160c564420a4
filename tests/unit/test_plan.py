"""Plans: are splits, placements and their times right? Against an oracle that walks over every cell, by hand, and by
laws."""

from __future__ import annotations

import random
from typing import Any

import pytest
from plan_oracle import slowest_ns

from nearfield._native import Costs, Link, PlanRequest, default_costs, plans
from nearfield.base.errors import UsageError
from nearfield.plan import find_plans


def link(latency_ns: float = 0.0, ns_per_byte: float = 1.0, **more: Any) -> Link:
    made = Link()
    made.latency_ns, made.ns_per_byte = latency_ns, ns_per_byte
    for name, value in more.items():
        setattr(made, name, value)
    return made


def costs(everywhere: Link | None = None, **more: Any) -> Costs:
    made = Costs()
    made.same_node = made.network = everywhere or link()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def request(extents: tuple[int, ...], ranks: int, **more: Any) -> PlanRequest:
    """One cell of halo wherever the grid has more than one."""
    made = PlanRequest()
    made.extents, made.ranks = extents, ranks
    made.halo = [[int(n > 1)] * 2 for n in extents]
    made.costs = costs()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def random_link(rng: random.Random) -> Link:
    strided = {8: 1.0, **{rng.choice((16, 32, 64, 200)): rng.uniform(1, 9) for _ in range(rng.randint(0, 3))}}
    banked = {rng.choice((8, 16, 24)): rng.uniform(1, 9)} if rng.random() < 0.3 else {}
    load = {"load_factor": rng.uniform(1, 4), "load_from_bytes": rng.choice((0, 100, 300))}
    return link(rng.uniform(0, 200), 1.0, strided=strided, banked=banked, **load)


def random_request(rng: random.Random) -> PlanRequest:
    made = request(tuple(rng.randint(6, 10) for _ in range(3)), rng.choice((2, 4, 6, 8, 12)))
    made.halo = [[rng.randint(0, 2), rng.randint(0, 2)] for _ in range(3)]
    made.periodic = [[rng.random() < 0.5] * 2 for _ in range(3)]
    made.corners = rng.random() < 0.5
    made.ranks_per_node = rng.choice((1, 2, 3, 4, 12))
    made.element_bytes = rng.choice((4, 8, 16))
    made.costs = costs(network=random_link(rng), same_node=random_link(rng))
    if rng.random() < 0.5:
        made.costs.in_place = random_link(rng)
    return made


@pytest.mark.parametrize("seed", range(25))
def test_times_are_those_of_a_walk_over_every_cell(seed: int) -> None:
    """Halos of any width, periodic or not, corners, placements, any costs: does every plan's time agree with the
    oracle's?"""
    problem = random_request(random.Random(seed))
    for plan in plans(problem):
        assert plan.time_ns == pytest.approx(slowest_ns(problem, plan)), (plan.dims, plan.node_dims)
        parts = plan.parts
        assert plan.time_ns == pytest.approx(parts.latency_ns + parts.bytes_ns + parts.strided_ns)


def test_a_split_by_hand() -> None:
    """12 x 10 cells on 3 x 2 ranks: is the middle rank's exchange two faces of 5 cells and one of 4?"""
    problem = request(
        (1, 12, 10), 6, dimensions=2, fixed_dims=(1, 3, 2), costs=costs(link(100, 1, strided={8: 1, 96: 3}))
    )
    [plan] = plans(problem)
    _, across, along = plan.faces
    assert (plan.box, plan.messages) == ([1, 4, 5], 3)
    assert (across.messages, across.message.bytes, across.message.runs) == (2, 40, 1)
    assert (along.messages, along.message.bytes, along.message.runs) == (1, 32, 4)
    assert (along.message.run_bytes, along.message.stride_bytes) == (8, 7 * 8)
    strided_ns = 1 + 2 * (56 - 8) / (96 - 8)  # ns per byte at a stride of 56 bytes
    assert plan.time_ns == pytest.approx(3 * 100 + 112 + 4 * 8 * (strided_ns - 1))


@pytest.mark.parametrize(("ranks", "per_node"), [(1, 1), (24, 1), (24, 6), (24, 24), (24, 5), (64, 8)])
def test_every_split_and_every_placement_is_there_once(ranks: int, per_node: int) -> None:
    """Do the plans list all factorisations, and all node boxes that divide them?"""
    n = range(1, ranks + 1)
    splits = {(a, b, ranks // a // b) for a in n for b in n if ranks % (a * b) == 0}
    expected = set()
    for split in splits:
        if ranks % per_node:
            expected.add((split, (1, 1, 1)))
            continue
        boxes = {(a, b, per_node // a // b) for a in n for b in n if per_node % (a * b) == 0}
        expected |= {(split, box) for box in boxes if all(s % b == 0 for s, b in zip(split, box, strict=True))}
    listed = [(tuple(p.dims), tuple(p.node_dims)) for p in plans(request((99, 99, 99), ranks, ranks_per_node=per_node))]
    assert len(listed) == len(set(listed)) and set(listed) == expected


def test_best_first_and_always_the_same() -> None:
    """Are plans sorted, equal ones in one order, and of equals the one that splits slow dimensions?"""
    problem = request((64, 64, 64), 8, ranks_per_node=2)
    first, again = plans(problem), plans(problem)
    times = [p.time_ns for p in first]
    assert times == sorted(times) and [p.dims for p in first] == [p.dims for p in again]
    assert plans(request((64, 64, 64), 2))[0].dims == [2, 1, 1]


def test_neighbours_on_the_same_node_are_worth_it() -> None:
    """With a slow network, does the best placement leave a rank with one neighbour on another node, not two?"""
    made = costs(network=link(1000, 10), in_place=link(10, 0.1))
    problem = request((1, 64, 64), 64, dimensions=2, fixed_dims=(1, 8, 8), ranks_per_node=16, costs=made)
    listed = plans(problem)
    assert [p.network_messages for p in listed] == [1, 1, 2]
    assert listed[0].node_dims in ([1, 2, 8], [1, 8, 2]) and listed[-1].node_dims == [1, 4, 4]


def test_strides_decide_between_surface_and_contiguity() -> None:
    """Is a cube split in three dimensions when strides cost nothing, and not across its rows when they cost much?"""
    free = plans(request((256, 256, 256), 64))[0]
    dear = plans(request((256, 256, 256), 64, costs=costs(link(0, 1, strided={8: 1, 64: 20}))))[0]
    assert free.dims == [4, 4, 4]
    assert dear.dims == [8, 8, 1]


def test_latency_makes_messages_few() -> None:
    """Is a split with two neighbours best when bytes cost next to nothing?"""
    best = plans(request((256, 256, 256), 32, costs=costs(link(1e9, 1e-9))))[0]
    assert best.dims in ([32, 1, 1], [1, 32, 1], [1, 1, 32])


def test_short_rows_cost_a_sweep() -> None:
    """Is the sweep's time that of the row length, part of what is compared, and not of the exchange?"""
    made = costs(link(0, 1e-6), sweep_ns_per_cell={8: 5.0, 256: 1.0})
    listed = plans(request((256, 256, 256), 32, costs=made))
    by_dims = {tuple(p.dims): p for p in listed}
    assert by_dims[1, 1, 32].sweep_ns == pytest.approx(5 * 256**3 / 32)
    assert by_dims[32, 1, 1].sweep_ns == pytest.approx(256**3 / 32)
    assert listed[0].dims[2] == 1 and listed[-1].dims == [1, 1, 32]


def test_a_lone_rank_that_is_the_only_neighbour() -> None:
    """Does one rank exchange nothing, even in a periodic grid?"""
    [plan] = plans(request((8, 8, 8), 1, periodic=[[True, True]] * 3))
    assert (plan.dims, plan.time_ns, plan.messages) == ([1, 1, 1], 0, 0)


def test_boxes_hold_what_their_neighbours_read() -> None:
    """Is a split left out where a rank would have fewer cells than the halo is wide?"""
    problem = request((4, 100, 100), 4, halo=[[2, 2], [2, 2], [2, 2]])
    assert {p.dims[0] for p in plans(problem)} == {1, 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ranks": 0}, "at least one rank"),
        ({"extents": (8, 8, 0)}, "extent"),
        ({"halo": [[-1, 0]] * 3}, "negative"),
        ({"dimensions": 2}, "unused dimension"),
        ({"dimensions": 4}, "1, 2 or 3"),
        ({"fixed_dims": (3, 0, 0)}, "no split of 4 ranks"),
        ({"halo": [[9, 9]] * 3}, "no split of 4 ranks"),
        ({"element_bytes": 0}, "one byte"),
    ],
)
def test_a_request_that_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    """Does it say what is wrong?"""
    problem = request((8, 8, 8), 4)
    for name, value in change.items():
        setattr(problem, name, value)
    with pytest.raises(ValueError, match=words):
        plans(problem)


@pytest.mark.parametrize("name", ["halo", "periodic"])
@pytest.mark.parametrize("wrong", [[1], [1, 1, 1], [(1, 1), (1, 1, 1)], [(1,), 1]], ids=str)
def test_sides_that_do_not_fit_the_dimensions_are_an_error(name: str, wrong: list[Any]) -> None:
    """Too few or too many dimensions, or sides of one: is the argument named?"""
    with pytest.raises(UsageError, match=name):
        find_plans((8, 8), 4, costs(), **{name: wrong})


def test_each_side_may_be_given() -> None:
    """Two ranks, two cells read on the low side and one on the high: is the edge of one side, of one dimension,
    periodic alone?"""

    def read(periodic: Any) -> tuple[int, float]:
        [plan] = find_plans((8, 8), 2, costs(), dims=(2, 1), halo=[(2, 1), 0], periodic=periodic)
        return plan.messages, plan.time_ns

    row = 8 * 8
    assert read(False) == read([False, True]) == (1, pytest.approx(2 * row))
    assert read(True) == read([(True, False), False]) == read([(False, True), 0]) == (2, pytest.approx(3 * row))


def test_the_defaults_are_whole_and_ordered() -> None:
    """Is in place cheaper than a message, a message in a node cheaper to begin than one between nodes, and no stride
    cheaper than none?"""
    made = default_costs()
    assert made.in_place is not None
    assert made.in_place.latency_ns < made.same_node.latency_ns < made.network.latency_ns
    assert made.in_place.ns_per_byte < made.same_node.ns_per_byte
    for one in (made.in_place, made.same_node, made.network):
        assert min(one.strided.values()) == pytest.approx(one.ns_per_byte)
        assert list(one.strided.values()) == sorted(one.strided.values())
