"""Is what a setting gains computed right from pairs of times?"""

import math

import pytest

from nearfield.base.paired import Gain
from nearfield.rules.gains import (
    TimePair,
    dominant_latency_ns,
    gain_by_range,
    geometric_mean,
    group_by_latency_class,
    is_same_distance,
    joint_gain,
    latency_class_of,
    median_gain,
    pairs_in_dominant_placement,
    select_gaining_range,
)


def sure(value: float) -> Gain:
    return Gain(value, value * 0.99, value * 1.01, 10)


def test_a_gain_is_stock_over_tuned() -> None:
    """Is twice as fast 2, with an interval that holds all but the outermost ratios?"""
    found = median_gain([TimePair(200.0, 100.0), TimePair(210.0, 100.0), TimePair(190.0, 100.0)] * 4)
    assert found.value == pytest.approx(2.0)
    assert 1.9 <= found.low <= found.value <= found.high <= 2.1
    assert found.n == 12


def test_a_machine_that_changes_speed_changes_no_gain() -> None:
    """Do pairs cancel what slows both?"""
    found = median_gain([TimePair(200.0 * speed, 100.0 * speed) for speed in (1, 3, 1, 2, 5, 1, 2)])
    assert (found.low, found.value, found.high) == pytest.approx((2, 2, 2))


def test_pairs_count_where_the_cores_mostly_were() -> None:
    """Are pairs that were taken with the cores elsewhere left out, though in one case they are the more?"""
    near, far = [TimePair(200.0, 100.0, 50.0)] * 5, [TimePair(300.0, 600.0, 230.0)] * 3
    pairs = {("pingpong", 8): near + far, ("pingpong", 64): near[:2] + far, ("stream", 8): far}
    assert pairs_in_dominant_placement(pairs) == dict.fromkeys(pairs, far)
    del pairs["stream", 8]
    assert (
        pairs_in_dominant_placement(pairs) == {("pingpong", 8): near, ("pingpong", 64): near[:2]}
        and dominant_latency_ns(pairs) == 50.0
    )
    assert pairs_in_dominant_placement({}) == {}


def launched(*ratios: list[float]) -> list[TimePair]:
    """Pairs with these gains, a list per launch."""
    return [TimePair(100.0 * ratio, 100.0, 50.0, launch) for launch, taken in enumerate(ratios) for ratio in taken]


def test_from_three_on_launches_vary_and_not_their_pairs() -> None:
    """Is the gain then the median of the launches' medians, its interval theirs, however many pairs each has?"""
    found = median_gain(launched([0.8] * 20, [1.0, 1.0, 1.9], [1.1, 1.2]))
    assert (found.value, found.low, found.high, found.n) == pytest.approx((1.0, 0.8, 1.15, 3))


def test_a_launch_or_two_are_not_enough_to_be_what_varies() -> None:
    """Are the pairs of two launches taken together, and is it no matter which numbers launches have?"""
    found = median_gain(launched([0.9] * 3, [1.1] * 4))
    assert (found.value, found.low, found.high, found.n) == pytest.approx((1.1, 0.9, 1.1, 7))
    assert median_gain([TimePair(2.0, 1.0, 50.0, launch) for launch in (7, 9, 7, 30)]).n == 3


def test_a_loss_in_one_launch_of_three_is_none() -> None:
    """Is slower what every launch is slower in, since launches of the same settings differ by up to a tenth?"""
    assert not median_gain(launched([0.85] * 2, [1.0] * 2, [1.01] * 2)).is_below(0.97)
    assert median_gain(launched([0.85] * 2, [0.96] * 2, [0.9] * 2)).is_below(0.97)


def test_places_have_fixed_borders() -> None:
    """Are 50 and 70 ns the same place, 19, 50 and 230 three, and is a flag nobody measured none of its own?"""
    pairs = [TimePair(1.0, 1.0, flag) for flag in (230.0, 50.0, 19.0, 45.0, 250.0, 70.0)]
    assert [[pair.c2c_latency_ns for pair in group] for group in group_by_latency_class(pairs)] == [
        [19.0],
        [50.0, 45.0, 70.0],
        [230.0, 250.0],
    ]
    assert len(group_by_latency_class([TimePair(1.0, 1.0)] * 3)) == 1 and group_by_latency_class([]) == []
    assert [latency_class_of(flag) for flag in (0.0, 34.9, 35.0, 139.9, 140.0)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("drift", [1, -1], ids=["away", "nearer"])
def test_a_drift_is_not_one_place(drift: int) -> None:
    """Cores that move in small steps, each less than a factor of two: are the ends of the way nevertheless
    distinguished, and are only the pairs of one place taken for what is usual?"""
    pairs = [TimePair(1.0, 1.0, flag) for flag in (20.0, 35.0, 60.0, 105.0, 180.0, 250.0)[::drift]]
    assert [{pair.c2c_latency_ns for pair in group} for group in group_by_latency_class(pairs)] == [
        {20.0},
        {35.0, 60.0, 105.0},
        {180.0, 250.0},
    ]
    dominant = pairs_in_dominant_placement({("pingpong", 8): pairs})["pingpong", 8]
    assert {pair.c2c_latency_ns for pair in dominant} == {35.0, 60.0, 105.0}
    assert dominant_latency_ns({("pingpong", 8): pairs}) == 60.0


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [(45.0, 70.0, True), (19.0, 50.0, False), (50.0, 230.0, False), (34.0, 36.0, True), (130.0, 150.0, True),
     (110.0, 145.0, False), (0.0, 0.0, True), (0.0, 50.0, False)],
)  # fmt: skip
def test_flags_of_one_place_are_alike(near: float, far: float, expected: bool) -> None:
    """Are near flags alike even on both sides of a border, whichever of the two comes first?"""
    assert is_same_distance(near, far) is is_same_distance(far, near) is expected


