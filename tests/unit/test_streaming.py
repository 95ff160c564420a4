"""Are the sizes that the shared heap copies in a way of their own those at which that is faster, and does a search find
them?

The jobs of the benchmark are a formula (factories.py): nothing here starts an MPI or depends on a clock.
"""

import math
from collections.abc import Mapping, Sequence

import pytest
from factories import BIG, ENDLESS, HEAP_KNOBS, KNOBS, FormulaBenchmark, Turns

from nearfield.base.paired import Gain
from nearfield.rules.criterion import MESSAGE_PATTERNS, search_cases
from nearfield.rules.gains import BenchmarkCase
from nearfield.rules.knobs import ALL_SIZES, NO_SIZES, Settings, is_size_list
from nearfield.tune.model import candidate_settings, heap_only_settings
from nearfield.tune.search import Deadline, Search, Trial
from nearfield.tune.size_ranges import find_faster_size_ranges

K = 1 << 10
SIZES = (8, 4 * K, 64 * K, 256 * K, 1024 * K, 4096 * K)


def gains(values: Mapping[int, float], other: float = 1.0) -> dict[BenchmarkCase, Gain]:
    """Returns times of all message patterns; `other` is the time at the sizes that are not named."""
    found = {size: values.get(size, other) for size in SIZES}
    return {
        (pattern, size): Gain(value, value, value, 3) for size, value in found.items() for pattern in MESSAGE_PATTERNS
    }


@pytest.mark.parametrize(
    ("faster", "expected"),
    [
        ((), "never"),
        ((64 * K,), f"{64 * K}-{256 * K - 1}"),
        ((64 * K, 256 * K), f"{64 * K}-{1024 * K - 1}"),
        ((4 * K, 256 * K, 1024 * K), f"{4 * K}-{64 * K - 1}+{256 * K}-{4096 * K - 1}"),
        ((1024 * K, 4096 * K), f"{1024 * K}-"),
        ((64 * K, 4096 * K), f"{64 * K}-{256 * K - 1}+{4096 * K}-"),
        (SIZES, f"{4 * K}-"),
        ((8,), "never"),
    ],
)
def test_sizes_become_ranges(faster: tuple[int, ...], expected: str) -> None:
    """Does each size stand for all up to the next, neighbours for one range, the longest for all beyond; and are sizes
    that the heap does not copy left out?"""
    found = find_faster_size_ranges(gains({}), gains(dict.fromkeys(faster, 1.2)))
    assert found == expected and is_size_list(found)


def test_streaming_must_be_worth_it() -> None:
    """Is it compared with copying through the caches, not with stock, and is a little faster not enough?"""
    assert find_faster_size_ranges(gains({}, 1.5), gains({}, 1.4)) == NO_SIZES
    assert find_faster_size_ranges(gains({}, 0.8), gains({}, 0.9)) == f"{4 * K}-"
    assert find_faster_size_ranges(gains({}), gains({}, 1.02)) == NO_SIZES


def test_all_patterns_decide_together() -> None:
    """Is a size streamed if it gains more in one pattern than it loses in the others, and collectives do not count?"""
    always = gains({}) | {("use", 64 * K): Gain(2.0, 2.0, 2.0, 3), ("stream", 64 * K): Gain(0.7, 0.7, 0.7, 3)}
    assert find_faster_size_ranges(gains({}), always) == f"{64 * K}-{256 * K - 1}"
    bcast = ("bcast", 4 * K)
    assert (
        find_faster_size_ranges(gains({}) | {bcast: Gain(1, 1, 1, 3)}, gains({}) | {bcast: Gain(9, 9, 9, 3)})
        == NO_SIZES
    )


def test_only_what_both_measured_counts() -> None:
    """Where cores moved, cases may be missing in either: is a pattern that one lacks left out in both, and a size that
    one lacks altogether passed over?"""
    never, always = gains({}), gains({}, 1.2)
    del always["pingpong", 64 * K]
    never["pingpong", 64 * K] = Gain(9.0, 9.0, 9.0, 3)
    assert find_faster_size_ranges(never, always) == f"{4 * K}-"
    always = {case: gain for case, gain in always.items() if case[1] != 1024 * K}
    assert find_faster_size_ranges(never, always) == f"{4 * K}-"
    assert find_faster_size_ranges({}, always) == find_faster_size_ranges(never, {}) == NO_SIZES


# ---- in a search


def is_among(case: BenchmarkCase, sizes: object) -> bool:
    first, _, last = str(sizes).partition("-")
    return first != NO_SIZES and int(first) <= case[1] <= (float(last) if last else math.inf)


def heap_speed(whole: Settings, case: BenchmarkCase) -> float:
    """The heap gains 1.1 at long messages; streaming 1.2 more from 256 KiB on, help as much from 1 MiB on; each costs
    as much below."""
    if whole["shared_heap"] == "off" or case[1] < 4 * K:
        return 1.0
    speed = 1.1
    for way, least in (("stream", 256 * K), ("cooperative_copy", 1024 * K)):
        if is_among(case, whole[way]):
            speed *= 1.2 if case[1] >= least else 1 / 1.2
    return speed


