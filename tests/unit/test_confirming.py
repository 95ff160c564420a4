"""Is what a search found a rule only if it is significantly faster somewhere and found slower nowhere?

On a benchmark whose jobs are a formula (factories.py): nothing here starts an MPI or depends on a clock.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pytest
from factories import (
    BIG,
    ENDLESS,
    KNOBS,
    MANY,
    PATTERNS,
    SIZES,
    UNSEEN,
    FormulaBenchmark,
    Speed,
    Turns,
    rank,
    run_search,
    scale,
)

from nearfield.rules.criterion import MESSAGE_PATTERNS, MIN_GAIN, confirmation_cases
from nearfield.rules.gains import MIN_CONFIRMING_LAUNCHES, MIN_LAUNCHES, BenchmarkCase, TimePair
from nearfield.rules.knobs import Settings
from nearfield.tune.confirm import MAX_FINALISTS, MAX_LAUNCHES_PER_SETTING, PAIRS_PER_LAUNCH, Confirmation
from nearfield.tune.confirmed import ConfirmedGains, make_rule_table
from nearfield.tune.satisfy_constraints import variants_closer_to_default
from nearfield.tune.search import Deadline, Search

pytestmark = pytest.mark.usefixtures("no_waiting")
CASES = confirmation_cases([*SIZES, UNSEEN])


def make_confirmation(benchmark: FormulaBenchmark, search: Search, deadline: Deadline | None = None) -> Confirmation:
    return Confirmation(benchmark, search, CASES, [], deadline or Turns(ENDLESS))


def confirm_search(
    benchmark: FormulaBenchmark, search: Search, deadline: Deadline | None = None
) -> tuple[ConfirmedGains | None, str]:
    """Returns what becomes a rule, and why nothing does."""
    outcome = make_confirmation(benchmark, search, deadline).run()
    return outcome.confirmed_gains, outcome.reason


def search_and_confirm(
    benchmark: FormulaBenchmark, first: list[Settings], deadline: Deadline | None = None
) -> tuple[ConfirmedGains | None, str]:
    """Confirms after a search of these alone, with hardly a play-off: the order is that of the scores."""
    search = run_search(benchmark, first)
    search.rank_finalists(Turns(0))
    benchmark.started.clear()
    return confirm_search(benchmark, search, deadline)


def of_launches(gains: Mapping[BenchmarkCase, Sequence[float]]) -> ConfirmedGains:
    """Returns the judgement of a setting that has these gains, one gain from each launch."""
    pairs = {
        case: [TimePair(ratio, 1.0, launch_number=at) for at, ratio in enumerate(ratios)]
        for case, ratios in gains.items()
    }
    return ConfirmedGains.from_pairs(BIG, pairs, MIN_GAIN)


def stopped() -> Deadline:
    """Returns the deadline of somebody who has requested a stop."""
    deadline = Turns(ENDLESS)
    deadline.is_interrupted = True
    return deadline


def launches(pairs: list[TimePair]) -> int:
    return len({pair.launch_number for pair in pairs})


def slow_unseen(gains: dict[str, float], parameter: str, there: float) -> Speed:
    """As `only`, but one parameter has this speed in streams of the size that the search does not see."""

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        spoils = case == ("stream", UNSEEN) and whole[parameter] == (BIG | MANY)[parameter]
        return there if spoils else scale(gains)(whole, case)

    return speed


def test_a_harmless_winner_is_confirmed_at_every_size() -> None:
    """Is the winner confirmed with its true gain in every case, though a point is slower by what is allowed?"""
    benchmark = FormulaBenchmark(slow_unseen({"fragment": 1.2}, "fragment", 0.98))
    chosen, reason = search_and_confirm(benchmark, [BIG])
    assert chosen and chosen.settings == BIG and reason == ""
    assert set(chosen.gains) == set(CASES) and {pattern for pattern, _ in CASES} == set(PATTERNS)
    for case, gain in chosen.gains.items():
        assert gain.value == pytest.approx(0.98 if case == ("stream", UNSEEN) else 1.2, rel=0.01)
        assert gain.n == launches(chosen.pairs[case]) == MIN_CONFIRMING_LAUNCHES
        assert len(chosen.pairs[case]) == PAIRS_PER_LAUNCH * MIN_CONFIRMING_LAUNCHES
    assert benchmark.started == [{}, BIG] * MIN_CONFIRMING_LAUNCHES, "both jobs are launched anew"


def in_launches(benchmark: FormulaBenchmark, case: BenchmarkCase, *there: float) -> Speed:
    """BIG is 1.2 times as fast as stock, but in one case these, launch by launch; the last from then on."""

    def speed(whole: Settings, one: BenchmarkCase) -> float:
        if whole["fragment"] != 131072:
            return 1.0
        return there[min(len(there), benchmark.started.count(BIG)) - 1] if one == case else 1.2

    return speed


def confirmed_in_launches(
    case: BenchmarkCase, *there: float, deadline: Deadline | None = None
) -> tuple[ConfirmedGains | None, str, int]:
    """BIG, alone, and how often it was launched in all."""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
    search = run_search(benchmark, [BIG])
    search.rank_finalists(Turns(0))
    benchmark.started.clear()
    benchmark.speed = in_launches(benchmark, case, *there)
    return *confirm_search(benchmark, search, deadline), benchmark.started.count(BIG)


@pytest.mark.parametrize("case", [("pingpong", UNSEEN), ("stream", UNSEEN), ("bcast", UNSEEN)], ids=lambda c: c[0])
def test_what_is_slower_in_one_launch_of_six_is_not_slower(case: BenchmarkCase) -> None:
    """Wherever that launch is, and in whichever pattern: is the winner kept, as two launches of the same settings may
    differ by a tenth?"""
    for slow in (0, 2, 5):
        there = [0.85 if launch == slow else 1.0 for launch in range(MIN_CONFIRMING_LAUNCHES)]
        chosen, reason, count = confirmed_in_launches(case, *there)
        assert chosen and chosen.settings == BIG and (reason, count) == ("", MIN_CONFIRMING_LAUNCHES)
        assert chosen.gains[case].value == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("case", [("pingpong", UNSEEN), ("stream", UNSEEN), ("bcast", UNSEEN)], ids=lambda c: c[0])
def test_what_is_slower_in_all_launches_is_refused(case: BenchmarkCase) -> None:
    """Is it measured in as many launches as there may be, and then refused with the case and its speed?"""
    chosen, reason, count = confirmed_in_launches(case, 0.85)
    assert chosen is None and reason == f"{case[0]} of 4 KiB at 0.85 of the baseline's speed"
    assert count >= MAX_LAUNCHES_PER_SETTING


@pytest.mark.parametrize("count", [1, MIN_LAUNCHES, MIN_CONFIRMING_LAUNCHES - 1])
def test_few_launches_refuse_only_what_is_far_below(count: int) -> None:
    """Most launches may lie where the cores seldom were, and do not count. A stream at 0.88 of 0.9 that is allowed: is
    it doubtful then, and refused only from as many launches as hold the median; and is a speed of 0.8 refused?"""
    stream, main = ("stream", UNSEEN), ("pingpong", UNSEEN)
    for ratio, launches, refused in ((0.88, count, False), (0.88, MIN_CONFIRMING_LAUNCHES, True), (0.8, count, True)):
        made = of_launches({main: [1.3] * launches, stream: [ratio] * launches})
        assert [loss.case for loss in made.loss_verdicts] == [stream] and made.slower_cases == (
            [stream] if refused else []
        )


def test_only_what_is_in_doubt_is_measured_on() -> None:
    """If a case is slower in the first six launches and not in the seventh, is it the only one that is measured then,
    and is that enough?"""
    chosen, _, count = confirmed_in_launches(("pingpong", UNSEEN), *[0.9] * MIN_CONFIRMING_LAUNCHES, 1.05)
    assert chosen and count == MIN_CONFIRMING_LAUNCHES + 1
    measured = {case: launches(pairs) for case, pairs in chosen.pairs.items()}
    assert measured.pop(("pingpong", UNSEEN)) == MIN_CONFIRMING_LAUNCHES + 1
    assert set(measured.values()) == {MIN_CONFIRMING_LAUNCHES}


def test_what_is_hopeless_is_not_launched_again() -> None:
    """Is a setting that is far slower in many cases refused after one launch?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
    search = run_search(benchmark, [BIG])
    search.rank_finalists(Turns(0))
    benchmark.started.clear()
    benchmark.speed = scale({"fragment": 0.7})
    chosen, reason = confirm_search(benchmark, search)
    assert chosen is None and "of the baseline's speed" in reason
    assert benchmark.started.count(BIG) == 1


