"""How far the values of a described machine may be off: the variations that `nearfield simulate --sensitivity` tries.

A fitted value has an interval, and a chosen one may have one. A chosen number without an interval is taken for anything
from half to twice its value, which is an assumption, not a measurement. Stated, derived and read-off values, words, and
what belongs to the kind of machine (the size of a line, for instance) are taken as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nearfield.base.errors import UsageError
from nearfield.machine.quantity import Sourced, facts
from nearfield.machine.schema import DescribedMachine
from nearfield.machine.sweep import with_settings

USUAL_FACTOR = 2.0
# Last parts of keys whose values describe the kind of machine, and are no numbers that somebody had to guess.
_STRUCTURE = {"line_bytes", "page_bytes", "event_bytes", "shared_by", "max_nodes", "level", "cores", "sockets"}


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


def uncertainty_of(machine: DescribedMachine) -> Uncertainty:
    """Returns the variations of each uncertain number, the lower value first, as far as the machine can have them."""
    variations: list[Variation] = []
    fixed: list[str] = []
    for key, fact in facts(machine):
        for other in _others(key, fact):
            try:
                with_settings(machine, ((key, other),))
            except UsageError:
                fixed.append(key)
            else:
                variations.append(Variation(key, fact.plain, other))
    return Uncertainty(tuple(variations), tuple(dict.fromkeys(fixed)))


def _others(key: str, fact: Sourced) -> Iterator[int | float]:
    """Yields the ends of the interval in which a value lies, without the value itself."""
    value = fact.plain
    if fact.kind not in ("chosen", "fitted") or isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    if fact.interval is None and key.rpartition(".")[2] in _STRUCTURE:
        return
    for end in fact.interval or (value / USUAL_FACTOR, value * USUAL_FACTOR):
        other = round(end) if isinstance(value, int) else end
        if other != value:
            yield other
