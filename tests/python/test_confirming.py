"""Is what a search found a rule only if it is surely faster somewhere and found slower nowhere?

On an arena that is made up (made_up.py): nothing here starts an MPI or depends on a clock.
"""

import itertools
from collections.abc import Iterator

import pytest
from made_up import (
    BEST,
    BIG,
    ENDLESS,
    KNOBS,
    MANY,
    SIZES,
    UNSEEN,
    MadeUpArena,
    Speed,
    Turns,
    exactly,
    hill,
    only,
    searched,
)

from nearfield.topology import Topology
from nearfield.tune.arena import PATTERNS
from nearfield.tune.confirmed import Confirmed, rule_table, tried_table
from nearfield.tune.gains import Case, Gain
from nearfield.tune.knobs import Settings
from nearfield.tune.rules import RuleTable
from nearfield.tune.search import Trial
from nearfield.tune.tuning import FEWEST_PAIRS, MOST_PAIRS, Listener, Request, Tuning, nearer

# ---- confirming


def tuning(**request: object) -> Tuning:
    made = Tuning(Request(**request), Listener())
    made._phase("same-node", "confirming", ENDLESS)
    return made


def confirmed(arena: MadeUpArena, first: list[Settings], made: Tuning | None = None) -> tuple[Confirmed | None, str]:
    """After a search of these alone, and no play-off to speak of: the order is that of the scores."""
    search = searched(arena, first)
    search.play_off(Turns(0))
    return (made or tuning())._confirm(arena, search, [*SIZES, UNSEEN])


def slow_unseen(gains: dict[str, float], parameter: str, there: float) -> Speed:
    """As `only`, but one parameter has this speed in streams of the size that the search does not see."""

    def speed(whole: Settings, case: Case) -> float:
        spoils = case == ("stream", UNSEEN) and whole[parameter] == (BIG | MANY)[parameter]
        return there if spoils else only(gains)(whole, case)

    return speed


def test_a_harmless_winner_is_confirmed_at_every_size() -> None:
    """Is the winner confirmed with its true gain in every case, though a point is slower by what is allowed?"""
    arena = MadeUpArena(slow_unseen({"fragment": 1.2}, "fragment", 0.98))
    chosen, reason = confirmed(arena, [BIG])
    assert chosen and chosen.settings == BIG and reason == ""
    assert set(chosen.gains) == {(pattern, size) for pattern in PATTERNS for size in [*SIZES, UNSEEN]}
    for case, gain in chosen.gains.items():
        assert gain.value == pytest.approx(0.98 if case == ("stream", UNSEEN) else 1.2, rel=0.01)
        assert gain.n == len(chosen.pairs[case]) >= FEWEST_PAIRS


def test_what_is_doubtful_is_measured_more() -> None:
    """Does a case that might be slower get as many pairs as there may be, and not those that surely are not?"""
    flicker = itertools.cycle((0.94, 1.06))

    def speed(whole: Settings, case: Case) -> float:
        doubtful = case == ("stream", UNSEEN) and whole["fragment"] == 131072
        return next(flicker) if doubtful else only({"fragment": 1.2})(whole, case)

    chosen, _ = confirmed(MadeUpArena(speed), [BIG])
    assert chosen
    measured = {case: gain.n for case, gain in chosen.gains.items()}
    assert measured.pop(("stream", UNSEEN)) == MOST_PAIRS
    assert set(measured.values()) == {FEWEST_PAIRS}


def test_a_winner_that_is_slower_somewhere_is_mended() -> None:
    """Is the parameter that makes one size slower put back, the other kept, and that preferred to the next best?"""
    spoilt = slow_unseen({"fragment": 1.2, "cells": 1.1}, "cells", 0.8)
    arena = MadeUpArena(lambda whole, case: spoilt(whole, case) * (1.05 if whole["copies"] == "none" else 1.0))
    chosen, _ = confirmed(arena, [BIG | MANY, {"copies": "none"}])
    assert chosen and chosen.settings == BIG
    assert chosen.slower == []


def test_a_value_that_is_too_large_is_made_smaller() -> None:
    """Where a limit is too high for one size only, is it lowered as far as it must be, and not given up?"""

    def speed(whole: Settings, case: Case) -> float:
        spoils = case == ("stream", UNSEEN) and int(whole["eager"]) > 16384
        return 0.8 if spoils else 1.2 if int(whole["eager"]) > 8192 else 1.0

    chosen, _ = confirmed(MadeUpArena(speed), [{"eager": 65536, "fragment": 131072}])
    assert chosen and chosen.settings["eager"] == 16384