def test_a_gain_that_only_collectives_have_is_no_rule() -> None:
    """Is a gain of collectives alone no rule, since they are guarded but not tuned for?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
    search = run_search(benchmark, [BIG])
    search.rank_finalists(Turns(0))
    benchmark.speed = lambda whole, case: 1.2 if case[0] == "bcast" and whole["fragment"] == 131072 else 1.0
    assert confirm_search(benchmark, search) == (None, "nothing was faster than the defaults")


@pytest.mark.parametrize("moved_ns", [20.0, 230.0], ids=["nearer", "farther"])
def test_it_waits_until_the_cores_are_where_they_were_searched(moved_ns: float) -> None:
    """Wherever they are meanwhile: is a rule for where most was searched; and is not waited beyond the end?"""
    for deadline, expected in ((Turns(ENDLESS), 50.0), (Turns(3), moved_ns)):
        benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
        search = run_search(benchmark, [BIG])
        search.rank_finalists(Turns(0))
        benchmark.flags = itertools.chain([moved_ns] * 40, itertools.repeat(50.0 if deadline.count > 3 else moved_ns))
        chosen, _ = confirm_search(benchmark, search, deadline)
        assert chosen and chosen.c2c_latency_ns == expected


# ---- the end of the time


def test_the_deadline_is_heeded() -> None:
    """When the time is over, is it reported after one launch that nothing could be confirmed?"""
    chosen, reason, count = confirmed_in_launches(("pingpong", UNSEEN), 1.2, deadline=Deadline(-1))
    assert (chosen, count) == (None, 1) and "only 1 of the 3 to 6 launches" in reason


@pytest.mark.parametrize("there", [1.0, 0.8], ids=["gain-nothing", "are-slower"])
@pytest.mark.parametrize(
    ("deadline", "looked"), [(Deadline(-1), 1), (stopped(), 1), (Turns(ENDLESS), MAX_FINALISTS)],
    ids=["late", "stopped", "in-time"],
)  # fmt: skip
def test_not_all_finalists_are_tried_when_it_is_late(deadline: Deadline, looked: int, there: float) -> None:
    """Where none of many finalists holds, be it that they are slower or no faster, are as many looked at as there is
    time for?"""
    many: list[Settings] = [{"cells": cells} for cells in (16, 32, 128, 256)]
    many += [{"fragment": size} for size in (16384, 65536, 131072)]
    benchmark = FormulaBenchmark(rank(*many))
    search = run_search(benchmark, many)
    search.rank_finalists(Turns(0))
    benchmark.started.clear()
    benchmark.speed = lambda whole, case: 1.0 if whole == KNOBS.with_defaults({}) else there
    assert confirm_search(benchmark, search, deadline)[0] is None
    assert len({tuple(settings.items()) for settings in benchmark.started if settings in many}) == looked


def test_a_stop_confirms_the_best() -> None:
    """After Ctrl-C: is the best confirmed, in one launch, and kept; and one that looks slower still not kept?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2, "cells": 1.1}))
    chosen, _ = search_and_confirm(benchmark, [MANY, BIG], stopped())
    assert chosen and chosen.settings == BIG and benchmark.started == [{}, BIG]
    assert {gain.n for gain in chosen.gains.values()} == {PAIRS_PER_LAUNCH}
    slow = FormulaBenchmark(slow_unseen({"fragment": 1.2}, "fragment", 0.8))
    assert search_and_confirm(slow, [BIG], stopped())[0] is None and slow.started == [{}, BIG]


