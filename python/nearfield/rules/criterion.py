"""Defines when `tune` accepts a setting and when it rejects one, with every threshold of its judgement.

A setting is compared with the baseline in cases (a pattern and a message size):

- `pingpong`: a message and its reply, at every size from 1 B to four times the last-level cache. If a size is slower in
  this pattern, it counts as slower whatever the other patterns gain.
- `stream`: many messages one way. `exchange`: many messages both ways at once. `use`: a ping-pong that includes the
  time to write every message before it is sent and to read it after it has arrived, because a copy that leaves cache
  lines in the wrong place has a cost later.
- `bcast`, `allreduce`, `allgather`, `alltoall` between the two ranks: settings for messages also act on collectives,
  and must not make them slower.

The score of a setting is the mean logarithm of its gains, less its losses (`score`). It is rejected if a case is slower
(`violations`). It becomes a rule if it significantly gains (`Gain.is_faster`) and no case is surely slower (`Verdict`).
Both are confirmed in several launches (tune/confirm.py), because two launches of the same settings differ by up to a
tenth, depending on where their memory is. Cases that are only probably slower are measured in more launches and
reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nearfield.base.paired import Gain
from nearfield.rules.gains import MIN_CONFIRMING_LAUNCHES, Case, geometric_mean

MAIN_PATTERN = "pingpong"
MESSAGES = (MAIN_PATTERN, "stream", "exchange", "use")
COLLECTIVES = ("bcast", "allreduce", "allgather", "alltoall")

# The promise of a rule, as fractions of the baseline's speed.
MIN_GAIN = 0.97  # min speed at any size, in ping-pong and over all patterns jointly
MIN_PATTERN_GAIN = 0.9  # min speed of one pattern, at a size where the other patterns compensate

# Thresholds to interpret measurements.
NOISE = 0.07  # a loss of this size may appear by chance in one or two pairs
BORDERLINE_MARGIN = 0.02  # distance below the limit that a few pairs cannot decide, but a confirmation can
MAX_CHANCE_LOSSES = 6  # max number of cases, of thirty to eighty, that may look slower by chance
MAX_CREDIBLE_GAIN = 8.0  # gains are clamped to this factor, since a preempted job looks a hundred times slower
MIN_REPORTED_GAIN = 1.05  # min gain of a range of sizes to be reported

# Thresholds of the search. Weights of losses are in sizes: a loss weighs as much as three sizes, and the part beyond
# NOISE as much as nine.
SIZES = (8, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
LOSS_WEIGHT, SURE_LOSS_WEIGHT = 2, 6
REJECTION_PENALTY = 1.0  # subtracted from the score of settings that a confirmation would reject
# min score of a parameter, absolute and as a fraction of the winner's; others are removed
MIN_SCORE_WORTH, MIN_WORTH_SHARE = 0.01, 0.25


def search_cases(sizes: Iterable[int]) -> list[Case]:
    """Returns the cases (pattern, size) in which the search measures all settings."""
    return [(pattern, size) for size in sizes for pattern in MESSAGES]


def confirmation_cases(sizes: Iterable[int]) -> list[Case]:
    """Returns the cases in which a confirmation measures settings: ping-pong at every size, the other patterns at every
    other power of two up to 16 MiB, and collectives at those sizes between 1 KiB and 4 MiB."""
    cases: list[Case] = []
    for size in sizes:
        cases.append((MAIN_PATTERN, size))
        if size.bit_length() % 2 == 1 and size <= 16 << 20:
            cases += [(pattern, size) for pattern in MESSAGES if pattern != MAIN_PATTERN]
            cases += [(pattern, size) for pattern in COLLECTIVES if 1 << 10 <= size <= 4 << 20 and size % 8 == 0]
    return cases


class Verdict(NamedTuple):
    """A case that probably breaks the promise: its gain, the limit that it is below, and whether it is surely below.

    | a gain is | if | then |
    |---|---|---|
    | probably below | its value is below and its interval ends at most 3 % above (`Gain.is_below`) | it is remeasured |
    | surely below | its interval is below, of few launches by NOISE (`significantly_below`) | there is no rule |
    | far below | it is probably below the limit less NOISE | more than MAX_CHANCE_LOSSES end a confirmation |
    | below with its size | its value is below and the joint gain of its size is, too | it is as sure as that gain |
    """

    case: Case
    gain: Gain
    limit: float
    sure: bool


def significantly_below(gain: Gain, limit: float) -> bool:
    """Returns whether a gain is surely below a limit (see `Verdict`). If the gain is based on few launches, lowers the
    limit by NOISE, because the interval is then too narrow."""
    return gain.high < (limit if gain.n >= MIN_CONFIRMING_LAUNCHES else limit - NOISE)


def violations(
    gains: Mapping[Case, Gain], never_below: float = MIN_GAIN, of_sizes: Mapping[int, Gain] | None = None
) -> list[Verdict]:
    """Returns the verdicts on the cases that break the promise. If a size is slower in ping-pong or over its message
    patterns jointly, returns its slower patterns. Otherwise returns the patterns that are slower than the lower limit
    for a single pattern. Each collective is judged alone, by that lower limit.

    `of_sizes` maps a size to the joint gain of all its message patterns; without it, the patterns are treated as
    measured independently."""
    found: list[Verdict] = []
    alone = min(never_below, MIN_PATTERN_GAIN)
    for size in sorted({size for _, size in gains}):
        of_size = {case: gain for case, gain in gains.items() if case[1] == size}
        messages = {case: gain for case, gain in of_size.items() if case[0] not in COLLECTIVES}
        joint = [gain for (pattern, _), gain in of_size.items() if pattern == MAIN_PATTERN]
        if messages:
            joint.append(of_sizes[size] if of_sizes else geometric_mean(messages.values()))
        slower = any(gain.is_below(never_below) for gain in joint)
        sure = any(significantly_below(gain, never_below) for gain in joint)
        for case, gain in messages.items():
            if gain.value < never_below if slower else gain.is_below(alone):
                limit = never_below if slower else alone
                found.append(Verdict(case, gain, limit, sure or significantly_below(gain, alone)))
        collectives = {case: gain for case, gain in of_size.items() if case[0] in COLLECTIVES and gain.is_below(alone)}
        found += [Verdict(case, gain, alone, significantly_below(gain, alone)) for case, gain in collectives.items()]
    return found


def score(gains: Mapping[Case, Gain], never_below: float = MIN_GAIN) -> float:
    """Returns the objective of the search: the mean log gain over all cases, minus penalties for losses beyond the
    allowed ones."""
    logs = [math.log(min(max(g.value, 1 / MAX_CREDIBLE_GAIN), MAX_CREDIBLE_GAIN)) for g in gains.values()]
    losses = LOSS_WEIGHT * _shortfall(logs, never_below) + SURE_LOSS_WEIGHT * _shortfall(logs, never_below - NOISE)
    return (math.fsum(logs) - losses) / len(logs)


def _shortfall(logs: Iterable[float], limit: float) -> float:
    """Returns the sum of the differences between the log of the limit and the log gains below it."""
    return math.fsum(max(0.0, math.log(limit) - value) for value in logs)
