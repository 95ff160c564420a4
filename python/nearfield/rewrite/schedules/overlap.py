"""Overlap: messages are begun as early as possible and completed as late as possible, with computation in between."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import Order, Parts, Phase, Transformation, common, empty, without


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: begin, what does not need the messages, complete, the rest. If earlier messages must arrive before later
    ones are sent, only the later ones overlap."""
    if empty(parts.free):
        return
    words = "messages begin, then all that does not need them, then they complete, then the rest"
    for last in range(len(parts.calls), 0, -1):
        halves = parts.split(last)
        if halves:
            begin, complete = halves
            yield Order((Phase(parts.before), *begin, Phase(parts.free), *complete, Phase(parts.after)), words)


def warm_orders(parts: Parts) -> Iterator[Order]:
    """Yields the same with what reads the data to be sent before the messages begin."""
    warm = common(parts.free, parts.warm)
    rest = without(parts.free, warm)
    if empty(warm) or empty(rest):
        return
    words = "what reads the data to be sent, then messages begin, then the rest that does not need them"
    for last in range(len(parts.calls), 0, -1):
        halves = parts.split(last)
        if halves:
            begin, complete = halves
            yield Order((Phase(parts.before), Phase(warm), *begin, Phase(rest), *complete, Phase(parts.after)), words)


SPEC = Transformation("overlap", "computes while messages travel", orders)