def test_a_stop_ends_mending() -> None:
    """Is nothing more launched than what was under way?"""
    deadline = Turns(ENDLESS)

    def faults(settings: Settings, moment: str) -> str:  # somebody presses Ctrl-C while the first mend is looked at
        deadline.is_interrupted |= settings not in ({}, BIG | MANY)
        return ""

    benchmark = FormulaBenchmark(slow_unseen({"fragment": 1.2, "cells": 1.1}, "cells", 0.8))
    search = run_search(benchmark, [BIG | MANY])
    search.rank_finalists(Turns(0))
    benchmark.started.clear()
    benchmark.faults = faults
    chosen, reason = confirm_search(benchmark, search, deadline)
    assert chosen is None and reason == "the search was interrupted; stream of 4 KiB at 0.80 of the baseline's speed"
    assert len([settings for settings in benchmark.started if settings not in ({}, BIG | MANY)]) == 1


# ---- mending


def test_a_winner_that_is_slower_somewhere_is_mended() -> None:
    """Is the parameter that makes one size slower put back, the other kept, and that preferred to the next best?"""
    spoilt = slow_unseen({"fragment": 1.2, "cells": 1.1}, "cells", 0.8)
    benchmark = FormulaBenchmark(lambda whole, case: spoilt(whole, case) * (1.05 if whole["copies"] == "none" else 1.0))
    chosen, _ = search_and_confirm(benchmark, [BIG | MANY, {"copies": "none"}])
    assert chosen and chosen.settings == BIG
    assert chosen.slower_cases == []


