"""Does the search find what is known to be best, and is what cannot be used or is slower somewhere kept out of rules?

On an arena that is made up (made_up.py): nothing here starts an MPI or depends on a clock.
"""

import itertools
import math

import pytest
from made_up import KNOBS, MadeUpArena, Speed, Turns

from nearfield.topology import Topology
from nearfield.tune.arena import PATTERNS
from nearfield.tune.gains import Case, Gain
from nearfield.tune.knobs import Settings
from nearfield.tune.model import candidates
from nearfield.tune.repair import grid, repaired
from nearfield.tune.rules import RuleTable
from nearfield.tune.search import Deadline, Search, Trial
from nearfield.tune.tuning import FEWEST_PAIRS, MOST_PAIRS, Confirmed, Listener, Request, Tuning, tried_table

SIZES = (8, 16 << 10, 1 << 20)
UNSEEN = 2 << 10  # a size that is confirmed but not searched
MODEL = candidates(KNOBS, [32 << 10, 1 << 20, 32 << 20], "same-node")
BEST: Settings = {"eager": 65536, "fragment": 131072, "cells": 128}  # on the grid; the model knows nothing of cells
BIG, MANY = {"fragment": 131072}, {"cells": 128}
ENDLESS = math.inf


def hill(whole: Settings, case: Case) -> float:
    """Fastest with BEST, slower with every power of two away from it, in all cases."""
    top = KNOBS.complete(BEST)
    costs = {"eager": 0.05, "fragment": 0.06, "cells": 0.04}
    lost = sum(cost * abs(math.log2(int(whole[name]) / int(top[name]))) for name, cost in costs.items())
    return math.exp(0.25 - lost - 0.1 * (whole["copies"] != top["copies"]))


def only(gains: dict[str, float]) -> Speed:
    """Each of BIG and MANY, where it is set, multiplies the speed."""

    def speed(whole: Settings, case: Case) -> float:
        return math.prod(gain for name, gain in gains.items() if whole[name] == (BIG | MANY)[name])

    return speed


def exactly(*ranking: Settings) -> Speed:
    """These settings are faster than stock, the first most; all others as fast as stock."""

    def speed(whole: Settings, case: Case) -> float:
        places = [place for place, settings in enumerate(ranking) if KNOBS.complete(settings) == whole]
        return 1.3 - 0.05 * places[0] if places else 1.0

    return speed


def searched(arena: MadeUpArena, first: list[Settings], turns: float | None = None, **more: object) -> Search:
    search = Search(arena, lambda trial: None, sizes=SIZES, **more)
    search.run(first, Turns(len(first) if turns is None else turns))
    return search


def trial_of(search: Search, settings: Settings) -> Trial:
    return next(trial for trial in search.trials if trial.settings == settings)


# ---- finding


@pytest.mark.parametrize("best", MODEL, ids=str)
def test_the_best_of_the_models_candidates_wins(best: Settings) -> None:
    """Whichever of the first candidates is best, does it win, whole? (A search that finds stock best fails here.)"""
    search = searched(MadeUpArena(exactly(best)), MODEL)
    search.play_off(Turns(ENDLESS))
    assert search.winner == best
    assert {trial.origin for trial in search.trials} == {"model"}
    assert search.best_first()[0].score == pytest.approx(math.log(1.3), abs=0.02)


def test_the_search_goes_beyond_the_model() -> None:
    """Is a setting found that is nearly as fast as the fastest there is, and faster than any of the model's?"""
    search = searched(MadeUpArena(hill), MODEL, 120)
    search.play_off(Turns(ENDLESS))
    assert search.winner
    reached, most = (hill(KNOBS.complete(settings), ("stream", 8)) for settings in (search.winner, BEST))
    assert reached > 0.94 * most > max(hill(KNOBS.complete(settings), ("stream", 8)) for settings in MODEL)
    assert {trial.origin for trial in search.trials} == {"model", "search"}


def test_the_grid_finds_the_best() -> None:
    """Does trying every combination try each once, and find the one that is known to be best?"""
    arena = MadeUpArena(hill)
    search = Search(arena, lambda trial: None, sizes=SIZES)
    assert search.run_grid(Turns(ENDLESS))
    assert [trial.settings for trial in search.trials] == list(grid(KNOBS)) == arena.started[1:]  # the first is stock
    assert len(search.trials) == 20  # of 24, of which constraints make some equal
    search.play_off(Turns(ENDLESS))
    assert search.winner == BEST


def test_stock_is_best() -> None:
    """Where every setting is slower than stock, is there no winner?"""
    search = searched(MadeUpArena(lambda whole, case: 1.0 if whole == KNOBS.complete({}) else 0.9), MODEL, 20)
    search.play_off(Turns(ENDLESS))
    assert search.winner is None


