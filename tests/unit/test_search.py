"""Does the search find what is known to be best, and is what cannot be used kept out?

On a benchmark whose jobs are a formula (factories.py): nothing here starts an MPI or depends on a clock.
"""

import math

import pytest
from factories import (
    BEST,
    BIG,
    ENDLESS,
    KNOBS,
    MANY,
    MODEL,
    SIZES,
    FormulaBenchmark,
    Turns,
    hill,
    rank,
    run_search,
    scale,
    trial_of,
)

from nearfield.rules.criterion import search_cases
from nearfield.rules.gains import BenchmarkCase
from nearfield.rules.knobs import Settings
from nearfield.tune.satisfy_constraints import iterate_grid_settings, satisfy_constraints
from nearfield.tune.search import Deadline, Search

# ---- finding


@pytest.mark.parametrize("best", MODEL, ids=str)
def test_the_best_of_the_models_candidates_wins(best: Settings) -> None:
    """Whichever of the first candidates is best, does it win, whole? (A search that finds stock best fails here.)"""
    search = run_search(FormulaBenchmark(rank(best)), MODEL)
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == best
    assert {trial.origin for trial in search.trials} == {"model"}
    assert search.trials_best_first()[0].score == pytest.approx(math.log(1.3), abs=0.02)


def test_the_search_goes_beyond_the_model() -> None:
    """Is a setting found that is nearly as fast as the fastest there is, and faster than any of the model's?"""
    search = run_search(FormulaBenchmark(hill), MODEL, 120)
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner
    reached, best = (hill(KNOBS.with_defaults(settings), ("stream", 8)) for settings in (search.winner, BEST))
    assert reached > 0.94 * best > max(hill(KNOBS.with_defaults(settings), ("stream", 8)) for settings in MODEL)
    assert {trial.origin for trial in search.trials} == {"model", "search"}


def test_the_grid_finds_the_best() -> None:
    """Does trying every combination try each once, and find the one that is known to be best?"""
    benchmark = FormulaBenchmark(hill)
    search = Search(benchmark, lambda trial: None, cases=search_cases(SIZES))
    search.run_grid(Turns(ENDLESS))
    assert search.num_untried == 0
    started = [settings for at, settings in enumerate(benchmark.started) if settings not in benchmark.started[:at]]
    assert [trial.settings for trial in search.trials] == list(iterate_grid_settings(KNOBS)) == started
    assert len(search.trials) == 20  # of 24, of which constraints make some equal
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == BEST


def test_stock_is_best() -> None:
    """Where every setting is slower than stock, is there no winner?"""
    search = run_search(
        FormulaBenchmark(lambda whole, case: 1.0 if whole == KNOBS.with_defaults({}) else 0.9), MODEL, 20
    )
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner is None


def test_stock_does_not_win_by_luck() -> None:
    """Is stock, tried as a setting among others (as a grid does), never a winner, however lucky its score?"""
    scores = []
    for seed in range(5):
        search = run_search(FormulaBenchmark(hill, seed=seed), [{}])
        search.rank_finalists(Turns(ENDLESS))
        scores.append(search.trials_best_first()[0].score)
        assert search.winner is None
    assert max(scores) > 0 > min(scores), "or there was no luck"


def test_what_is_known_is_not_measured_again() -> None:
    """Is a setting that is requested twice started and reported once?"""
    benchmark, reported = FormulaBenchmark(hill), []
    search = Search(benchmark, reported.append, cases=search_cases(SIZES))
    search.run([BIG, MANY, BIG], Turns(3))
    assert benchmark.started == [{}, BIG, MANY]
    assert [trial.settings for trial in reported] == [BIG, MANY]


def test_a_loss_in_one_case_costs_more_than_a_gain_in_another() -> None:
    """Is what gains evenly preferred to what gains a bit more, but loses at one size?"""

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        if whole["cells"] == 128:
            return 1.1
        return (0.8 if case[1] == 8 else 1.4) if whole["fragment"] == 131072 else 1.0

    search = run_search(FormulaBenchmark(speed), [BIG, MANY])
    assert [trial.settings for trial in search.trials_best_first()] == [MANY, BIG]


# ---- the play-off


