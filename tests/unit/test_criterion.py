"""Does the judgement of `tune` refuse what it should, and is enough measured for it?"""

import math

import pytest

from nearfield.base.paired import Gain
from nearfield.rules.criterion import (
    COLLECTIVE_PATTERNS,
    MESSAGE_PATTERNS,
    MIN_GAIN,
    SEARCH_SIZES,
    LossVerdict,
    confirmation_cases,
    find_violations,
    is_significantly_below,
    search_cases,
    search_score,
)
from nearfield.rules.gains import BenchmarkCase, TimePair
from nearfield.tune.confirmed import ConfirmedGains
from nearfield.tune.tuning import message_sizes_to_confirm


def sure(value: float) -> Gain:
    return Gain(value, value * 0.99, value * 1.01, 10)


def at(never_below: float = 0.97, **values: float) -> list[BenchmarkCase]:
    """Returns the cases that break the promise, of these patterns at one size, beside a size that does not."""
    gains = {(pattern, 4096): sure(value) for pattern, value in values.items()}
    return [loss.case for loss in find_violations(gains | {("stream", 8): sure(1.0)}, never_below)]


def test_a_pattern_may_lose_what_the_others_make_up_for() -> None:
    """Is the promise broken by a ping-pong that is slower, by all patterns together, and by one that loses much; and
    not by a stream that loses little?"""
    assert at(pingpong=1.6, stream=0.92, exchange=1.4) == []
    assert at(pingpong=0.95, stream=1.5, exchange=1.5) == [("pingpong", 4096)]
    assert at(pingpong=1.0, stream=0.92, exchange=0.94) == [("stream", 4096), ("exchange", 4096)]
    assert at(pingpong=1.6, stream=0.8, exchange=1.4) == [("stream", 4096)]
    assert at(0.8, pingpong=0.85, stream=0.85) == [] and at(0.8, pingpong=0.75) == [("pingpong", 4096)]


def test_a_collective_must_not_be_slower() -> None:
    """Does one that loses much break the promise, one that loses little not, and is neither counted with the messages:
    not for a loss of theirs, and not to make up for it?"""
    assert at(pingpong=1.5, stream=1.5, bcast=0.85, allreduce=1.2) == [("bcast", 4096)]
    assert at(pingpong=1.5, stream=1.5, bcast=0.92) == []
    assert at(pingpong=1.0, stream=1.0, bcast=0.92, allreduce=0.92, allgather=0.92, alltoall=0.92) == []
    assert at(pingpong=1.0, stream=0.92, exchange=0.94, bcast=2.0) == [("stream", 4096), ("exchange", 4096)]
    assert at(pingpong=0.9, bcast=0.95, alltoall=0.8) == [("pingpong", 4096), ("alltoall", 4096)]
    assert at(0.8, pingpong=1.0, bcast=0.85) == [] and at(0.8, pingpong=1.0, bcast=0.75) == [("bcast", 4096)]
    assert at(bcast=0.8) == [("bcast", 4096)], "though there is no message of that size"


def test_what_may_be_chance_breaks_no_promise() -> None:
    """Is a case that looks slower, but of which one launch was not, none that is?"""
    assert find_violations({("pingpong", 8): Gain(0.9, 0.8, 1.01, 3), ("bcast", 8): Gain(0.8, 0.7, 0.95, 3)}) == []


def test_a_verdict_says_which_limit_is_broken_and_how_surely() -> None:
    """Is a pattern judged as significantly as all patterns of its size together, and a single one by itself and its own
    limit?"""
    unsure, gain = Gain(0.9, 0.82, 0.99, 6), sure(1.2)
    assert find_violations({("pingpong", 8): unsure}) == [LossVerdict(("pingpong", 8), unsure, 0.97, False)]
    assert find_violations({("pingpong", 8): sure(0.9)}) == [LossVerdict(("pingpong", 8), sure(0.9), 0.97, True)]
    both = {("pingpong", 8): gain, ("stream", 8): unsure}
    assert find_violations(both, joint_gain_by_size={8: sure(0.9)}) == [LossVerdict(("stream", 8), unsure, 0.97, True)]
    assert find_violations(both, joint_gain_by_size={8: unsure}) == [LossVerdict(("stream", 8), unsure, 0.97, False)]
    alone = {("pingpong", 8): sure(2.0), ("stream", 8): Gain(0.85, 0.8, 0.92, 6)}
    alone |= {("use", 8): sure(0.8), ("bcast", 8): sure(0.8)}
    assert [(loss.case[0], loss.limit, loss.is_significant) for loss in find_violations(alone)] == [
        ("stream", 0.9, False),
        ("use", 0.9, True),
        ("bcast", 0.9, True),
    ]