def test_a_limit_comes_down_to_what_is_slow_at_once() -> None:
    """Is the first change to try the one that leaves the slow sizes to the default's way, however far that is?"""
    settings: Settings = {"eager": 1 << 18, "fragment": 1 << 18, "segment": 1 << 24, "cells": 128}
    assert nearer(KNOBS, settings, 20_000)[0] == {**settings, "eager": 16384}
    assert nearer(KNOBS, settings, 2048)[0] == {**settings, "eager": 131072}, "the default's way begins above that"


def test_a_winner_is_mended_step_by_step() -> None:
    """If two parameters each make a size slower, are both put back, one after the other, and the third kept?"""
    whole_winner: Settings = BIG | MANY | {"eager": 16384}

    def speed(whole: Settings, case: Case) -> float:
        gain = 1.2 if whole["eager"] == 16384 else 1.0
        if case != ("stream", UNSEEN):
            return gain
        return gain * (0.6 if whole["fragment"] == 131072 else 1.0) * (0.7 if whole["cells"] == 128 else 1.0)

    chosen, _ = confirmed(MadeUpArena(speed), [whole_winner])
    assert chosen and chosen.settings == {"eager": 16384}


def test_a_winner_that_cannot_be_mended_is_refused() -> None:
    """Is the next best taken then; and without one, is it stock, and said where it would have been how slow?"""
    arena = MadeUpArena(slow_unseen({"fragment": 1.2, "cells": 1.1}, "fragment", 0.8))
    chosen, _ = confirmed(arena, [BIG, MANY])
    assert chosen and chosen.settings == MANY
    assert confirmed(arena, [BIG]) == (None, "stream of 2 KiB at 0.80 of stock's speed")


@pytest.mark.parametrize(("launches", "kept"), [((0.94, 1.0), True), ((0.8, 1.0), True), ((0.94, 0.94), False)])
def test_what_is_slower_in_one_launch_only_is_not_slower(launches: tuple[float, float], kept: bool) -> None:
    """Is a loss in few cases looked at in another launch, and a rule made if it is gone? And else mended?"""
    both: Settings = BIG | MANY
    gains = only({"fragment": 1.2, "cells": 1.1})
    arena = MadeUpArena(gains)
    search = searched(arena, [both])
    search.play_off(Turns(0))
    arena.started.clear()

    def speed(whole: Settings, case: Case) -> float:
        spoils = case == ("pingpong", UNSEEN) and whole["cells"] == 128
        return launches[min(1, arena.started.count(both) - 1)] if spoils else gains(whole, case)

    arena.speed = speed
    chosen, _ = tuning()._confirm(arena, search, [*SIZES, UNSEEN])
    assert chosen and (chosen.settings == both) is kept


def test_what_is_faster_in_one_launch_only_is_no_rule() -> None:
    """If the winner is faster all over in its first launch, and as stock in the second, is it left?"""
    arena = MadeUpArena(only({"fragment": 1.2}))
    search = searched(arena, [BIG])
    search.play_off(Turns(0))
    arena.started.clear()
    arena.speed = lambda whole, case: only({"fragment": 1.2 if arena.started.count(BIG) < 2 else 1.0})(whole, case)
    assert tuning()._confirm(arena, search, [*SIZES, UNSEEN])[0] is None


def test_a_rule_tells_that_the_cores_moved() -> None:
    """Does it say how far apart they were, for which share of the pairs? And is a pair during which they moved taken
    again?"""
    arena = MadeUpArena(only({"fragment": 1.2}))
    arena.flags = itertools.cycle([50.0] * 12 + [50.0, 50.0, 230.0, 230.0] + [230.0] * 8)
    chosen, _ = confirmed(arena, [BIG])
    assert {pair.flag for pair in arena.all_pairs} == {50.0, 230.0}
    near, far = rule_table(KNOBS, "same-node", (0, 1), 2, chosen, "", [], arena.all_pairs).apart
    assert (near.flag_ns, far.flag_ns) == (50.0, 230.0)
    assert (near.share, far.share) == pytest.approx((0.6, 0.4), abs=0.02)  # three pairs near, one moved, two far


