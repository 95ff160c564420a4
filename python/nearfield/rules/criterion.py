"""Defines when `tune` accepts a setting and when it rejects one, with every threshold of its judgement.

A setting is compared with the baseline in cases (a pattern and a message size):

- `pingpong`: a message and its reply, at every size from 1 B to four times the last-level cache. If a size is slower in
  this pattern, it counts as slower whatever the other patterns gain.
- `stream`: many messages one way. `exchange`: many messages both ways at once. `use`: a ping-pong that includes the
  time to write every message before it is sent and to read it after it has arrived, because a copy that leaves cache
  lines in the wrong place has a cost later.
- `bcast`, `allreduce`, `allgather`, `alltoall` between the two ranks: settings for messages also act on collectives,
  and must not make them slower.

The score of a setting is the mean logarithm of its gains, less its losses (`search_score`). It is rejected if a case is
slower (`find_violations`). It becomes a rule if it significantly gains (`Gain.is_faster`) and no case is slower beyond
the measurement uncertainty (`LossVerdict`). Both are confirmed in several launches (tune/confirm.py), because two
launches of the same settings differ by up to a tenth, depending on where their memory is. Cases that are only probably
slower are measured in more launches and reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nearfield.base.paired import Gain
from nearfield.rules.gains import MIN_CONFIRMING_LAUNCHES, BenchmarkCase, geometric_mean

MAIN_PATTERN = "pingpong"
MESSAGE_PATTERNS = (MAIN_PATTERN, "stream", "exchange", "use")
COLLECTIVE_PATTERNS = ("bcast", "allreduce", "allgather", "alltoall")

# The no-slowdown guarantee of a rule, as fractions of the baseline's speed.
MIN_GAIN = 0.97  # min speed at any size, in ping-pong and over all patterns jointly
MIN_PATTERN_GAIN = 0.9  # min speed of one pattern, at a size where the other patterns compensate

# Thresholds to interpret measurements.
MAX_NOISE_LOSS = 0.07  # a loss of this size may appear by chance in one or two pairs
BORDERLINE_MARGIN = 0.02  # distance below the limit that a few pairs cannot decide, but a confirmation can
MAX_RANDOM_LOSSES = 6  # max number of cases, of thirty to eighty, that may look slower by chance
MAX_CREDIBLE_GAIN = 8.0  # gains are clamped to this factor, since a preempted job looks a hundred times slower
MIN_REPORTED_GAIN = 1.05  # min gain of a range of sizes to be reported

# Thresholds of the search. Weights of losses are in sizes: a loss weighs as much as three sizes, and the part beyond
# MAX_NOISE_LOSS as much as nine.
SEARCH_SIZES = (8, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
LOSS_WEIGHT, EXCESS_LOSS_WEIGHT = 2, 6
REJECTION_PENALTY = 1.0  # subtracted from the score of settings that a confirmation would reject
# min score of a parameter, absolute and as a fraction of the winner's; others are removed
MIN_PARAMETER_SCORE, MIN_PARAMETER_SCORE_SHARE = 0.01, 0.25


def search_cases(sizes: Iterable[int]) -> list[BenchmarkCase]:
    """Returns the cases (pattern, size) in which the search measures all settings."""
    return [(pattern, size) for size in sizes for pattern in MESSAGE_PATTERNS]


def confirmation_cases(sizes: Iterable[int]) -> list[BenchmarkCase]:
    """Returns the cases in which a confirmation measures settings: ping-pong at every size, the other patterns at every
    other power of two up to 16 MiB, and collectives at those sizes between 1 KiB and 4 MiB."""
    cases: list[BenchmarkCase] = []
    for size in sizes:
        cases.append((MAIN_PATTERN, size))
        if size.bit_length() % 2 == 1 and size <= 16 << 20:
            cases += [(pattern, size) for pattern in MESSAGE_PATTERNS if pattern != MAIN_PATTERN]
            cases += [
                (pattern, size) for pattern in COLLECTIVE_PATTERNS if 1 << 10 <= size <= 4 << 20 and size % 8 == 0
            ]
    return cases


class LossVerdict(NamedTuple):
    """A case that probably violates the no-slowdown guarantee. `gain` is the baseline's time divided by the tuned time,
    with its 95 % interval; `limit` is the lowest gain that the guarantee allows. `is_significant` says whether the gain
    is below the limit beyond the measurement uncertainty.

    - A gain is probably below the limit if its value is below the limit and the upper end of its interval is at most
      3 % above it (`Gain.is_below`). Such a case is remeasured.
    - A gain is significantly below the limit if its whole interval is below the limit; with few launches, below the
      limit less MAX_NOISE_LOSS. One such case is enough to reject the rule.
    - A gain is far below the limit if it is probably below the limit less MAX_NOISE_LOSS. More than MAX_RANDOM_LOSSES
      such cases end a confirmation.
    - If the joint gain of all patterns of a size is below the limit, each pattern of this size whose gain is below the
      limit is a violation, which is significant if the joint gain is significantly below.
    """

    case: BenchmarkCase
    gain: Gain
    limit: float
    is_significant: bool


def is_significantly_below(gain: Gain, limit: float) -> bool:
    """Returns whether a gain is below a limit beyond the measurement uncertainty (see `LossVerdict`). If the gain is
    based on few launches, lowers the limit by MAX_NOISE_LOSS, because the interval is then too narrow."""
    return gain.high < (limit if gain.n >= MIN_CONFIRMING_LAUNCHES else limit - MAX_NOISE_LOSS)


def find_violations(
    gains: Mapping[BenchmarkCase, Gain],
    min_gain: float = MIN_GAIN,
    joint_gain_by_size: Mapping[int, Gain] | None = None,
) -> list[LossVerdict]:
    """Returns the verdicts on the cases that violate the no-slowdown guarantee. If a size is slower in ping-pong or
    over its message patterns jointly, returns its slower patterns. Otherwise returns the patterns that are slower than
    the lower limit for a single pattern. Each collective is judged alone, by that lower limit.

    `joint_gain_by_size` maps a size to the joint gain of all its message patterns; without it, the patterns are treated
    as measured independently."""
    found: list[LossVerdict] = []
    alone = min(min_gain, MIN_PATTERN_GAIN)
    for size in sorted({size for _, size in gains}):
        of_size = {case: gain for case, gain in gains.items() if case[1] == size}
        messages = {case: gain for case, gain in of_size.items() if case[0] not in COLLECTIVE_PATTERNS}
        joint = [gain for (pattern, _), gain in of_size.items() if pattern == MAIN_PATTERN]
        if messages:
            joint.append(joint_gain_by_size[size] if joint_gain_by_size else geometric_mean(messages.values()))
        slower = any(gain.is_below(min_gain) for gain in joint)
        is_size_below = any(is_significantly_below(gain, min_gain) for gain in joint)
        for case, gain in messages.items():
            if gain.value < min_gain if slower else gain.is_below(alone):
                limit = min_gain if slower else alone
                found.append(LossVerdict(case, gain, limit, is_size_below or is_significantly_below(gain, alone)))
        collectives = {
            case: gain for case, gain in of_size.items() if case[0] in COLLECTIVE_PATTERNS and gain.is_below(alone)
        }
        found += [
            LossVerdict(case, gain, alone, is_significantly_below(gain, alone)) for case, gain in collectives.items()
        ]
    return found


def search_score(gains: Mapping[BenchmarkCase, Gain], min_gain: float = MIN_GAIN) -> float:
    """Returns the objective of the search: the mean log gain over all cases, minus penalties for losses beyond the
    allowed ones."""
    logs = [math.log(min(max(g.value, 1 / MAX_CREDIBLE_GAIN), MAX_CREDIBLE_GAIN)) for g in gains.values()]
    losses = LOSS_WEIGHT * _sum_of_shortfalls(logs, min_gain) + EXCESS_LOSS_WEIGHT * _sum_of_shortfalls(
        logs, min_gain - MAX_NOISE_LOSS
    )
    return (math.fsum(logs) - losses) / len(logs)


def _sum_of_shortfalls(log_gains: Iterable[float], limit: float) -> float:
    """Returns the sum of the differences between the log of the limit and the log gains below it."""
    return math.fsum(max(0.0, math.log(limit) - value) for value in log_gains)
