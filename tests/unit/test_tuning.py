"""Does a whole search with its confirmation make a rule where a setting gains, and none where none does?

The jobs of the benchmark are a formula (factories.py): nothing here starts an MPI or depends on a clock.
"""

import math
from typing import Any

import pytest
from factories import (
    BEST,
    BIG,
    ENDLESS,
    KNOBS,
    MANY,
    SIZES,
    FormulaBenchmark,
    hill,
    run_search,
    scale,
)

from nearfield.base.topology import Topology
from nearfield.rules.criterion import MESSAGE_PATTERNS, confirmation_cases
from nearfield.rules.schema import UndecidedTable
from nearfield.tune.confirmed import make_tried_table
from nearfield.tune.search import Trial
from nearfield.tune.tuning import TuneRequest, Tuning

pytestmark = pytest.mark.usefixtures("no_waiting")


def tuned(benchmark: FormulaBenchmark, **more: object) -> tuple[Any, list[Trial]]:
    topology = Topology.from_synthetic("package:1 l3:1 l2:2 core:1 pu:1")
    made = Tuning(TuneRequest(exhaustive=True, sizes=SIZES, ranks_per_node=2, **more))
    return made._tune_distance(benchmark, "same-node", (0, 1), topology, ENDLESS)


def test_a_rule_is_what_is_known_to_be_best() -> None:
    """From search to rule: is the known best its parameters, and the known gain its gain?"""
    rule, trials = tuned(FormulaBenchmark(hill))
    assert rule.parameters == BEST and rule.reason == ""
    expected = hill(KNOBS.with_defaults(BEST), ("stream", 8)) / hill(KNOBS.with_defaults({}), ("stream", 8))
    assert rule.gain and rule.gain.low < expected < rule.gain.high
    assert rule.gain.value == pytest.approx(expected, rel=0.01)
    assert {(point.pattern, point.size_bytes) for point in rule.point} == set(confirmation_cases(SIZES))
    assert rule.memory_per_rank_bytes == 128 * 131072 + (1 << 20)
    assert len(trials) == 20


def test_no_rule_where_stock_is_best() -> None:
    rule, _ = tuned(FormulaBenchmark(lambda whole, case: 1.0 if whole == KNOBS.with_defaults({}) else 0.9))
    assert (rule.parameters, rule.gain, rule.reason) == ({}, None, "nothing was faster than the defaults")


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.06])
@pytest.mark.parametrize("seed", range(5))
def test_no_rule_where_nothing_gains(noise: float, seed: int) -> None:
    """Where every setting is as fast as stock, is luck, of which there is plenty among many settings, no rule? Are the
    defaults then said to be best, unless the measurements are too noisy to exclude a gain of a twentieth?"""
    verdict, _ = tuned(FormulaBenchmark(lambda whole, case: 1.0, noise=noise, seed=seed))
    if isinstance(verdict, UndecidedTable):
        assert noise == 0.06 and "is not significant" in verdict.reason
    else:
        assert (verdict.parameters, verdict.gain) == ({}, None) and verdict.reason


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gains", [{8: 1.03}, {16 << 10: 1.03}, {8: 1.01, 16 << 10: 1.01, 1 << 20: 1.01}], ids=str)
def test_a_small_gain_is_a_rule(gains: dict[int, float], seed: int) -> None:
    """Is what gains three hundredths at one range of sizes, or one at all, found, and what gains nothing not in it?"""
    benchmark = FormulaBenchmark(
        lambda whole, case: gains.get(case[1], 1.0) if whole["fragment"] == 131072 else 1.0, noise=0.002, seed=seed
    )
    rule, _ = tuned(benchmark)
    assert rule.parameters == BIG
    logs = [
        math.log(gains.get(size, 1.0)) for pattern, size in confirmation_cases(SIZES) if pattern in MESSAGE_PATTERNS
    ]
    assert rule.gain and math.log(rule.gain.value) == pytest.approx(math.fsum(logs) / len(logs), abs=0.002)


def test_a_refused_setting_that_gains_more_is_reported() -> None:
    """Is a setting that is half as fast again, and a tenth slower at one size, reported with what allows it; and then
    chosen; and one that is far slower there not reported?"""
    for there, expected in ((0.88, "with --max-regression 15%: pingpong of 8 B would be at 0.88"), (0.5, "")):
        benchmark = FormulaBenchmark(
            lambda whole, case, there=there: (
                (there if case == ("pingpong", 8) else 1.5) if whole["fragment"] == 131072 else 1.0
            )
        )
        rule, _ = tuned(benchmark)
        assert (rule.parameters, rule.beyond.partition("sizes ")[2]) == ({}, expected)
        rule, _ = tuned(benchmark, never_below=0.85)
        assert rule.parameters == (BIG if expected else {}) and rule.beyond == ""


def test_a_rule_keeps_to_the_memory() -> None:
    """Is what needs more memory than is allowed never started, and the best of the rest chosen?"""
    benchmark, limit = FormulaBenchmark(hill), 10 << 20
    rule, trials = tuned(benchmark, memory_limit_bytes=limit)
    assert max(KNOBS.shared_memory_bytes(settings, 2) for settings in benchmark.started) <= limit
    assert rule.parameters == {"eager": 65536, "fragment": 131072}
    assert any("MiB per rank" in trial.reason for trial in trials)


def test_what_was_tried_is_counted_by_what_came_of_it() -> None:
    """Is what only needs too much memory distinguished from what this MPI fails with?"""
    benchmark = FormulaBenchmark(
        scale({"cells": 1.1}), lambda settings, now: "dies" if settings == {"copies": "none"} else ""
    )
    search = run_search(
        benchmark,
        [BIG, MANY, {"copies": "none"}],
        get_rejection_reason=lambda settings: "too big" if "fragment" in settings else None,
    )
    tried = make_tried_table(search.trials)
    assert (tried.measured, tried.left, tried.refused, tried.unfit) == (1, 0, 1, ["copies = none: dies"])