@pytest.mark.parametrize(("worth", "retained"), [(1.0, False), (1.004, False), (1.05, True), (0.9, False)])
def test_a_parameter_is_retained_if_it_gains(worth: float, retained: bool) -> None:
    """Is a parameter put back to its default if that costs less than a hundredth, and kept if it costs more?"""
    search = run_search(FormulaBenchmark(scale({"fragment": 1.2, "cells": worth}), noise=0.001), [BIG | MANY])
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == (BIG | MANY if retained else BIG)


def test_a_small_gain_is_not_played_away() -> None:
    """If all that is gained is less than a hundredth, is the parameter that gains it kept, and the other not?"""
    search = run_search(FormulaBenchmark(scale({"fragment": 1.009, "cells": 1.0}), noise=0.0005), [BIG | MANY])
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == BIG


def test_a_parameter_that_another_needs_is_retained() -> None:
    """Does what gains nothing itself stay where a constraint wants it?"""
    needed: Settings = {"eager": 65536, "fragment": 65536}
    search = run_search(FormulaBenchmark(lambda whole, case: 1.2 if whole["eager"] == 65536 else 1.0), [needed])
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == needed


def test_what_another_needs_is_as_small_as_may_be() -> None:
    """Is a segment, sixteen times of what its pieces need, cut down to that, and the memory of a rank with it?"""
    big: Settings = {"eager": 65536, "fragment": 262144, "segment": 1 << 24}
    gains = {"eager": 1.1, "fragment": 1.1}
    speed = lambda whole, case: math.prod(g for name, g in gains.items() if whole[name] == big[name])  # noqa: E731
    search = run_search(FormulaBenchmark(speed), [big])
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == big | {"segment": 1 << 21}
    assert KNOBS.shared_memory_bytes(big, 2) - KNOBS.shared_memory_bytes(search.winner, 2) == (1 << 24) - (1 << 21)


def test_what_another_needs_stays_big_if_that_gains() -> None:
    big: Settings = {"fragment": 262144, "segment": 1 << 24}
    search = run_search(FormulaBenchmark(rank(big)), [big])
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == big


def test_what_others_need_is_put_back_after_them() -> None:
    """Is what was needed by a parameter that is put back itself put back, too?"""
    search = run_search(
        FormulaBenchmark(scale({"cells": 1.2})), [{"fragment": 262144, "cells": 128, "segment": 1 << 24}]
    )
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == MANY


def test_duels_decide_not_scores() -> None:
    """Does the better of two win, though the other was lucky in the search?"""
    benchmark = FormulaBenchmark(rank(BIG, MANY))
    search = run_search(benchmark, [BIG, MANY])
    benchmark.speed = rank(MANY, BIG)
    search.rank_finalists(Turns(ENDLESS))
    assert search.trials_best_first()[0].settings == BIG and search.winner == MANY


def test_without_time_the_best_score_wins() -> None:
    """Is the winner that of the search, and no job started, if the play-off has no time?"""
    benchmark = FormulaBenchmark(rank(BIG, MANY))
    search = run_search(benchmark, [MANY, BIG])
    benchmark.started.clear()
    search.rank_finalists(Turns(0))
    assert search.winner == BIG and benchmark.started == []


def test_what_fails_in_the_play_off_does_not_win() -> None:
    """Is a setting that was measured, and dies when it is to duel, no winner though it would be faster?"""
    benchmark = FormulaBenchmark(rank(BIG, MANY))
    search = run_search(benchmark, [BIG, MANY])
    benchmark.speed = rank(MANY, BIG)
    benchmark.faults = lambda settings, moment: "dies" if settings == MANY else ""
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == BIG


@pytest.mark.parametrize("moment", ["start", "visit"])
def test_a_champion_that_fails_is_replaced(moment: str) -> None:
    """Is the best by score, if it dies as champion, noted with its reason, and the better of the others the winner?"""
    third: Settings = {"eager": 65536}
    benchmark = FormulaBenchmark(rank(BIG, MANY, third))
    search = run_search(benchmark, [BIG, MANY, third])
    benchmark.faults = lambda settings, now: "dies" if (settings, now) == (BIG, moment) else ""
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == MANY
    failed = trial_of(search, BIG)
    assert (failed.state, failed.reason) == ("unfit", "dies")
    assert failed not in search.trials_best_first()


