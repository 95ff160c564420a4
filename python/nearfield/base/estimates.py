"""Estimates (values with 95 % confidence intervals) and arithmetic with them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval; low <= value <= high."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> Estimate:
        """Returns the estimate multiplied by a nonnegative factor."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def __sub__(self, other: Estimate) -> Estimate:
        """Returns the difference. Its interval adds half-widths in quadrature: the lower end combines the lower
        half-width of self with the upper half-width of `other`, the upper end the reverse."""
        value = self.value - other.value
        low = value - math.hypot(self.value - self.low, other.high - other.value)
        return Estimate(value, low, value + math.hypot(self.high - self.value, other.value - other.low))


def estimate_mean(samples: Sequence[float]) -> Estimate:
    """Returns the mean of independent samples with its 95 % confidence interval by Student's t. The interval of a
    single sample has no width."""
    mean = fmean(samples)
    if len(samples) == 1:
        return Estimate(mean, mean, mean)
    half = t_quantile(0.975, len(samples) - 1) * stdev(samples) / math.sqrt(len(samples))
    return Estimate(mean, mean - half, mean + half)


def t_quantile(probability: float, degrees_of_freedom: float) -> float:
    """Returns an upper quantile of Student's t: exact with one or two degrees of freedom, and otherwise by Wallace's
    approximation (Biometrika 46, 1959), which is too large by 1 % with three, and by less with more; infinity without
    degrees of freedom."""
    if degrees_of_freedom <= 0:
        return math.inf
    if degrees_of_freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees_of_freedom == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = NormalDist().inv_cdf(probability) * (8 * degrees_of_freedom + 3) / (8 * degrees_of_freedom + 1)
    return (
        math.sqrt(degrees_of_freedom * math.expm1(z * z / degrees_of_freedom))
        if z * z / degrees_of_freedom < 700
        else math.inf
    )


def sum_of_estimates(parts: Iterable[Estimate]) -> Estimate:
    """Returns the sum of the estimates. Its interval adds the ends, so that it also holds for correlated errors."""
    parts = list(parts)
    return Estimate(sum(p.value for p in parts), sum(p.low for p in parts), sum(p.high for p in parts))


def ratio_of_estimates(a: Estimate, b: Estimate) -> Estimate | None:
    """Returns b / a with its interval, for values that were not measured in pairs. On a log scale, the interval adds
    half-widths in quadrature: the lower end combines the lower half-width of b with the upper half-width of a, the
    upper end the reverse (the MOVER method of Zou and Donner, 2008, for a difference of logarithms). If both are
    independent 95 % intervals, the result is nearly a 95 % interval.

    Returns None if exactly one value is 0, and the ratio 1 if both are 0. Values must not be negative.
    """
    if a.value == b.value == 0:
        return Estimate(1.0, 1.0, 1.0)
    if a.value <= 0 or b.value <= 0:
        return None
    down = math.hypot(_log_ratio(b.value, b.low), _log_ratio(a.high, a.value))
    up = math.hypot(_log_ratio(b.high, b.value), _log_ratio(a.value, a.low))
    ratio = b.value / a.value
    return Estimate(ratio, ratio * math.exp(-down), ratio * math.exp(up) if up < 700 else math.inf)


def _log_ratio(larger: float, smaller: float) -> float:
    """Returns log(larger / smaller), which is >= 0; infinity if `smaller` is not positive."""
    return math.log(larger / smaller) if smaller > 0 else math.inf


def interpolate_by_size(value_by_size: Mapping[int, float], size_bytes: float) -> float:
    """Returns the value at a size: interpolated on a log-log scale between two sizes; below the smallest size, its
    value; beyond the largest size, proportional to the size."""
    sizes = sorted(value_by_size)
    if size_bytes <= sizes[0]:
        return value_by_size[sizes[0]]
    if size_bytes >= sizes[-1]:
        return value_by_size[sizes[-1]] * size_bytes / sizes[-1]
    end = bisect_right(sizes, size_bytes)
    before, after = sizes[end - 1], sizes[end]
    weight = math.log(size_bytes / before) / math.log(after / before)
    a, b = value_by_size[before], value_by_size[after]
    return math.exp((1 - weight) * math.log(a) + weight * math.log(b)) if a > 0 and b > 0 else a + weight * (b - a)