def test_stock_does_not_win_by_luck() -> None:
    """Is stock, tried as a setting among others (as a grid does), never a winner, however lucky its score?"""
    scores = []
    for seed in range(5):
        search = searched(MadeUpArena(hill, seed=seed), [{}])
        search.play_off(Turns(ENDLESS))
        scores.append(search.best_first()[0].score)
        assert search.winner is None
    assert max(scores) > 0 > min(scores), "or there was no luck"


def test_what_is_known_is_not_measured_again() -> None:
    """Is a setting that is asked for twice started and told once?"""
    arena, told = MadeUpArena(hill), []
    search = Search(arena, told.append, sizes=SIZES)
    search.run([BIG, MANY, BIG], Turns(3))
    assert arena.started == [{}, BIG, MANY]
    assert [trial.settings for trial in told] == [BIG, MANY]


def test_a_loss_somewhere_costs_more_than_it_gains_elsewhere() -> None:
    """Is what gains evenly preferred to what gains a bit more, but loses at one size?"""

    def speed(whole: Settings, case: Case) -> float:
        if whole["cells"] == 128:
            return 1.1
        return (0.8 if case[1] == 8 else 1.4) if whole["fragment"] == 131072 else 1.0

    search = searched(MadeUpArena(speed), [BIG, MANY])
    assert [trial.settings for trial in search.best_first()] == [MANY, BIG]


# ---- the play-off


@pytest.mark.parametrize(("worth", "kept"), [(1.0, False), (1.004, False), (1.05, True), (0.9, False)])
def test_a_parameter_is_kept_if_it_gains(worth: float, kept: bool) -> None:
    """Is a parameter put back to its default if that costs less than a hundredth, and kept if it costs more?"""
    search = searched(MadeUpArena(only({"fragment": 1.2, "cells": worth}), noise=0.001), [BIG | MANY])
    search.play_off(Turns(ENDLESS))
    assert search.winner == (BIG | MANY if kept else BIG)


def test_a_small_gain_is_not_played_away() -> None:
    """If all that is gained is less than a hundredth, is the parameter that gains it kept, and the other not?"""
    search = searched(MadeUpArena(only({"fragment": 1.009, "cells": 1.0}), noise=0.0005), [BIG | MANY])
    search.play_off(Turns(ENDLESS))
    assert search.winner == BIG


def test_a_parameter_that_another_needs_is_kept() -> None:
    """Does what gains nothing itself stay where a constraint wants it?"""
    needed: Settings = {"eager": 65536, "fragment": 65536}
    search = searched(MadeUpArena(lambda whole, case: 1.2 if whole["eager"] == 65536 else 1.0), [needed])
    search.play_off(Turns(ENDLESS))
    assert search.winner == needed


def test_what_another_needs_is_as_small_as_may_be() -> None:
    """Is a segment, sixteen times of what its pieces need, cut down to that, and the memory of a rank with it?"""
    big: Settings = {"eager": 65536, "fragment": 262144, "segment": 1 << 24}
    gains = {"eager": 1.1, "fragment": 1.1}
    speed = lambda whole, case: math.prod(g for name, g in gains.items() if whole[name] == big[name])  # noqa: E731
    search = searched(MadeUpArena(speed), [big])
    search.play_off(Turns(ENDLESS))
    assert search.winner == big | {"segment": 1 << 21}
    assert KNOBS.memory(big, 2) - KNOBS.memory(search.winner, 2) == (1 << 24) - (1 << 21)


def test_what_another_needs_stays_big_if_that_gains() -> None:
    big: Settings = {"fragment": 262144, "segment": 1 << 24}
    search = searched(MadeUpArena(exactly(big)), [big])
    search.play_off(Turns(ENDLESS))
    assert search.winner == big


def test_what_others_need_is_put_back_after_them() -> None:
    """Is what was needed by a parameter that is put back itself put back, too?"""
    search = searched(MadeUpArena(only({"cells": 1.2})), [{"fragment": 262144, "cells": 128, "segment": 1 << 24}])
    search.play_off(Turns(ENDLESS))
    assert search.winner == MANY


def test_duels_decide_not_scores() -> None:
    """Does the better of two win, though the other was lucky in the search?"""
    arena = MadeUpArena(exactly(BIG, MANY))
    search = searched(arena, [BIG, MANY])
    arena.speed = exactly(MANY, BIG)
    search.play_off(Turns(ENDLESS))
    assert search.best_first()[0].settings == BIG and search.winner == MANY