def test_a_champion_that_fails_when_it_is_simplified_is_replaced() -> None:
    """Even if it has won all its duels, and is alone but for what it would be without one parameter?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2, "cells": 1.1}))
    search = run_search(benchmark, [BIG | MANY, MANY])
    won: list[Settings] = []

    def faults(settings: Settings, moment: str) -> str:
        won.extend([settings] * (moment == "start" and settings == MANY))  # after its only duel
        return "dies" if settings == BIG | MANY and len(won) > 1 else ""

    benchmark.faults = faults
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == MANY
    assert trial_of(search, BIG | MANY).state == "unfit"


def test_nothing_wins_if_all_fail() -> None:
    benchmark = FormulaBenchmark(rank(BIG, MANY))
    search = run_search(benchmark, [BIG, MANY])
    benchmark.faults = lambda settings, moment: "dies"
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner in (None, MANY), "what nothing is left to duel with is not started"
    assert trial_of(search, BIG).state == "unfit"


def test_what_is_simpler_keeps_to_the_memory() -> None:
    """Is a setting that must not be tried not proposed by the play-off either?"""
    small: Settings = {"fragment": 8192, "cells": 256}  # without its small pieces, its many cells are too much
    benchmark = FormulaBenchmark(lambda whole, case: 1.2 if whole["cells"] == 256 else 1.0)
    search = run_search(
        benchmark,
        [small],
        get_rejection_reason=lambda s: "too big" if KNOBS.shared_memory_bytes(s, 2) > 4 << 20 else None,
    )
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == small
    assert {"cells": 256} not in benchmark.started


# ---- what cannot be used


@pytest.mark.parametrize("moment", ["start", "check", "visit"])
def test_what_aborts_is_noted_and_avoided(moment: str) -> None:
    """Is a setting that does not start, damages data or hangs unfit, with its reason, and the next best the winner?"""
    benchmark = FormulaBenchmark(
        rank(BIG, MANY), lambda settings, now: f"fails at {now}" if (settings, now) == (BIG, moment) else ""
    )
    search = run_search(benchmark, [BIG, MANY])
    failed = trial_of(search, BIG)
    assert (failed.state, failed.reason, failed.score) == ("unfit", f"fails at {moment}", -math.inf)
    assert [trial.settings for trial in search.trials_best_first()] == [MANY]
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == MANY


def test_stock_that_dies_is_started_anew() -> None:
    """If the job with stock dies, is that reported, and are the settings after that measured against a new one?"""
    benchmark = FormulaBenchmark(rank(BIG, MANY))
    died: list[Settings] = []

    def faults(settings: Settings, moment: str) -> str:
        now = settings == {} and moment == "visit" and BIG in benchmark.started and not died
        died.extend([settings] * now)
        return "dies" if now else ""

    benchmark.faults = faults
    search = run_search(benchmark, [BIG, MANY])
    assert (trial_of(search, BIG).state, trial_of(search, BIG).reason) == ("unfit", "the baseline beside it dies")
    assert benchmark.started == [{}, BIG, {}, MANY]
    assert search.trials_best_first() == [trial_of(search, MANY)]


@pytest.mark.parametrize("how", ["run", "grid"])
def test_what_is_refused_is_never_started(how: str) -> None:
    """Is a setting that must not be tried noted with the reason, reported, and no job of it started in any phase?"""
    benchmark, reported = FormulaBenchmark(scale({"fragment": 1.3, "cells": 1.1})), []
    refused = lambda settings: "too big" if "fragment" in settings else None  # noqa: E731
    search = Search(benchmark, reported.append, cases=search_cases(SIZES), get_rejection_reason=refused)
    if how == "run":
        search.run([BIG, MANY, BIG | MANY], Turns(20))
    else:
        search.run_grid(Turns(ENDLESS))
    search.rank_finalists(Turns(ENDLESS))
    left_out = [trial for trial in search.trials if trial.state == "refused"]
    assert left_out and {trial.reason for trial in left_out} == {"too big"}
    assert [settings for settings in benchmark.started if "fragment" in settings] == []
    assert search.winner == MANY
    assert reported == search.trials, "each once"


def test_what_breaks_a_constraint_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is a setting that could not be repaired, and that `run` would refuse, noted with the constraint's reason only?"""
    monkeypatch.setattr(
        "nearfield.tune.search.satisfy_constraints",
        lambda knobs, settings: {name: value for name, value in settings.items() if value != knobs[name].default},
    )
    broken: Settings = {"eager": 65536}
    benchmark = FormulaBenchmark(hill)
    search = run_search(benchmark, [broken, MANY])
    assert trial_of(search, broken).state == "refused"
    assert trial_of(search, broken).reason == "fragment >= eager does not hold: a short message is one piece"
    assert broken not in benchmark.started and MANY in benchmark.started
    assert [trial.settings for trial in search.trials_best_first()] == [MANY]