def test_a_rule_is_for_where_the_cores_mostly_were() -> None:
    """If they are near most of the time, is a setting that loses only where they are far a rule, for near; and does it
    say so? Is it measured on until every case has enough pairs from there?"""
    arena = MadeUpArena(only({}))
    now = 50.0

    def flags() -> Iterator[float]:
        nonlocal now
        for now in itertools.cycle([50.0] * 90 + [230.0] * 40):
            yield from [now] * 4  # of one pair

    arena.flags = flags()
    arena.speed = lambda whole, case: (1.2 if now < 100 else 0.5) if whole["fragment"] == 131072 else 1.0
    chosen, _ = confirmed(arena, [BIG])
    assert chosen and chosen.settings == BIG
    assert rule_table(KNOBS, "same-node", (0, 1), 2, chosen, "", []).flag_ns == 50.0
    for pairs in chosen.pairs.values():
        assert len(pairs) >= FEWEST_PAIRS / 2 and {pair.flag for pair in pairs} == {50.0}


def test_no_mending_by_what_must_not_be_tried() -> None:
    """Is a rule that would need too much memory without its small pieces not mended by leaving these out?"""
    small: Settings = {"fragment": 8192, "cells": 256}

    def speed(whole: Settings, case: Case) -> float:
        return 0.8 if case == ("stream", UNSEEN) and whole["fragment"] == 8192 else 1.2 if whole["cells"] == 256 else 1

    arena = MadeUpArena(speed)
    search = searched(arena, [small], refused=lambda s: "too big" if KNOBS.memory(s, 2) > 4 << 20 else None)
    search.play_off(Turns(0))
    assert tuning()._confirm(arena, search, [*SIZES, UNSEEN]) == (None, "stream of 2 KiB at 0.80 of stock's speed")


def test_no_mending_by_what_is_as_slow() -> None:
    """If a size is slower whichever parameter is put back, is nothing proposed?"""
    arena = MadeUpArena(lambda whole, case: 0.8 if whole["fragment"] != 32768 or whole["cells"] != 64 else 1.0)
    with arena.against(BIG | MANY, [UNSEEN]) as comparison:
        comparison.measure(FEWEST_PAIRS)
    slower = Confirmed(BIG | MANY, comparison.gains(), dict(comparison.found))
    assert len(slower.slower) == len(PATTERNS)
    assert tuning()._mended(arena, slower) is None


def test_what_fails_while_it_is_confirmed_is_refused() -> None:
    """Is the next best taken if the winner dies only now; and is the reason kept if there is none?"""
    for first, expected in (([BIG, MANY], MANY), ([BIG], None)):
        arena = MadeUpArena(exactly(BIG, MANY))
        search = searched(arena, first)
        search.play_off(Turns(0))
        arena.faults = lambda settings, moment: "hangs: no answer" if settings == BIG else ""
        chosen, reason = tuning()._confirm(arena, search, SIZES)
        assert (chosen.settings if chosen else None) == expected
        assert reason == ("" if expected else "hangs: no answer")


def test_after_ctrl_c_it_is_confirmed_in_short() -> None:
    """Is each case measured once only, and a winner that looks slower still not kept?"""
    stopped = tuning()
    stopped.stop()
    chosen, _ = confirmed(MadeUpArena(only({"fragment": 1.2})), [BIG], stopped)
    assert chosen and {gain.n for gain in chosen.gains.values()} == {1}
    slow = MadeUpArena(slow_unseen({"fragment": 1.2}, "fragment", 0.8))
    assert confirmed(slow, [BIG], stopped)[0] is None


@pytest.mark.parametrize(
    ("long", "short", "expected"),
    [
        (Gain(1.03, 1.02, 1.04, 6), Gain(1.0, 0.9, 1.1, 6), True),  # one range is enough, however noisy the other
        (Gain(1.03, 1.0, 1.06, 6), Gain(1.0, 0.9, 1.1, 6), False),  # by chance, of several ranges
        (Gain(1.03, 1.02, 1.04, 6), Gain(0.95, 0.94, 0.96, 6), False),  # slower over all
    ],
)
def test_a_gain_in_one_range_is_enough_if_it_is_sure(long: Gain, short: Gain, expected: bool) -> None:
    gains = {("stream", 8): short, ("stream", 1 << 20): long}
    assert Confirmed(BIG, gains, {}).gains_between([4 << 10]) == expected


# ---- all of it


