"""Computes how far a simulated result may be off because values of the described machine are uncertain, for
`--sensitivity`.

Each uncertain value is set to either end of its interval, one value at a time, and everything is simulated again.
Deviations of single values are added in quadrature, as if the values were independent; increases and decreases of a
result are added separately.

A fitted value has an interval, and a chosen value may have one. A chosen number without an interval is assumed to lie
between half and twice its value. Values that are stated, derived or read off a figure, values that are words, and
structural values such as the line size are taken as exact."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nearfield.base.errors import UsageError
from nearfield.machine.described import DescribedMachine
from nearfield.machine.quantity import SourcedFact, facts
from nearfield.machine.sweep import with_settings

ASSUMED_UNCERTAINTY_FACTOR = 2.0
# Last parts of keys whose values define the kind of machine and are not estimates.
_STRUCTURAL_KEYS = {
    "line_bytes", "page_bytes", "event_bytes", "shared_by", "max_nodes", "level", "cores", "sockets", "share",
}  # fmt: skip


@dataclass(frozen=True)
class Variation:
    """A value of a machine's file, and the other value that replaces it in a simulation."""

    key: str
    value: int | float
    other: int | float


@dataclass(frozen=True)
class Uncertainty:
    """The variations of a machine, and the keys that cannot be varied because the new value would contradict others."""

    variations: tuple[Variation, ...]
    fixed_keys: tuple[str, ...]


@dataclass(frozen=True)
class ErrorBar:
    """A result with the lower and upper end of its error bar."""

    value: float
    low: float
    high: float


def error_bar_of_factor(value: float, result_by_variation: Mapping[Variation, float]) -> ErrorBar:
    """Returns the error bar of a positive result from the results under each variation; deviations are factors."""
    down, up = _sum_in_quadrature((one.key, math.log(other / value)) for one, other in result_by_variation.items())
    return ErrorBar(value, value * math.exp(-down), value * math.exp(up))


def error_bar_of_share(value: float, result_by_variation: Mapping[Variation, float]) -> ErrorBar:
    """Returns the error bar of a share, which may be 0 or negative, from the results under each variation; deviations
    are differences."""
    down, up = _sum_in_quadrature((one.key, other - value) for one, other in result_by_variation.items())
    return ErrorBar(value, value - down, value + up)


def _sum_in_quadrature(deviations: Iterable[tuple[str, float]]) -> tuple[float, float]:
    """Returns the root sum squares of the negative and of the positive deviations, both as positive numbers. Of the two
    variations of a key, the larger deviation in each direction counts."""
    down: dict[str, float] = defaultdict(float)
    up: dict[str, float] = defaultdict(float)
    for key, deviation in deviations:
        down[key] = max(down[key], -deviation)
        up[key] = max(up[key], deviation)
    return math.hypot(*down.values()), math.hypot(*up.values())


def uncertainty_of(machine: DescribedMachine) -> Uncertainty:
    """Returns the variations of all uncertain numbers, the lower end first, that do not contradict other values."""
    variations: list[Variation] = []
    fixed: list[str] = []
    for key, fact in facts(machine):
        for other in _interval_ends(key, fact):
            try:
                with_settings(machine, ((key, other),))
            except UsageError:
                fixed.append(key)
            else:
                variations.append(Variation(key, fact.plain_value, other))
    return Uncertainty(tuple(variations), tuple(dict.fromkeys(fixed)))


def _interval_ends(key: str, fact: SourcedFact) -> Iterator[int | float]:
    """Yields those ends of the interval of a chosen or fitted number that differ from the number itself."""
    value = fact.plain_value
    if fact.kind not in ("chosen", "fitted") or isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if fact.interval is None and key.rpartition(".")[2] in _STRUCTURAL_KEYS:
        return
    for end in fact.interval or (value / ASSUMED_UNCERTAINTY_FACTOR, value * ASSUMED_UNCERTAINTY_FACTOR):
        other = round(end) if isinstance(value, int) else end
        if other != value:
            yield other