def test_what_is_bad_at_first_look_is_left() -> None:
    """Is a setting that is worse than half of those before, at the sizes of the first look, not measured further?"""
    good: list[Settings] = [{"cells": cells} for cells in (16, 32, 128, 256)]
    good += [{"fragment": size} for size in (16384, 65536, 131072)]
    bad: Settings = {"eager": 16384}
    speed_of = {16384: 0.8}
    benchmark = FormulaBenchmark(
        lambda whole, case: 1.0 if whole == KNOBS.with_defaults({}) else speed_of.get(whole["eager"], 1.1)
    )
    search = run_search(benchmark, [*good, bad])
    left = trial_of(search, bad)
    assert left.state == "left" and {size for _, size in left.gains} == {SIZES[0], SIZES[2]}
    assert left.score == pytest.approx(math.log(0.8) - 2 * math.log(0.97 / 0.8) - 6 * math.log(0.9 / 0.8), abs=0.05)
    assert left not in search.trials_best_first()
    assert {size for _, size in trial_of(search, good[0]).gains} == set(SIZES)
    assert {gain.n for gain in trial_of(search, good[0]).gains.values()} == {2}


# ---- the end of the time


def test_it_ends_when_the_time_is_over() -> None:
    """Is nothing begun after the end, be it by the clock or because somebody interrupts?"""
    assert Deadline(-1).has_passed() and not Deadline(1e9).has_passed()
    stopped = Deadline(1e9)
    stopped.is_interrupted = True
    assert stopped.has_passed()
    for begin in (lambda s: s.run(MODEL, stopped), lambda s: s.run_grid(stopped)):
        search = Search(FormulaBenchmark(hill), lambda trial: None, cases=search_cases(SIZES))
        assert not begin(search) and search.trials == []
    search = Search(FormulaBenchmark(hill), lambda trial: None, cases=search_cases(SIZES))
    search.run_grid(Turns(5))
    assert search.num_untried > 0 and len(search.trials) == 5


def test_it_ends_after_the_trial_that_was_under_way() -> None:
    """Is what was found kept if somebody asks to stop while a setting is measured?"""
    deadline = Turns(ENDLESS)
    third = lambda trial: setattr(deadline, "is_interrupted", len(search.trials) == 3)  # noqa: E731
    search = Search(FormulaBenchmark(hill), third, cases=search_cases(SIZES))
    search.run(MODEL, deadline)
    assert [trial.settings for trial in search.trials] == MODEL[:3]


def test_repair_raises_one_after_the_other() -> None:
    """Is what one constraint raises seen by another that comes before it, and what is at its default left out?"""
    assert satisfy_constraints(KNOBS, {"eager": 262144}) == {"eager": 262144, "fragment": 262144, "segment": 1 << 21}
    assert satisfy_constraints(KNOBS, {"eager": 4096, "cells": 64, "copies": "none"}) == {"copies": "none"}


def test_the_baseline_varies_too() -> None:
    """Where stock's first launch is a little faster at one size than it should be, is what gains elsewhere found all
    the same, since what looks slower then is looked at beside another launch of stock?"""
    benchmark = FormulaBenchmark(lambda whole, case: 1.0)

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        lucky = whole == KNOBS.with_defaults({}) and benchmark.started.count({}) == 1 and case == ("pingpong", 8)
        return 1.06 if lucky else 1.2 if whole["fragment"] == 131072 and case[1] > 8 else 1.0

    benchmark.speed = speed
    found = trial_of(run_search(benchmark, [BIG]), BIG)
    assert found.score > 0.1 and found.gains["pingpong", 8].value == pytest.approx(1.0, abs=0.01)
