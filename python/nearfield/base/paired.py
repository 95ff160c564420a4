"""Compares two settings by paired measurements: both are measured alternately, each pair of times gives a ratio, and
the gain is the median of the ratios with its confidence interval.

The speed of a machine changes more within minutes than the settings differ, so only times that were measured one
directly after the other are divided by each other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import NormalDist
from typing import TypeVar

from nearfield import _native
from nearfield.base.estimates import Estimate

MIN_PAIRS = 6  # with fewer pairs, minimum and maximum do not enclose the median with 95 % confidence
MIN_DIFFERENCE = 0.01  # a smaller relative difference counts as no difference
MAX_ATTEMPTS = 3  # attempts at a round that is disturbed

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Gain(Estimate):
    """The speed-up of a setting over the baseline: time of the baseline divided by time of the setting (above 1: the
    setting is faster). Median and 95 % confidence interval over `n` ratios: one of each pair of times or, if there were
    enough launches, one of each launch."""

    n: int

    def __str__(self) -> str:
        """Returns the gain as human-readable text, such as '1.250x (1.241 to 1.262)'."""
        return f"{self.value:.3f}x ({self.low:.3f} to {self.high:.3f})"

    @property
    def is_gain(self) -> bool:
        """Returns whether the whole interval is above 1 by more than MIN_DIFFERENCE."""
        return self.low > 1 + MIN_DIFFERENCE

    @property
    def is_loss(self) -> bool:
        """Returns whether the whole interval is below 1 by more than MIN_DIFFERENCE."""
        return self.high < 1 - MIN_DIFFERENCE

    @property
    def is_faster(self) -> bool:
        """Returns whether the value is above 1 by at least twice the half-width of its interval. Once is not enough,
        because of selection: the best of many settings looks better than it is, since settings that looked slow were
        measured again, and settings that looked fast were not."""
        return self.low**2 > self.value

    def is_below(self, limit: float) -> bool:
        """Returns whether the gain is probably below `limit`: its value is below `limit`, and the upper end of its
        interval is below 1.03 * limit."""
        return self.value < limit and self.high < 1.03 * limit

    def widen_for_selection(self, count: int) -> Gain:
        """Returns the gain with a wider, simultaneous interval: if the largest of `count` gains is selected, the
        intervals of all of them hold together with 95 % confidence (Bonferroni), assuming normal errors on a log scale.
        """
        wider = NormalDist().inv_cdf(1 - 0.025 / max(1, count)) / NormalDist().inv_cdf(0.975)
        low, high = (self.value * (end / self.value) ** wider for end in (self.low, self.high))
        return Gain(self.value, low, high, self.n)


def paired_gain(baseline: Sequence[float], tuned_samples: Sequence[float]) -> Gain:
    """Returns the gain from pairs of times, or of other numbers of which smaller is better."""
    ratio = _native.paired_ratio(tuned_samples, baseline)
    return Gain(ratio.value, ratio.low, ratio.high, ratio.n)


def measure_alternately(
    measurements: Mapping[Name, Callable[[], Result]],
    is_disturbed: Callable[[dict[Name, Result]], bool] = lambda results: False,
    max_attempts: int = MAX_ATTEMPTS,
) -> Iterator[dict[Name, Result]]:
    """Yields the results of each round, in the order in which they were measured; every other round measures in reverse
    order. A disturbed round is repeated, up to `max_attempts` attempts per round."""
    for number in count():
        names = list(measurements)[:: 1 if number % 2 == 0 else -1]
        for _ in range(max_attempts):
            results = {name: measurements[name]() for name in names}
            if not is_disturbed(results):
                break
        yield results
