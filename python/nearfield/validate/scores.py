"""Scores pairs of measured and simulated times by three criteria: the deviation by scenario and metric, whether buffer
states have the same order of times, and the steps of the time at protocol switches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean, pstdev
from typing import Any

from nearfield.base.estimates import Estimate
from nearfield.profile.schema import ProtocolSwitch
from nearfield.validate.cases import RecordKey, TimePair, iterate_curves

MIN_DIFFERENT_RATIO = 1.10  # measured times count as different from this ratio on
STEP_KINDS = ("single-copy", "eager-limit")
MAX_STEP_SIZE_RATIO = 1.25  # maximum ratio of the sizes just after and just before a step


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

    num_right: int
    num_pairs: int


@dataclass(frozen=True)
class StepScore:
    """The step of one curve at a protocol switch: the ratio of the time just after the switch to the time just before
    it, measured and simulated."""

    switch_kind: str
    switch_bytes: int
    curve: str
    measured: float
    simulated: float
    described_bytes: int | None

    @property
    def is_in_place(self) -> bool:
        return self.described_bytes == self.switch_bytes

    @property
    def has_right_sign(self) -> bool:
        """Returns whether measured and simulated times both rise, both fall, or both stay within 10 %."""
        return _sign_of_change(self.measured) == _sign_of_change(self.simulated)

    @property
    def error(self) -> float:
        return math.exp(abs(math.log(self.simulated / self.measured)))


def scores_by_metric(pairs: Iterable[TimePair], repeats: Mapping[RecordKey, float] | None = None) -> list[Score]:
    """Returns a score for each scenario and metric. `repeats` are times in ns of a second measurement, by record."""
    groups: dict[tuple[str, str], list[TimePair]] = {}
    for pair in pairs:
        groups.setdefault((pair.measured_row["scenario"], pair.measured_row["metric"]), []).append(pair)
    return [score_pairs(*names, group, repeats) for names, group in groups.items()]


def score_pairs(
    scenario: str, metric: str, group: list[TimePair], repeats: Mapping[RecordKey, float] | None = None
) -> Score:
    """Returns the score of a nonempty list of pairs."""
    logs = [math.log(pair.ratio) for pair in group]
    stable_logs = [math.log(pair.ratio) for pair in group if pair.is_stable]
    repeat_logs = [
        math.log(repeats[pair.record_key] / pair.measured.value)
        for pair in group
        if repeats and pair.record_key in repeats
    ]
    return Score(
        scenario,
        metric,
        len(group),
        math.exp(fmean(logs)),
        math.exp(pstdev(logs)),
        mean_error_factor(logs),
        mean_error_factor(repeat_logs) if repeat_logs else None,
        len(stable_logs),
        mean_error_factor(stable_logs) if stable_logs else None,
    )


def mean_error_factor(logarithms: Iterable[float]) -> float:
    """Returns the mean absolute value of the logarithms as a factor."""
    return math.exp(fmean(abs(one) for one in logarithms))


def mean_interval_factor(group: Iterable[TimePair]) -> float:
    """Returns the mean half width of the measured confidence intervals, as a factor. The intervals cover several
    launches."""
    return math.exp(fmean(math.log(_half_width_factor(pair.measured)) for pair in group))


def _half_width_factor(estimate: Estimate) -> float:
    return math.sqrt(estimate.high / estimate.low) if estimate.low > 0 else estimate.high / estimate.value


def score_state_order(pairs: list[TimePair]) -> StateOrder:
    """Compares the half round trips of each two buffer states at the same message size. Returns the number of pairs
    whose measured times differ by at least MIN_DIFFERENT_RATIO, and how many of these have the same order in the
    simulation."""
    by_size: dict[int, list[TimePair]] = {}
    for pair in pairs:
        if pair.measured_row["scenario"] == "pingpong" and pair.measured_row["metric"] == "half_round_trip":
            by_size.setdefault(pair.measured_row["size_bytes"], []).append(pair)
    num_right = num_decided = 0
    for group in by_size.values():
        for a, b in combinations(group, 2):
            slow, fast = (a, b) if a.measured.value > b.measured.value else (b, a)
            if slow.measured.value >= MIN_DIFFERENT_RATIO * fast.measured.value:
                num_decided += 1
                num_right += slow.simulated_ns > fast.simulated_ns
    return StateOrder(num_right, num_decided)


def score_steps(
    pairs: list[TimePair], switches: Iterable[ProtocolSwitch], described_switch_bytes: int | None
) -> list[StepScore]:
    """Returns the steps of the half round trips at the protocol switches found in the profile. `described_switch_bytes`
    is the message size of the switch according to the machine's description; None if it states none."""
    scores = {}
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
            simulated = curve[after].simulated_ns / curve[before].simulated_ns
            step = StepScore(switch.kind, switch.bytes, name, measured, simulated, described_switch_bytes)
            scores[switch.bytes, name] = step
    return list(scores.values())


def _sign_of_change(factor: float) -> int:
    return 0 if 1 / MIN_DIFFERENT_RATIO < factor < MIN_DIFFERENT_RATIO else 1 if factor > 1 else -1
