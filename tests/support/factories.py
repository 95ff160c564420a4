"""A benchmark whose jobs are a formula: the speed of each setting is known, and so is what a search should find.

Everything above the jobs (pairs, gains, scores, checks) is the real code. No MPI is started and no time is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from random import Random
from types import TracebackType
from typing import Any

from nearfield.base.shared_heap import HEAP_VARIABLE
from nearfield.rules.criterion import COLLECTIVE_PATTERNS, MESSAGE_PATTERNS, search_cases
from nearfield.rules.gains import BenchmarkCase
from nearfield.rules.knobs import Knob, KnobFile, KnobValue, Settings, read_all_knob_files
from nearfield.tune.model import candidate_settings
from nearfield.tune.paired_benchmark import PairedBenchmark
from nearfield.tune.paired_runs import BatchResult, UnusableSetting
from nearfield.tune.search import Deadline, Search, Trial

KNOBS = KnobFile(
    family="made-up",
    since="1",
    transport="formula",
    memory_bytes="cells * fragment + segment",
    knob=tuple(
        Knob(summary="made up", variable=more["name"].upper(), **more)
        for more in (
            {"name": "eager", "type": "bytes", "default": 4096, "low": 1024, "high": 1 << 18, "role": "eager_limit",
             "grid": (4096, 65536)},
            {"name": "fragment", "type": "bytes", "default": 32768, "low": 8192, "high": 1 << 20, "role": "fragment",
             "grid": (32768, 65536, 131072)},
            {"name": "copies", "type": "choice", "default": "kernel", "values": {"kernel": "1", "none": "0"},
             "role": "single_copy", "grid": ("kernel", "none")},
            {"name": "cells", "type": "count", "default": 64, "low": 16, "high": 256, "grid": (64, 128)},
            {"name": "segment", "type": "bytes", "default": 1 << 20, "low": 1 << 19, "high": 1 << 24,
             "role": "segment"},
        )
    ),
    constraints={  # the first needs what the second raises
        "segment >= 8 * fragment": "pieces lie in the segment",
        "fragment >= eager": "a short message is one piece",
    },
)  # fmt: skip
OF_HEAP = next(
    tuple(knob for knob in file.knob if knob.carrier == "heap") for file in read_all_knob_files() if file.shared_heap
)
HEAP_KNOBS = KNOBS.model_copy(update={"shared_heap": True, "knob": KNOBS.knob + OF_HEAP})
PATTERNS = (*MESSAGE_PATTERNS, *COLLECTIVE_PATTERNS)

Speed = Callable[[Settings, BenchmarkCase], float]  # of all knobs, in a case: the baseline's time over the setting's
Faults = Callable[[Settings, str], str]  # what goes wrong at "start", "check" or "visit"; empty: nothing


class FormulaBenchmark(PairedBenchmark):
    """`speed` and `faults` may be replaced between two phases, as a machine may change its mind."""

    def __init__(
        self,
        speed: Speed,
        faults: Faults = lambda settings, moment: "",
        noise: float = 0.003,
        seed: int = 1,
        knobs: KnobFile = KNOBS,
    ) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, nothing, (0, 1), knobs)
        self.speed, self.faults, self.noise = speed, faults, noise
        self.random = Random(seed)
        self.started: list[Settings] = []
        self.flags: Iterator[float] = repeat(50.0)  # between the cores, before and after each visit

    def measure_c2c_latency_ns(self) -> float:
        """Returns the first core-to-core latency of the next pair."""
        return [next(self.flags) for _ in range(4)][0]

    def _make_job(self, sizes: Sequence[int], environment: Mapping[str, str]) -> Any:
        return FormulaJob(self, sizes, environment)


def _value(knob: Knob, text: str) -> KnobValue:
    """Returns the value that an MPI reads from the variable."""
    if knob.values:
        return next(name for name, setting in knob.values.items() if setting == text)
    return text if knob.type == "sizes" else int(text)


class FormulaJob:
    """The part of a ResidentJob that the benchmark and `measure_interleaved_pairs` use."""

    def __init__(self, benchmark: FormulaBenchmark, sizes: Sequence[int], environment: Mapping[str, str]) -> None:
        self.benchmark = benchmark
        heap = dict(item.split("=") for item in environment.get(HEAP_VARIABLE, "").split(",") if item)
        variables = {**environment, **heap}
        self.settings = {
            k.name: _value(k, variables[k.variable]) for k in benchmark.knobs.knob if k.variable in variables
        }
        self.cases = {(pattern, size): 0 for size in sizes for pattern in PATTERNS}

    def __enter__(self) -> FormulaJob:
        self.benchmark.started.append(self.settings)
        self._fail("start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def check_data(self, case: BenchmarkCase) -> None:
        self._fail("check")

    def run_batch(self, case: BenchmarkCase, repetitions: int) -> BatchResult:
        self._fail("visit")
        luck = math.exp(self.benchmark.random.gauss(0, self.benchmark.noise))
        time = 1000 * luck / self.benchmark.speed(self.benchmark.knobs.with_defaults(self.settings), case)
        return BatchResult([time] * repetitions, [next(self.benchmark.flags), next(self.benchmark.flags)])

    def _fail(self, moment: str) -> None:
        if fault := self.benchmark.faults(self.settings, moment):
            raise UnusableSetting(fault)


class Turns(Deadline):
    """A deadline without a clock: it is over after a number of queries."""

    def __init__(self, count: float) -> None:
        super().__init__(math.inf)
        self.count = count

    def has_passed(self) -> bool:
        self.count -= 1
        return self.is_interrupted or self.count < 0


# ---- what searches are tried on

SIZES = (8, 16 << 10, 1 << 20)
UNSEEN = 4 << 10  # a size that is confirmed but not searched
MODEL = candidate_settings(KNOBS, [32 << 10, 1 << 20, 32 << 20], "same-node")
BEST: Settings = {"eager": 65536, "fragment": 131072, "cells": 128}  # on the grid; the model knows nothing of cells
BIG, MANY = {"fragment": 131072}, {"cells": 128}
ENDLESS = math.inf


def hill(whole: Settings, case: BenchmarkCase) -> float:
    """Fastest with BEST, slower with every power of two away from it, in all cases."""
    top = KNOBS.with_defaults(BEST)
    costs = {"eager": 0.05, "fragment": 0.06, "cells": 0.04}
    lost = sum(cost * abs(math.log2(int(whole[name]) / int(top[name]))) for name, cost in costs.items())
    return math.exp(0.25 - lost - 0.1 * (whole["copies"] != top["copies"]))


def scale(gains: dict[str, float]) -> Speed:
    """Each of BIG and MANY, where it is set, multiplies the speed."""

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        return math.prod(gain for name, gain in gains.items() if whole[name] == (BIG | MANY)[name])

    return speed


def rank(*ranking: Settings) -> Speed:
    """These settings are faster than the baseline, the first most; all others as fast as it."""

    def speed(whole: Settings, case: BenchmarkCase) -> float:
        places = [place for place, settings in enumerate(ranking) if KNOBS.with_defaults(settings) == whole]
        return 1.3 - 0.05 * places[0] if places else 1.0

    return speed


def run_search(
    benchmark: FormulaBenchmark, first: list[Settings], turns: float | None = None, **more: object
) -> Search:
    search = Search(benchmark, lambda trial: None, cases=search_cases(SIZES), **more)
    search.run(first, Turns(len(first) if turns is None else turns))
    return search


def trial_of(search: Search, settings: Settings) -> Trial:
    return next(trial for trial in search.trials if trial.settings == settings)