def heap_search(benchmark: FormulaBenchmark) -> tuple[Search, list[Trial]]:
    reported: list[Trial] = []
    return Search(benchmark, reported.append, cases=search_cases(SIZES)), reported


BEST = {"shared_heap": "on", "stream": f"{256 * K}-", "cooperative_copy": f"{1024 * K}-"}


def ways(trials: Sequence[Trial]) -> list[tuple[object, object]]:
    return [(trial.settings.get("stream"), trial.settings.get("cooperative_copy")) for trial in trials]


def test_the_heap_is_used_in_the_best_way() -> None:
    """Is it measured plain, streaming and with help, are the sizes composed of these, and is that measured, too, best
    of all, and what the search takes for all settings with the heap?"""
    benchmark = FormulaBenchmark(heap_speed, knobs=HEAP_KNOBS)
    search, reported = heap_search(benchmark)
    best = search.find_best_heap_settings(Turns(ENDLESS))
    assert best == BEST
    composed = BEST["stream"], BEST["cooperative_copy"]
    assert ways(reported) == [(NO_SIZES, NO_SIZES), (ALL_SIZES, NO_SIZES), (NO_SIZES, ALL_SIZES), composed]
    assert search.trials_best_first()[0].settings == best
    search.run(candidate_settings(HEAP_KNOBS, [32 * K, 1 << 20, 32 << 20], "same-node", best), Turns(12))
    with_heap = [trial for trial in reported[4:] if "shared_heap" in trial.settings]
    assert set(ways(with_heap)) == {composed}
    assert set(ways([trial for trial in reported[4:] if trial not in with_heap])) == {(None, None)}
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == best


def test_without_a_heap_nothing_is_tried() -> None:
    """Does an MPI that has no knob for it cost no launch, and no candidate either that is none without it?"""
    benchmark = FormulaBenchmark(heap_speed)
    search, reported = heap_search(benchmark)
    assert search.find_best_heap_settings(Turns(ENDLESS)) == {} and reported == [] and benchmark.started == []


@pytest.mark.parametrize(
    ("failing", "best", "tried"),
    [
        ({"stream": ALL_SIZES}, BEST | {"stream": NO_SIZES}, 4),
        ({"cooperative_copy": ALL_SIZES}, BEST | {"cooperative_copy": NO_SIZES}, 4),
        (
            {"cooperative_copy": BEST["cooperative_copy"], "stream": BEST["stream"]},
            {"shared_heap": "on", "stream": NO_SIZES, "cooperative_copy": NO_SIZES},
            4,
        ),
        ({"stream": NO_SIZES, "cooperative_copy": NO_SIZES}, {}, 1),
    ],
)
def test_a_heap_that_fails_is_used_as_far_as_it_works(failing: Settings, best: Settings, tried: int) -> None:
    """Is it used without streaming or help where that fails, plainly where only both fail, and not at all where it
    fails altogether; and does the search then keep to that?"""
    benchmark = FormulaBenchmark(
        heap_speed, lambda s, moment: "dies" if failing.items() <= s.items() else "", knobs=HEAP_KNOBS
    )
    search, reported = heap_search(benchmark)
    assert search.find_best_heap_settings(Turns(ENDLESS)) == best
    assert len(reported) == tried
    proposed = candidate_settings(HEAP_KNOBS, [32 * K, 1 << 20, 32 << 20], "same-node", best)
    search.run(proposed, Turns(len(proposed)))
    later = [settings for settings in [*proposed, *(t.settings for t in reported[tried:])] if "shared_heap" in settings]
    assert all(best and best.items() <= settings.items() for settings in later)


@pytest.mark.parametrize("turns", range(5))
def test_the_heap_is_not_looked_at_after_the_end(turns: int) -> None:
    """If the time is over, is no further launch made, and what is known by then used?"""
    search, reported = heap_search(FormulaBenchmark(heap_speed, knobs=HEAP_KNOBS))
    best = search.find_best_heap_settings(Turns(turns))
    assert len(reported) == turns
    assert best == ({} if turns == 0 else reported[3].settings if turns == 4 else reported[0].settings)


def test_a_stop_ends_the_look_at_the_heap() -> None:
    """If somebody asks to stop meanwhile, is no further launch made?"""
    deadline = Deadline(math.inf)
    search = Search(
        FormulaBenchmark(heap_speed, knobs=HEAP_KNOBS),
        lambda trial: setattr(deadline, "is_interrupted", True),
        cases=search_cases(SIZES),
    )
    search.find_best_heap_settings(deadline)
    assert len(search.trials) == 1


def test_streaming_goes_with_the_heap() -> None:
    """Where the heap gains nothing beside another parameter, is it put back together with its sizes?"""
    benchmark = FormulaBenchmark(lambda whole, case: 1.2 if whole["fragment"] == 131072 else 1.0, knobs=HEAP_KNOBS)
    search, _ = heap_search(benchmark)
    search.run([BIG | heap_only_settings(HEAP_KNOBS, {"stream": NO_SIZES})], Turns(1))
    search.rank_finalists(Turns(ENDLESS))
    assert search.winner == BIG
    assert heap_only_settings(KNOBS, {}) == {} and heap_only_settings(HEAP_KNOBS, {"stream": "16777216-"}) == {
        "shared_heap": "on"
    }