def test_below_needs_both_amount_and_certainty() -> None:
    assert Gain(0.9, 0.8, 0.95, 10).is_below(0.97)
    assert not Gain(0.9, 0.8, 1.02, 10).is_below(0.97), "may be chance"
    assert not Gain(0.98, 0.975, 0.99, 10).is_below(0.97), "too little to count"
    assert Gain(0.75, 0.7, 0.8, 10).is_below(0.8) and not Gain(0.85, 0.8, 0.9, 10).is_below(0.8)


def test_faster_needs_more_than_luck() -> None:
    """Is faster what lies above 1 by twice the interval, since it is the best of many?"""
    assert Gain(1.03, 1.02, 1.04, 10).is_faster
    assert not Gain(1.03, 1.01, 1.05, 10).is_faster
    assert not Gain(1.0, 0.999, 1.001, 10).is_faster
    assert not Gain(0.9, 0.89, 0.91, 10).is_faster


def test_the_mean_of_single_pairs_has_an_interval() -> None:
    """Does it come from how they differ, as one pair has none?"""
    mean = geometric_mean(Gain(value, value, value, 1) for value in (0.9, 1.0, 1.1, 1.2))
    assert mean.low < 1 < mean.value < mean.high and not mean.is_faster


def test_the_mean_is_geometric() -> None:
    """Does half and twice as fast make none, with an interval narrower than any of its parts'?"""
    mean = geometric_mean([sure(2.0), sure(0.5)])
    assert mean.value == pytest.approx(1.0)
    assert mean.high / mean.low < 1.01 / 0.99
    with pytest.raises(ValueError, match="no gains"):
        geometric_mean([])


def test_cases_of_the_same_launches_are_not_independent() -> None:
    """Is the interval of several cases together as wide as one's if launches slow them alike, and narrow if each launch
    slows one and speeds another?"""

    def case(*ratios: float) -> list[TimePair]:
        return [TimePair(ratio, 1.0, launch_number=launch) for launch, ratio in enumerate(ratios)]

    up, down = case(0.9, 0.95, 1.0, 1.05, 1.1), case(1.1, 1.05, 1.0, 0.95, 0.9)
    alike = joint_gain([up, up, up, up])
    assert (alike.low, alike.value, alike.high) == pytest.approx((0.9, 1.0, 1.1))
    opposite = joint_gain([up, down])
    assert opposite.value == pytest.approx(1.0, abs=0.003) and opposite.high < 1.01
    assert joint_gain([up, case(2.0, 2.0)[1:]]).value == pytest.approx(math.sqrt(2), abs=0.02), "not in every launch"


def test_ranges_cover_every_size_once() -> None:
    """Is each size in one range, whatever the limits?"""
    gains = {(pattern, 1 << power): sure(1.0 + power) for power in range(12) for pattern in ("pingpong", "stream")}
    found = gain_by_range(gains, [4, 64, 1 << 20], lambda cases: geometric_mean(gains[case] for case in cases))
    assert [(r.from_bytes, r.to_bytes) for r in found] == [(1, 4), (8, 64), (128, 2048)]
    assert sum(r.gain.n for r in found) == sum(g.n for g in gains.values())


def test_what_gains_is_reported_by_size() -> None:
    """Is the run of sizes chosen that gains most in all, and only if all patterns together gain there?"""
    gains = {("pingpong", 1 << power): sure(1.0) for power in range(12)}
    gains |= {("pingpong", 4): sure(1.5), ("pingpong", 64): sure(1.3), ("pingpong", 128): sure(1.4)}
    found = select_gaining_range(gains, 1.05)
    assert found and (found.from_bytes, found.to_bytes) == (64, 128)
    assert found.gain.value == pytest.approx(math.sqrt(1.3 * 1.4))
    assert select_gaining_range({**gains, ("stream", 64): sure(0.7)}, 1.05).from_bytes == 4
    assert select_gaining_range({("stream", 8): sure(1.04)}, 1.05) is None
    assert select_gaining_range({("stream", 8): Gain(1.5, 0.9, 2.4, 6)}, 1.05) is None, "it is not significant"
    long_but_small = {("pingpong", 1 << power): sure(1.1) for power in range(10, 13)}
    assert select_gaining_range({**gains, ("pingpong", 4): sure(3.0), **long_but_small}, 1.05).from_bytes == 4


def test_the_best_of_many_must_be_surer() -> None:
    """Is a gain that is sure by itself not sure as the best of twenty, and is one that stays sure far from 1?"""
    one = Gain(1.1, 1.06, 1.14, 6)
    assert one.is_faster and one.widen_for_selection(1) == pytest.approx(one)
    assert not one.widen_for_selection(20).is_faster and one.widen_for_selection(20).value == one.value
    assert (
        one.widen_for_selection(20).low < one.widen_for_selection(2).low < one.low
        and one.widen_for_selection(20).high > one.high
    )
    assert Gain(2.0, 1.9, 2.1, 6).widen_for_selection(100).is_faster