def test_a_value_that_is_too_large_is_made_smaller() -> None:
    """Where a limit is too high for one size only, is it lowered as far as it must be, and not given up?"""

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        spoils = case == ("stream", UNSEEN) and int(whole["eager"]) > 16384
        return 0.8 if spoils else 1.2 if int(whole["eager"]) > 8192 else 1.0

    chosen, _ = search_and_confirm(FormulaBenchmark(speed), [{"eager": 65536, "fragment": 131072}])
    assert chosen and chosen.settings["eager"] == 16384


def test_a_limit_comes_down_to_what_is_slow_at_once() -> None:
    """Is the first change to try the one that leaves the slow sizes to the default's way, however far that is?"""
    settings: Settings = {"eager": 1 << 18, "fragment": 1 << 18, "segment": 1 << 24, "cells": 128}
    assert variants_closer_to_default(KNOBS, settings, 20_000)[0] == {**settings, "eager": 16384}
    assert variants_closer_to_default(KNOBS, settings, 2048)[0] == {**settings, "eager": 131072}, (
        "the default's way begins above that"
    )


def test_a_winner_is_mended_step_by_step() -> None:
    """If two parameters each make a size slower, are both put back, one after the other, and the third kept?"""
    whole_winner: Settings = BIG | MANY | {"eager": 16384}

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        gain = 1.2 if whole["eager"] == 16384 else 1.0
        if case != ("stream", UNSEEN):
            return gain
        return gain * (0.6 if whole["fragment"] == 131072 else 1.0) * (0.7 if whole["cells"] == 128 else 1.0)

    chosen, _ = search_and_confirm(FormulaBenchmark(speed), [whole_winner])
    assert chosen and chosen.settings == {"eager": 16384}


def test_a_winner_that_cannot_be_mended_is_refused() -> None:
    """Is the next best taken then; and without one, is it stock, and said where it would have been how slow?"""
    benchmark = FormulaBenchmark(slow_unseen({"fragment": 1.2, "cells": 1.1}, "fragment", 0.8))
    chosen, _ = search_and_confirm(benchmark, [BIG, MANY])
    assert chosen and chosen.settings == MANY
    assert search_and_confirm(benchmark, [BIG]) == (None, "stream of 4 KiB at 0.80 of the baseline's speed")


