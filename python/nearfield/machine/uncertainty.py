"""How far the values of a described machine may be off, and a simulated result with them: for `--sensitivity`.

Each uncertain value is changed alone, to either end of its interval, and everything is simulated again. The deviations
of single values are added in quadrature, as if the values were independent of each other: those that make a result
larger, and separately those that make it smaller.

A fitted value has an interval, and a chosen one may have one. A chosen number without an interval is taken for anything
from half to twice its value, which is an assumption, not a measurement. Stated, derived and read-off values, words, and
what belongs to the kind of machine (the size of a line, for instance) are taken as they are."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nearfield.base.errors import UsageError
from nearfield.machine.quantity import SourcedFact, facts
from nearfield.machine.schema import DescribedMachine
from nearfield.machine.sweep import with_settings

USUAL_FACTOR = 2.0
# Last parts of keys whose values describe the kind of machine, and are no numbers that somebody had to guess.
_STRUCTURAL_KEYS = {"line_bytes", "page_bytes", "event_bytes", "shared_by", "max_nodes", "level", "cores", "sockets"}


@dataclass(frozen=True)
class Variation:
    """One value of a machine's file, and another one that it may have."""

    key: str
    value: int | float
    other: int | float


@dataclass(frozen=True)
class Uncertainty:
    """The variations of a machine, and the keys that cannot be varied because other values would contradict."""

    variations: tuple[Variation, ...]
    fixed: tuple[str, ...]


@dataclass(frozen=True)
class Range:
    """A result, and from where to where it may be."""

    value: float
    low: float
    high: float


def range_of_factor(value: float, varied: Mapping[Variation, float]) -> Range:
    """Returns the range of a positive result that has other values under variations: deviations are factors."""
    down, up = _sum_in_quadrature((one.key, math.log(other / value)) for one, other in varied.items())
    return Range(value, value * math.exp(-down), value * math.exp(up))


def range_of_share(value: float, varied: Mapping[Variation, float]) -> Range:
    """Returns the range of a share, which may be 0 or negative: deviations are differences."""
    down, up = _sum_in_quadrature((one.key, other - value) for one, other in varied.items())
    return Range(value, value - down, value + up)


def _sum_in_quadrature(deviations: Iterable[tuple[str, float]]) -> tuple[float, float]:
    """Returns the sums of the negative and of the positive deviations, as sizes. Of the two ends of a key's interval,
    the one that deviates further in that direction counts."""
    down: dict[str, float] = defaultdict(float)
    up: dict[str, float] = defaultdict(float)
    for key, deviation in deviations:
        down[key] = max(down[key], -deviation)
        up[key] = max(up[key], deviation)
    return math.hypot(*down.values()), math.hypot(*up.values())


def uncertainty_of(machine: DescribedMachine) -> Uncertainty:
    """Returns the variations of each uncertain number, the lower value first, as far as the machine can have them."""
    variations: list[Variation] = []
    fixed: list[str] = []
    for key, fact in facts(machine):
        for other in _interval_ends(key, fact):
            try:
                with_settings(machine, ((key, other),))
            except UsageError:
                fixed.append(key)
            else:
                variations.append(Variation(key, fact.plain, other))
    return Uncertainty(tuple(variations), tuple(dict.fromkeys(fixed)))


def _interval_ends(key: str, fact: SourcedFact) -> Iterator[int | float]:
    """Yields the ends of the interval in which a value lies, without the value itself."""
    value = fact.plain
    if fact.kind not in ("chosen", "fitted") or isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if fact.interval is None and key.rpartition(".")[2] in _STRUCTURAL_KEYS:
        return
    for end in fact.interval or (value / USUAL_FACTOR, value * USUAL_FACTOR):
        other = round(end) if isinstance(value, int) else end
        if other != value:
            yield other
