"""Costs from a profile: are they its records', and is what it lacks said?"""

from __future__ import annotations

from pathlib import Path

import pytest
from report_profiles import KIB, MIB, Row, floor, message, profile, row

from nearfield._native import default_costs
from nearfield.machine import load_machine
from nearfield.plan import default_model, described_model, find_plans, measured_model
from nearfield.plan.from_profile import costs_from_records
from nearfield.profile import from_rows, load

DATA = Path(__file__).parents[1] / "data"
FAR = {"distance": "network-1", "pair": "a:0-b:0"}
SIZE = 256 * KIB

LINE_BYTES = 64


def strided(stride: int, time: float, method: str = "datatype", **more: object) -> Row:
    place = {"distance": "shared-l3", "pair": "0-1", **more}
    fixed = {"stride": stride, "method": method, "mode": "standard", "size_bytes": SIZE}
    return row("stride", "half_round_trip", time, **{**fixed, **place})


def whole() -> list[Row]:
    """Everything that costs are made of: 200 ns and 0.1 ns a byte near, 1000 ns and 1 ns a byte far."""
    near = [message(8, 200, "modified"), message(SIZE, 200 + SIZE / 10, "modified"), message(8, 100)]
    far = [message(8, 1000, "modified", **FAR), message(SIZE, 1000 + SIZE, "modified", **FAR)]
    strides = [strided(1, SIZE / 10, "contiguous"), strided(4, SIZE * 0.3), strided(4, SIZE * 0.2, "manual-pack")]
    cores = [floor("flag", 8, 50), floor("read-remote", SIZE, SIZE / 50), floor("copy-remote", SIZE, SIZE / 40)]
    return near + far + strides + cores


def test_every_cost_equals_a_record() -> None:
    """By hand: are latency, bytes and strides of 256 KiB, two flags and a read in place those of the records?"""
    costs, notes = costs_from_records(from_rows(whole()), LINE_BYTES)
    near, far, place = costs.same_node, costs.network, costs.in_place
    assert (near.latency_ns, near.ns_per_byte) == pytest.approx((200, 0.1))
    assert near.strided == pytest.approx({8: 0.1, 32: 0.1 + 0.1})  # packed by hand: faster than the datatype
    assert (far.latency_ns, far.ns_per_byte) == pytest.approx((1000, 1))
    assert place is not None and (place.latency_ns, place.ns_per_byte) == pytest.approx((100, 1 / 50))
    assert place.strided == pytest.approx({8: 1 / 50, 64: 8 / 50})
    assert costs.copy_ns_per_byte == pytest.approx(1 / 40)
    assert notes == ["It has no stable strides at distance network-1: their added time is nearfield's default."]


def test_what_is_unstable_or_refuted_decides_nothing() -> None:
    """Is it as if the record were not there?"""
    rows = [{**r, "stable": False} if r["scenario"] == "floor" else r for r in whole()]
    rows = [{**r, "verdict": "refuted"} if r["distance"] == "network-1" else r for r in rows]
    costs, notes = costs_from_records(from_rows(rows), LINE_BYTES)
    default_place = default_costs().in_place
    assert costs.in_place is not None and default_place is not None
    assert costs.in_place.latency_ns == default_place.latency_ns
    assert costs.network.ns_per_byte == default_costs().network.ns_per_byte
    assert any("no stable flag and no stable reading" in note for note in notes)
    assert any("no messages between nodes" in note for note in notes)


def test_the_farthest_node_counts() -> None:
    """Does it count by its hops, of which ten are more than nine?"""
    rows = whole()
    for hops in (10, 9):
        there = {"distance": f"network-{hops}", "pair": f"a:0-b{hops}:0"}
        rows += [message(8, 300 * hops, "modified", **there), message(SIZE, SIZE, "modified", **there)]
    assert costs_from_records(from_rows(rows), LINE_BYTES)[0].network.latency_ns == 3000


def test_the_farthest_pair_of_a_node_counts() -> None:
    """Two packages: is the slower of the two distances taken, as the slowest neighbour decides?"""
    farthest = {"distance": "same-node", "pair": "0-9"}
    rows = [*whole(), message(8, 500, "modified", **farthest), message(SIZE, SIZE, "modified", **farthest)]
    assert costs_from_records(from_rows(rows), LINE_BYTES)[0].same_node.latency_ns == 500


def test_load_slows_long_messages() -> None:
    """A background all-to-all that costs 1 MiB messages 3x and short ones nothing: from which size does it count?"""

    def loaded(size: int, load: int, time: float) -> Row:
        return row("load", "half_round_trip", time, size_bytes=size, load_bytes=load)

    rows = [loaded(8, 0, 100), loaded(8, MIB, 100), loaded(MIB, 0, 1000), loaded(MIB, MIB, 3000)]
    link = costs_from_records(from_rows([*whole(), *rows]), LINE_BYTES)[0].same_node
    assert (link.load_factor, link.load_from_bytes) == (3, MIB)


def test_a_profile_without_anything_is_the_default_and_says_so() -> None:
    """Are all costs the default's, with a note for what is inside a node and one for what is between?"""
    known = measured_model(profile([floor("flag", 8, 50)]))
    assert known.costs.same_node.latency_ns == default_costs().same_node.latency_ns
    assert len(known.notes) == 2


@pytest.mark.parametrize("name", ["epyc-vm-quiet", "epyc-vm-busy"])
def test_recorded_profiles_give_plans(name: str) -> None:
    """On recorded profiles, one of a restless machine: is there a plan with a finite time?"""
    known = measured_model(load(DATA / name))
    best = find_plans((128, 128, 128), 8, known.costs, ranks_per_node=4)[0]
    assert 0 < best.time_ns < 1e9 and name in known.origin


def test_origins_are_distinguished() -> None:
    """Does each say where it is from?"""
    assert "default" in default_model().origin and default_model().notes
    assert "t3e-900, buffered" in described_model(load_machine("t3e-900")).origin
    assert any("Latency counts as 0" in note for note in described_model(load_machine("t3e-900")).notes)