def test_a_loss_is_significant_if_the_interval_is_below_the_limit() -> None:
    """Is the whole interval needed, and of few launches, whose interval is too narrow, more distance from the limit?"""
    assert is_significantly_below(Gain(0.90, 0.88, 0.96, 6), 0.97)
    assert not is_significantly_below(Gain(0.90, 0.85, 0.98, 6), 0.97)
    assert not is_significantly_below(Gain(0.94, 0.93, 0.95, 2), 0.97)
    assert is_significantly_below(Gain(0.80, 0.75, 0.85, 2), 0.97)


def test_collectives_are_no_gain() -> None:
    """Is a setting that is faster in collectives only, which are guarded and not tuned for, no rule?"""
    times = {("pingpong", 4096): 1.0} | {(pattern, 4096): 1.5 for pattern in COLLECTIVE_PATTERNS}
    pairs = {case: [TimePair(time, 1.0, launch_number=launch) for launch in range(6)] for case, time in times.items()}
    found = ConfirmedGains.from_pairs({}, pairs, MIN_GAIN)
    assert not found.has_gain_in_a_range([8192])
    assert found.mean_gain.value == 1.0


def test_a_search_measures_all_messages_at_every_size() -> None:
    assert search_cases([8, 64]) == [(pattern, size) for size in (8, 64) for pattern in MESSAGE_PATTERNS]
    assert len(search_cases(SEARCH_SIZES)) == 44


def test_a_winner_is_measured_at_every_size() -> None:
    """Ping-pong at all, the other messages up to 16 MiB, collectives from 1 KiB to 4 MiB: each case once, what is
    searched for among them, and no collective of a size that allreduce's numbers do not fill?"""
    sizes = message_sizes_to_confirm(32 << 20)
    cases = confirmation_cases(sizes)
    assert len(set(cases)) == len(cases)
    by_pattern = {
        p: [size for pattern, size in cases if pattern == p] for p in (*MESSAGE_PATTERNS, *COLLECTIVE_PATTERNS)
    }
    assert by_pattern["pingpong"] == sizes == sorted(sizes)
    fours = [4**power for power in range(13)]
    assert all(by_pattern[pattern] == fours for pattern in ("stream", "exchange", "use"))
    assert all(by_pattern[pattern] == fours[5:12] for pattern in COLLECTIVE_PATTERNS)
    odd = confirmation_cases([1100, 1104])
    assert ("bcast", 1104) in odd and {pattern for pattern, size in odd if size == 1100} == set(MESSAGE_PATTERNS)


@pytest.mark.parametrize(
    ("last_level", "longest"), [(4 << 20, 16 << 20), (32 << 20, 128 << 20), (105 << 20, 420 << 20)]
)
def test_the_longest_size_is_beyond_the_caches(last_level: int, longest: int) -> None:
    assert message_sizes_to_confirm(last_level)[0] == 1 and message_sizes_to_confirm(last_level)[-1] == longest


def test_a_loss_outweighs_the_gain_that_pays_for_it() -> None:
    """Does a setting that doubles one size and halves another score below one that changes nothing?"""
    cases = [("pingpong", 8), ("pingpong", 4096)]
    assert search_score(dict(zip(cases, [sure(1.0), sure(1.0)], strict=True))) == 0
    assert search_score(dict(zip(cases, [sure(2.0), sure(0.5)], strict=True))) < 0
    assert search_score(dict(zip(cases, [sure(2.0), sure(0.98)], strict=True))) == pytest.approx(math.log(2 * 0.98) / 2)


def test_what_will_be_refused_scores_below_what_will_not() -> None:
    """Does a setting that doubles most sizes and significantly loses a quarter at two score below a modest one?"""
    cases = [("pingpong", 1 << power) for power in range(10)]
    bold = dict(zip(cases, map(sure, [2.0] * 3 + [1.0] * 5 + [0.75] * 2), strict=True))
    modest = dict(zip(cases, map(sure, [1.2] + [1.0] * 9), strict=True))
    assert search_score(bold) < 0 < search_score(modest)