# ---- what a rule says


def test_what_is_faster_in_one_launch_only_is_no_rule() -> None:
    """If the winner is faster all over in its first launch, and as stock in the second, is it left?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
    search = run_search(benchmark, [BIG])
    search.rank_finalists(Turns(0))
    benchmark.started.clear()
    benchmark.speed = lambda whole, case: scale({"fragment": 1.2 if benchmark.started.count(BIG) < 2 else 1.0})(
        whole, case
    )
    assert confirm_search(benchmark, search)[0] is None


def test_a_rule_tells_that_the_cores_moved() -> None:
    """Does it say how far apart they were, for which share of the pairs? And is a pair during which they moved taken
    again?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
    benchmark.flags = itertools.cycle([50.0] * 12 + [50.0, 50.0, 230.0, 230.0] + [230.0] * 8)
    chosen, _ = search_and_confirm(benchmark, [BIG])
    assert {pair.c2c_latency_ns for pair in benchmark.all_pairs} == {50.0, 230.0}
    near, far = make_rule_table(KNOBS, "same-node", (0, 1), 2, chosen, "", [], benchmark.all_pairs).latency
    assert (near.c2c_latency_ns, far.c2c_latency_ns) == (50.0, 230.0)
    assert (near.share, far.share) == pytest.approx((0.6, 0.4), abs=0.02)  # three pairs near, one moved, two far


def test_a_rule_is_for_where_the_cores_mostly_were() -> None:
    """If they are near most of the time, is a setting that loses only where they are far a rule, for near; and does it
    say so? Is it measured on until every case has enough launches there?"""
    benchmark = FormulaBenchmark(scale({}))
    now = 50.0

    def flags() -> Iterator[float]:
        nonlocal now
        for now in itertools.cycle([50.0] * 90 + [230.0] * 40):
            yield from [now] * 4  # of one pair

    benchmark.flags = flags()
    benchmark.speed = lambda whole, case: (1.2 if now < 100 else 0.5) if whole["fragment"] == 131072 else 1.0
    chosen, _ = search_and_confirm(benchmark, [BIG])
    assert chosen and chosen.settings == BIG
    assert make_rule_table(KNOBS, "same-node", (0, 1), 2, chosen, "", []).c2c_latency_ns == 50.0
    for pairs in chosen.pairs.values():
        assert launches(pairs) >= MIN_LAUNCHES and {pair.c2c_latency_ns for pair in pairs} == {50.0}


@pytest.mark.parametrize(("moved_gain", "chosen"), [(1.1, True), (0.5, False)], ids=["gains", "loses"])
def test_a_case_measured_only_in_another_placement_counts_as_it_was_there(moved_gain: float, chosen: bool) -> None:
    """Where the cores moved each time that one case was measured, is a setting judged by what that case showed there,
    when there is no time to go on, instead of being given up for want of it?"""
    benchmark = FormulaBenchmark(scale({"fragment": 1.2}))
    search = run_search(benchmark, [BIG])
    search.rank_finalists(Turns(0))
    far, now = CASES[-1], 50.0

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        nonlocal now
        now = 230.0 if case == far else 50.0  # what the flags of this visit take
        return 1.0 if whole["fragment"] != 131072 else moved_gain if case == far else 1.2

    benchmark.speed, benchmark.flags = speed, (now for _ in itertools.count())
    late = Deadline(ENDLESS)
    late.has_passed_hard_end = lambda: benchmark.started.count(BIG) >= 1 + MIN_LAUNCHES  # type: ignore[method-assign]
    found, reason = confirm_search(benchmark, search, late)
    assert bool(found) == chosen, reason
    if found:
        assert {pair.c2c_latency_ns for pair in found.pairs[far]} == {230.0}
        assert {pair.c2c_latency_ns for case, pairs in found.pairs.items() if case != far for pair in pairs} == {50.0}


