"""Compares two ways of doing something by paired measurements: both are measured alternately, each pair of times gives
a ratio, and the gain is the median of the ratios with its interval.

A machine changes more in minutes than what is compared differs, so only times that were measured one after the other
are divided by each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import NormalDist
from typing import TypeVar

from nearfield import _native
from nearfield.base.estimates import Estimate

MIN_PAIRS = 6  # with fewer, the extremes do not enclose the median with 95 % confidence
MIN_DIFFERENCE = 0.01  # a smaller difference counts as none
MAX_ATTEMPTS = 3  # at a round that was disturbed

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Gain(Estimate):
    """The baseline's time divided by the other one's: above 1, the other one is faster. The median and its 95 %
    interval over `n` pairs of times, or over `n` launches."""

    n: int

    def __str__(self) -> str:
        """Returns for example '1.250x (1.241 to 1.262)'."""
        return f"{self.value:.3f}x ({self.low:.3f} to {self.high:.3f})"

    @property
    def is_gain(self) -> bool:
        """Returns whether the whole interval is a gain that counts."""
        return self.low > 1 + MIN_DIFFERENCE

    @property
    def is_loss(self) -> bool:
        """Returns whether the whole interval is a loss that counts."""
        return self.high < 1 - MIN_DIFFERENCE

    @property
    def faster(self) -> bool:
        """Returns whether the gain is above 1 by twice the measurement's error. Once is not enough, because the best of
        many settings looks better than it is: those that looked slow were measured again, those that looked fast were
        not."""
        return self.low**2 > self.value

    def below(self, limit: float) -> bool:
        """Returns whether the gain is probably below a limit: its value is below, and its interval ends at most 3 %
        above."""
        return self.value < limit and self.high < 1.03 * limit

    def among(self, count: int) -> Gain:
        """Returns the gain with a simultaneous interval: if the largest of `count` gains is selected, all their
        intervals together hold with 95 % confidence (Bonferroni), assuming errors that are normal on a log scale."""
        wider = NormalDist().inv_cdf(1 - 0.025 / max(1, count)) / NormalDist().inv_cdf(0.975)
        low, high = (self.value * (end / self.value) ** wider for end in (self.low, self.high))
        return Gain(self.value, low, high, self.n)


def paired_gain(baseline: Sequence[float], other: Sequence[float]) -> Gain:
    """Returns the gain by pairs of times, or of other numbers of which less is better."""
    ratio = _native.paired_ratio(other, baseline)
    return Gain(ratio.value, ratio.low, ratio.high, ratio.n)


def measure_alternately(
    measurements: Mapping[Name, Callable[[], Result]],
    is_disturbed: Callable[[dict[Name, Result]], bool] = lambda results: False,
    max_attempts: int = MAX_ATTEMPTS,
) -> Iterator[dict[Name, Result]]:
    """Yields the results of one round after the other, in the order in which they were measured. Every other round has
    the opposite order. A round that was disturbed is repeated, but at most `max_attempts` rounds are made for one."""
    for number in count():
        names = list(measurements)[:: 1 if number % 2 == 0 else -1]
        for _ in range(max_attempts):
            results = {name: measurements[name]() for name in names}
            if not is_disturbed(results):
                break
        yield results