def tuned(arena: MadeUpArena, **more: object) -> tuple[RuleTable, list[Trial]]:
    topology = Topology.from_synthetic("package:1 l3:1 l2:2 core:1 pu:1")
    made = Tuning(Request(exhaustive=True, sizes=SIZES, ranks_per_node=2, **more), Listener())
    return made._tune(arena, "same-node", (0, 1), topology, ENDLESS)


def test_a_rule_is_what_is_known_to_be_best() -> None:
    """From search to rule: is the known best its parameters, and the known gain its gain?"""
    rule, trials = tuned(MadeUpArena(hill))
    assert rule.parameters == BEST and rule.reason == ""
    expected = hill(KNOBS.complete(BEST), ("stream", 8)) / hill(KNOBS.complete({}), ("stream", 8))
    assert rule.gain and rule.gain.low < expected < rule.gain.high
    assert rule.gain.value == pytest.approx(expected, rel=0.01)
    assert {(point.pattern, point.size_bytes) for point in rule.point} == {
        (p, size) for p in PATTERNS for size in SIZES
    }
    assert rule.memory_per_rank_bytes == 128 * 131072 + (1 << 20)
    assert len(trials) == 20


def test_no_rule_where_stock_is_best() -> None:
    rule, _ = tuned(MadeUpArena(lambda whole, case: 1.0 if whole == KNOBS.complete({}) else 0.9))
    assert (rule.parameters, rule.gain, rule.reason) == ({}, None, "nothing was faster than stock")


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.06])
@pytest.mark.parametrize("seed", range(5))
def test_no_rule_where_nothing_gains(noise: float, seed: int) -> None:
    """Where every setting is as fast as stock, is luck, of which there is plenty among many settings, no rule?"""
    rule, _ = tuned(MadeUpArena(lambda whole, case: 1.0, noise=noise, seed=seed))
    assert (rule.parameters, rule.gain) == ({}, None) and rule.reason


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gains", [{8: 1.03}, {16 << 10: 1.03}, {8: 1.01, 16 << 10: 1.01, 1 << 20: 1.01}], ids=str)
def test_a_small_gain_is_a_rule(gains: dict[int, float], seed: int) -> None:
    """Is what gains three hundredths at one range of sizes, or one at all, found, and what gains nothing not in it?"""
    arena = MadeUpArena(
        lambda whole, case: gains.get(case[1], 1.0) if whole["fragment"] == 131072 else 1.0, noise=0.002, seed=seed
    )
    rule, _ = tuned(arena)
    assert rule.parameters == BIG
    assert rule.gain and rule.gain.value == pytest.approx(1.01, abs=0.003)


def test_what_may_not_be_but_gains_more_is_told() -> None:
    """Is a setting that is half as fast again, and a tenth slower at one size, told with what allows it; and then
    chosen; and one that is far slower there not told?"""
    for there, told in ((0.88, "with --never-below 0.85: pingpong of 8 B would be at 0.88"), (0.5, "")):
        arena = MadeUpArena(
            lambda whole, case, there=there: (
                (there if case == ("pingpong", 8) else 1.5) if whole["fragment"] == 131072 else 1.0
            )
        )
        rule, _ = tuned(arena)
        assert (rule.parameters, rule.beyond.partition("sizes ")[2]) == ({}, told)
        rule, _ = tuned(arena, never_below=0.85)
        assert rule.parameters == (BIG if told else {}) and rule.beyond == ""


def test_a_rule_keeps_to_the_memory() -> None:
    """Is what needs more memory than is allowed never started, and the best of the rest chosen?"""
    arena, limit = MadeUpArena(hill), 10 << 20
    rule, trials = tuned(arena, memory_limit_bytes=limit)
    assert max(KNOBS.memory(settings, 2) for settings in arena.started) <= limit
    assert rule.parameters == {"eager": 65536, "fragment": 131072}
    assert any("MiB per rank" in trial.reason for trial in trials)


def test_what_was_tried_is_counted_by_what_came_of_it() -> None:
    """Is what only needs too much memory told apart from what this MPI fails with?"""
    arena = MadeUpArena(only({"cells": 1.1}), lambda settings, now: "dies" if settings == {"copies": "none"} else "")
    search = searched(
        arena, [BIG, MANY, {"copies": "none"}], refused=lambda settings: "too big" if "fragment" in settings else None
    )
    tried = tried_table(search.trials)
    assert (tried.measured, tried.left, tried.refused, tried.unfit) == (1, 0, 1, ["copies = none: dies"])