def test_no_mending_by_what_must_not_be_tried() -> None:
    """Is a rule that would need too much memory without its small pieces not mended by leaving these out?"""
    small: Settings = {"fragment": 8192, "cells": 256}

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        return 0.8 if case == ("stream", UNSEEN) and whole["fragment"] == 8192 else 1.2 if whole["cells"] == 256 else 1

    benchmark = FormulaBenchmark(speed)
    search = run_search(
        benchmark,
        [small],
        get_rejection_reason=lambda s: "too big" if KNOBS.shared_memory_bytes(s, 2) > 4 << 20 else None,
    )
    search.rank_finalists(Turns(0))
    assert confirm_search(benchmark, search) == (None, "stream of 4 KiB at 0.80 of the baseline's speed")


def test_no_mending_by_what_is_as_slow() -> None:
    """If a size is slower whichever parameter is put back, is nothing proposed?"""
    benchmark = FormulaBenchmark(lambda whole, case: 0.8 if whole["fragment"] != 32768 or whole["cells"] != 64 else 1.0)
    with benchmark.compare_with_baseline(BIG | MANY, [(pattern, UNSEEN) for pattern in PATTERNS]) as comparison:
        comparison.measure(6)
    slower = ConfirmedGains(BIG | MANY, comparison.gains(), dict(comparison.pairs_by_case))
    assert len(slower.slower_cases) == len(PATTERNS)
    assert make_confirmation(benchmark, run_search(benchmark, []))._find_repaired_settings(slower) is None


def test_what_fails_while_it_is_confirmed_is_refused() -> None:
    """Is the next best taken if the winner dies only now; and is the reason kept if there is none?"""
    for first, expected in (([BIG, MANY], MANY), ([BIG], None)):
        benchmark = FormulaBenchmark(rank(BIG, MANY))
        search = run_search(benchmark, first)
        search.rank_finalists(Turns(0))
        benchmark.faults = lambda settings, moment: "hangs: no answer" if settings == BIG else ""
        chosen, reason = confirm_search(benchmark, search)
        assert (chosen.settings if chosen else None) == expected
        assert reason == ("" if expected else "hangs: no answer")


@pytest.mark.parametrize(
    ("long", "short", "expected"),
    [
        ((1.02, 1.03, 1.03, 1.04), (0.9, 1.0, 1.0, 1.1), True),  # one range is enough, however noisy the other
        ((1.0, 1.03, 1.03, 1.06), (0.9, 1.0, 1.0, 1.1), False),  # by chance, of several ranges
        ((1.02, 1.03, 1.03, 1.04), (0.94, 0.95, 0.95, 0.96), False),  # slower over all
    ],
)
def test_a_gain_in_one_range_is_enough_if_it_is_sure(
    long: tuple[float, ...], short: tuple[float, ...], expected: bool
) -> None:
    """Is it, when these are the gains in as many launches?"""
    assert of_launches({("stream", 8): short, ("stream", 1 << 20): long}).has_gain_in_a_range([4 << 10]) == expected


def test_a_launch_that_slows_all_patterns_is_one_launch() -> None:
    """Is a size not slower because four patterns are, in the launches in which that happened to all of them?"""
    launches = (0.95, 0.955, 0.96, 0.96, 0.965, 1.0)
    found = of_launches({(pattern, 64): launches for pattern in MESSAGE_PATTERNS})
    assert found.loss_verdicts == []
    all_slower = (*launches[:-1], 0.965)
    assert len(of_launches({(pattern, 64): all_slower for pattern in MESSAGE_PATTERNS}).slower_cases) == len(
        MESSAGE_PATTERNS
    )


def test_what_is_only_probably_slower_is_in_doubt() -> None:
    """Is it measured again, and not refused?"""
    found = of_launches({("pingpong", 8): (0.94, 0.95, 0.96, 0.96, 0.97, 0.985)})
    assert [(loss.case, loss.is_significant) for loss in found.loss_verdicts] == [(("pingpong", 8), False)]
