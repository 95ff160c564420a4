"""Is what a setting gains computed right from pairs of times?"""

import math

import pytest

from nearfield.tune.gains import (
    Gain,
    Pair,
    alike,
    broken,
    by_flag,
    flag_of,
    gain,
    gaining,
    geometric_mean,
    ranges,
    score,
    usual,
)


def sure(value: float) -> Gain:
    return Gain(value, value * 0.99, value * 1.01, 10)


def test_a_gain_is_stock_over_tuned() -> None:
    """Is twice as fast 2, with an interval that holds all but the outermost ratios?"""
    found = gain([Pair(200.0, 100.0), Pair(210.0, 100.0), Pair(190.0, 100.0)] * 4)
    assert found.value == pytest.approx(2.0)
    assert 1.9 <= found.low <= found.value <= found.high <= 2.1
    assert found.n == 12


def test_a_machine_that_changes_speed_changes_no_gain() -> None:
    """Do pairs cancel what slows both?"""
    found = gain([Pair(200.0 * speed, 100.0 * speed) for speed in (1, 3, 1, 2, 5, 1, 2)])
    assert (found.low, found.value, found.high) == pytest.approx((2, 2, 2))


def test_pairs_count_where_the_cores_mostly_were() -> None:
    """Are pairs that were taken with the cores elsewhere left out, though in one case they are the more?"""
    near, far = [Pair(200.0, 100.0, 50.0)] * 5, [Pair(300.0, 600.0, 230.0)] * 3
    pairs = {("pingpong", 8): near + far, ("pingpong", 64): near[:2] + far, ("stream", 8): far}
    assert usual(pairs) == dict.fromkeys(pairs, far)
    del pairs["stream", 8]
    assert usual(pairs) == {("pingpong", 8): near, ("pingpong", 64): near[:2]} and flag_of(pairs) == 50.0
    assert usual({}) == {}


def test_flags_alike_are_one_place() -> None:
    """Are 45 and 70 ns the same place, 19, 50 and 230 three, and is a flag nobody measured none of its own?"""
    pairs = [Pair(1.0, 1.0, flag) for flag in (230.0, 50.0, 19.0, 45.0, 250.0, 70.0)]
    assert [[pair.flag for pair in group] for group in by_flag(pairs)] == [[19.0], [45.0, 50.0, 70.0], [230.0, 250.0]]
    assert len(by_flag([Pair(1.0, 1.0)] * 3)) == 1
    assert alike(45.0, 70.0) and not alike(50.0, 19.0) and alike(0.0, 0.0)


def test_slower_needs_both_amount_and_certainty() -> None:
    assert Gain(0.9, 0.8, 0.95, 10).slower
    assert not Gain(0.9, 0.8, 1.02, 10).slower, "may be chance"
    assert not Gain(0.98, 0.975, 0.99, 10).slower, "too little to count"
    assert Gain(0.75, 0.7, 0.8, 10).below(0.8) and not Gain(0.85, 0.8, 0.9, 10).below(0.8)


def test_a_pattern_may_lose_what_the_others_make_up_for() -> None:
    """Is the promise broken by a ping-pong that is slower, by all patterns together, and by one that loses much; and
    not by a stream that loses little?"""

    def at(**values: float) -> list[tuple[str, int]]:
        return broken({(pattern, 64): sure(value) for pattern, value in values.items()} | {("stream", 8): sure(1.0)})

    assert at(pingpong=1.6, stream=0.92, exchange=1.4) == []
    assert at(pingpong=0.95, stream=1.5, exchange=1.5) == [("pingpong", 64)]
    assert at(pingpong=1.0, stream=0.92, exchange=0.94) == [("stream", 64), ("exchange", 64)]
    assert at(pingpong=1.6, stream=0.8, exchange=1.4) == [("stream", 64)]
    allowed = {("pingpong", 64): sure(0.85), ("stream", 64): sure(0.85), ("pingpong", 8): sure(0.75)}
    assert broken(allowed, 0.8) == [("pingpong", 8)]


def test_faster_needs_more_than_luck() -> None:
    """Is faster what lies above 1 by twice the interval, since it is the best of many?"""
    assert Gain(1.03, 1.02, 1.04, 10).faster
    assert not Gain(1.03, 1.01, 1.05, 10).faster
    assert not Gain(1.0, 0.999, 1.001, 10).faster
    assert not Gain(0.9, 0.89, 0.91, 10).faster


def test_the_mean_of_single_pairs_has_an_interval() -> None:
    """Does it come from how they differ, as one pair has none?"""
    mean = geometric_mean(Gain(value, value, value, 1) for value in (0.9, 1.0, 1.1, 1.2))
    assert mean.low < 1 < mean.value < mean.high and not mean.faster


def test_the_mean_is_geometric() -> None:
    """Does half and twice as fast make none, with an interval narrower than any of its parts'?"""
    mean = geometric_mean([sure(2.0), sure(0.5)])
    assert mean.value == pytest.approx(1.0)
    assert mean.high / mean.low < 1.01 / 0.99
    with pytest.raises(ValueError, match="no gains"):
        geometric_mean([])


def test_a_loss_outweighs_the_gain_that_pays_for_it() -> None:
    """Does a setting that doubles one size and halves another score below one that changes nothing?"""
    cases = [("pingpong", 8), ("pingpong", 4096)]
    assert score(dict(zip(cases, [sure(1.0), sure(1.0)], strict=True))) == 0
    assert score(dict(zip(cases, [sure(2.0), sure(0.5)], strict=True))) < 0
    assert score(dict(zip(cases, [sure(2.0), sure(0.98)], strict=True))) == pytest.approx(math.log(2 * 0.98) / 2)


def test_what_will_be_refused_scores_below_what_will_not() -> None:
    """Does a setting that doubles most sizes and surely loses a quarter at two score below a modest one?"""
    cases = [("pingpong", 1 << power) for power in range(10)]
    bold = dict(zip(cases, map(sure, [2.0] * 3 + [1.0] * 5 + [0.75] * 2), strict=True))
    modest = dict(zip(cases, map(sure, [1.2] + [1.0] * 9), strict=True))
    assert score(bold) < 0 < score(modest)


def test_ranges_cover_every_size_once() -> None:
    """Is each size in one range, whatever the limits?"""
    gains = {(pattern, 1 << power): sure(1.0 + power) for power in range(12) for pattern in ("pingpong", "stream")}
    found = ranges(gains, [4, 64, 1 << 20])
    assert [(r.from_bytes, r.to_bytes) for r in found] == [(1, 4), (8, 64), (128, 2048)]
    assert sum(r.gain.n for r in found) == sum(g.n for g in gains.values())


def test_what_gains_is_told_by_its_sizes() -> None:
    """Of two runs of sizes that gain, is it the one that gains most in all, and only where all patterns together do?"""
    gains = {("pingpong", 1 << power): sure(1.0) for power in range(12)}
    gains |= {("pingpong", 4): sure(1.5), ("pingpong", 64): sure(1.3), ("pingpong", 128): sure(1.4)}
    found = gaining(gains, 1.05)
    assert found and (found.from_bytes, found.to_bytes) == (64, 128)
    assert found.gain.value == pytest.approx(math.sqrt(1.3 * 1.4))
    assert gaining({**gains, ("stream", 64): sure(0.7)}, 1.05).from_bytes == 4
    assert gaining({("stream", 8): sure(1.04)}, 1.05) is None