def test_without_time_the_best_score_wins() -> None:
    """Is the winner that of the search, and no job started, if the play-off has no time?"""
    arena = MadeUpArena(exactly(BIG, MANY))
    search = searched(arena, [MANY, BIG])
    arena.started.clear()
    search.play_off(Turns(0))
    assert search.winner == BIG and arena.started == []


def test_what_fails_in_the_play_off_does_not_win() -> None:
    """Is a setting that was measured, and dies when it is to duel, no winner though it would be faster?"""
    arena = MadeUpArena(exactly(BIG, MANY))
    search = searched(arena, [BIG, MANY])
    arena.speed = exactly(MANY, BIG)
    arena.faults = lambda settings, moment: "dies" if settings == MANY else ""
    search.play_off(Turns(ENDLESS))
    assert search.winner == BIG


@pytest.mark.parametrize("moment", ["start", "visit"])
def test_a_champion_that_fails_is_replaced(moment: str) -> None:
    """Is the best by score, if it dies as champion, noted with its reason, and the better of the others the winner?"""
    third: Settings = {"eager": 65536}
    arena = MadeUpArena(exactly(BIG, MANY, third))
    search = searched(arena, [BIG, MANY, third])
    arena.faults = lambda settings, now: "dies" if (settings, now) == (BIG, moment) else ""
    search.play_off(Turns(ENDLESS))
    assert search.winner == MANY
    failed = trial_of(search, BIG)
    assert (failed.state, failed.reason) == ("unfit", "dies")
    assert failed not in search.best_first()


def test_a_champion_that_fails_when_it_is_simplified_is_replaced() -> None:
    """Even if it has won all its duels, and is alone but for what it would be without one parameter?"""
    arena = MadeUpArena(only({"fragment": 1.2, "cells": 1.1}))
    search = searched(arena, [BIG | MANY, MANY])
    won: list[Settings] = []

    def faults(settings: Settings, moment: str) -> str:
        won.extend([settings] * (moment == "start" and settings == MANY))  # after its only duel
        return "dies" if settings == BIG | MANY and len(won) > 1 else ""

    arena.faults = faults
    search.play_off(Turns(ENDLESS))
    assert search.winner == MANY
    assert trial_of(search, BIG | MANY).state == "unfit"


def test_nothing_wins_if_all_fail() -> None:
    arena = MadeUpArena(exactly(BIG, MANY))
    search = searched(arena, [BIG, MANY])
    arena.faults = lambda settings, moment: "dies"
    search.play_off(Turns(ENDLESS))
    assert search.winner in (None, MANY), "what nothing is left to duel with is not started"
    assert trial_of(search, BIG).state == "unfit"


def test_what_is_simpler_keeps_to_the_memory() -> None:
    """Is a setting that must not be tried not proposed by the play-off either?"""
    small: Settings = {"fragment": 8192, "cells": 256}  # without its small pieces, its many cells are too much
    arena = MadeUpArena(lambda whole, case: 1.2 if whole["cells"] == 256 else 1.0)
    search = searched(arena, [small], refused=lambda s: "too big" if KNOBS.memory(s, 2) > 4 << 20 else None)
    search.play_off(Turns(ENDLESS))
    assert search.winner == small
    assert {"cells": 256} not in arena.started


# ---- what cannot be used


@pytest.mark.parametrize("moment", ["start", "check", "visit"])
def test_what_aborts_is_noted_and_avoided(moment: str) -> None:
    """Is a setting that does not start, damages data or hangs unfit, with its reason, and the next best the winner?"""
    arena = MadeUpArena(
        exactly(BIG, MANY), lambda settings, now: f"fails at {now}" if (settings, now) == (BIG, moment) else ""
    )
    search = searched(arena, [BIG, MANY])
    failed = trial_of(search, BIG)
    assert (failed.state, failed.reason, failed.score) == ("unfit", f"fails at {moment}", -math.inf)
    assert [trial.settings for trial in search.best_first()] == [MANY]
    search.play_off(Turns(ENDLESS))
    assert search.winner == MANY


def test_stock_that_dies_is_started_anew() -> None:
    """If the job with stock dies, is it told so, and are the settings after that measured against a new one?"""
    arena = MadeUpArena(exactly(BIG, MANY))
    died: list[Settings] = []

    def faults(settings: Settings, moment: str) -> str:
        now = settings == {} and moment == "visit" and BIG in arena.started and not died
        died.extend([settings] * now)
        return "dies" if now else ""

    arena.faults = faults
    search = searched(arena, [BIG, MANY])
    assert (trial_of(search, BIG).state, trial_of(search, BIG).reason) == ("unfit", "stock, beside it, dies")
    assert arena.started == [{}, BIG, {}, MANY]
    assert search.best_first() == [trial_of(search, MANY)]


