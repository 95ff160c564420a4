"""Scores pairs of measured and simulated times: the deviation by scenario and metric, the order of buffer states, and
the steps at protocol switches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean, pstdev
from typing import Any

from nearfield.base.estimates import Estimate
from nearfield.profile.schema import Switch
from nearfield.validate.cases import RecordKey, TimePair, iterate_curves

MIN_DIFFERENT_RATIO = 1.10  # ratio of two measured times from which they count as different
STEP_KINDS = ("single-copy", "eager-limit")
MAX_STEP_SIZE_RATIO = 1.25  # maximum ratio of the sizes just after and before a step


@dataclass(frozen=True)
class Score:
    """The deviation of simulated times from measured ones. Factors are at least 1, except `mean`, which is below 1 if
    simulated times are too short."""

    scenario: str
    metric: str
    cases: int
    mean: float  # geometric mean of simulated over measured time
    spread: float  # one standard deviation, as a factor
    error: float  # mean absolute logarithm of the ratio, as a factor
    repeat: float | None  # error of a second measurement against the first; None without one
    stable_cases: int
    stable_error: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StateOrder:
    """The number of pairs of buffer states with different measured times, and how many of them have the same order in
    the simulation."""

    right_count: int
    all: int


@dataclass(frozen=True)
class StepScore:
    """The step of one curve at a protocol switch, as the ratio of the time after it to the time before it."""

    kind: str
    bytes: int
    curve: str
    measured: float
    simulated: float
    described_bytes: int | None

    @property
    def is_in_place(self) -> bool:
        return self.described_bytes == self.bytes

    @property
    def has_right_sign(self) -> bool:
        """Returns whether measured and simulated times both rise, both fall, or both stay within 10 %."""
        return _direction(self.measured) == _direction(self.simulated)

    @property
    def error(self) -> float:
        return math.exp(abs(math.log(self.simulated / self.measured)))


def scores_by_metric(pairs: Iterable[TimePair], repeats: Mapping[RecordKey, float] | None = None) -> list[Score]:
    """Returns a score for each scenario and metric. `repeats` has the times of a second measurement."""
    groups: dict[tuple[str, str], list[TimePair]] = {}
    for pair in pairs:
        groups.setdefault((pair.row["scenario"], pair.row["metric"]), []).append(pair)
    return [score_pairs(*names, group, repeats) for names, group in groups.items()]


def score_pairs(
    scenario: str, metric: str, group: list[TimePair], repeats: Mapping[RecordKey, float] | None = None
) -> Score:
    """Returns the score of a nonempty list of pairs."""
    logs = [math.log(pair.ratio) for pair in group]
    stable = [math.log(pair.ratio) for pair in group if pair.stable]
    again = [math.log(repeats[pair.key] / pair.measured.value) for pair in group if repeats and pair.key in repeats]
    return Score(
        scenario,
        metric,
        len(group),
        math.exp(fmean(logs)),
        math.exp(pstdev(logs)),
        mean_factor(logs),
        mean_factor(again) if again else None,
        len(stable),
        mean_factor(stable) if stable else None,
    )


def mean_factor(logs: Iterable[float]) -> float:
    """Returns the mean absolute value of the logarithms as a factor."""
    return math.exp(fmean(abs(one) for one in logs))


def interval_factor(group: Iterable[TimePair]) -> float:
    """Returns the mean half width of the measured intervals as a factor. The intervals cover several launches."""
    return math.exp(fmean(math.log(_half_width_factor(pair.measured)) for pair in group))


def _half_width_factor(one: Estimate) -> float:
    return math.sqrt(one.high / one.low) if one.low > 0 else one.high / one.value


def order_of_states(pairs: list[TimePair]) -> StateOrder:
    """Returns in how many pairs of buffer states the simulation has the measured order, among pairs of one message size
    whose measured half round trips differ by MIN_DIFFERENT_RATIO."""
    by_size: dict[int, list[TimePair]] = {}
    for pair in pairs:
        if pair.row["scenario"] == "pingpong" and pair.row["metric"] == "half_round_trip":
            by_size.setdefault(pair.row["size_bytes"], []).append(pair)
    right = decided = 0
    for group in by_size.values():
        for a, b in combinations(group, 2):
            slow, fast = (a, b) if a.measured.value > b.measured.value else (b, a)
            if slow.measured.value >= MIN_DIFFERENT_RATIO * fast.measured.value:
                decided += 1
                right += slow.simulated > fast.simulated
    return StateOrder(right, decided)


def score_steps(pairs: list[TimePair], switches: Iterable[Switch], described_bytes: int | None) -> list[StepScore]:
    """Returns the steps of the half round trips at the protocol switches that the profile found. `described_bytes` is
    the switch size of the machine's description."""
    found = {}
    for switch in switches:
        if switch.kind not in STEP_KINDS:
            continue
        for key, curve in iterate_curves(pairs, "pingpong", "half_round_trip"):
            before = max((size for size in curve if size <= switch.bytes), default=None)
            after = min((size for size in curve if size > switch.bytes), default=None)
            if before is None or after is None or after > MAX_STEP_SIZE_RATIO * before:
                continue
            name = ", ".join(str(value) for _, value in key[1])
            measured = curve[after].measured.value / curve[before].measured.value
            simulated = curve[after].simulated / curve[before].simulated
            step = StepScore(switch.kind, switch.bytes, name, measured, simulated, described_bytes)
            found[switch.bytes, name] = step
    return list(found.values())


def _direction(factor: float) -> int:
    return 0 if 1 / MIN_DIFFERENT_RATIO < factor < MIN_DIFFERENT_RATIO else 1 if factor > 1 else -1