@pytest.mark.parametrize("how", ["run", "grid"])
def test_what_is_refused_is_never_started(how: str) -> None:
    """Is a setting that must not be tried noted with the reason, told, and no job of it started in any phase?"""
    arena, told = MadeUpArena(only({"fragment": 1.3, "cells": 1.1})), []
    search = Search(
        arena, told.append, sizes=SIZES, refused=lambda settings: "too big" if "fragment" in settings else None
    )
    if how == "run":
        search.run([BIG, MANY, BIG | MANY], Turns(20))
    else:
        search.run_grid(Turns(ENDLESS))
    search.play_off(Turns(ENDLESS))
    refused = [trial for trial in search.trials if trial.state == "refused"]
    assert refused and {trial.reason for trial in refused} == {"too big"}
    assert [settings for settings in arena.started if "fragment" in settings] == []
    assert search.winner == MANY
    assert told == search.trials, "each once"


def test_what_breaks_a_constraint_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a setting that could not be repaired, and that `run` would refuse, noted with the constraint's reason only?"""
    monkeypatch.setattr(
        "nearfield.tune.search.repaired",
        lambda knobs, settings: {name: value for name, value in settings.items() if value != knobs[name].default},
    )
    broken: Settings = {"eager": 65536}
    arena = MadeUpArena(hill)
    search = searched(arena, [broken, MANY])
    assert trial_of(search, broken).state == "refused"
    assert trial_of(search, broken).reason == "fragment >= eager does not hold: a short message is one piece"
    assert broken not in arena.started and MANY in arena.started
    assert [trial.settings for trial in search.best_first()] == [MANY]


def test_what_is_bad_at_first_look_is_left() -> None:
    """Is a setting that is worse than half of those before, at the sizes of the first look, not measured further?"""
    good: list[Settings] = [{"cells": cells} for cells in (16, 32, 128, 256)]
    good += [{"fragment": size} for size in (16384, 65536, 131072)]
    bad: Settings = {"eager": 16384}
    speed_of = {16384: 0.8}
    arena = MadeUpArena(lambda whole, case: 1.0 if whole == KNOBS.complete({}) else speed_of.get(whole["eager"], 1.1))
    search = searched(arena, [*good, bad])
    left = trial_of(search, bad)
    assert left.state == "left" and {size for _, size in left.gains} == {SIZES[0], SIZES[2]}
    assert left.score == pytest.approx(math.log(0.8) - 2 * math.log(0.97 / 0.8), abs=0.02)
    assert left not in search.best_first()
    assert {size for _, size in trial_of(search, good[0]).gains} == set(SIZES)
    assert {gain.n for gain in trial_of(search, good[0]).gains.values()} == {2}


# ---- the end of the time


def test_it_ends_when_the_time_is_over() -> None:
    """Is nothing begun after the end, be it by the clock or because somebody asked?"""
    assert Deadline(-1).over() and not Deadline(1e9).over()
    stopped = Deadline(1e9)
    stopped.stopped = True
    assert stopped.over()
    for begin in (lambda s: s.run(MODEL, stopped), lambda s: s.run_grid(stopped)):
        search = Search(MadeUpArena(hill), lambda trial: None, sizes=SIZES)
        assert not begin(search) and search.trials == []
    search = Search(MadeUpArena(hill), lambda trial: None, sizes=SIZES)
    assert not search.run_grid(Turns(5)) and len(search.trials) == 5


def test_it_ends_after_the_trial_that_was_under_way() -> None:
    """Is what was found kept if somebody asks to stop while a setting is measured?"""
    deadline = Turns(ENDLESS)
    search = Search(MadeUpArena(hill), lambda trial: setattr(deadline, "stopped", len(search.trials) == 3), sizes=SIZES)
    search.run(MODEL, deadline)
    assert [trial.settings for trial in search.trials] == MODEL[:3]


def test_repair_raises_one_after_the_other() -> None:
    """Is what one constraint raises seen by another that comes before it, and what is at its default left out?"""
    assert repaired(KNOBS, {"eager": 262144}) == {"eager": 262144, "fragment": 262144, "segment": 1 << 21}
    assert repaired(KNOBS, {"eager": 4096, "cells": 64, "copies": "none"}) == {"copies": "none"}


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


def test_a_winner_that_cannot_be_mended_is_refused() -> None:
    """Is the next best taken then; and without one, is it stock, and said where it would have been how slow?"""
    arena = MadeUpArena(slow_unseen({"fragment": 1.2, "cells": 1.1}, "fragment", 0.8))
    chosen, _ = confirmed(arena, [BIG, MANY])
    assert chosen and chosen.settings == MANY
    assert confirmed(arena, [BIG]) == (None, "stream of 2 KiB at 0.80 of stock's speed")


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
