"""Overlap: messages are begun as early as possible and completed as late as possible, with computation in between."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.parts import Order, Parts, Phase, Step, Transformation, common, empty, without


def in_turn(parts: Parts) -> Iterator[Order]:
    """Yields, for messages in several rounds with loops between: each round begins as soon as what it needs is made,
    and is under way during the rest of the loops in front of it, or else of those behind it."""
    rounds = parts.rounds()
    ends = [*(one[0] for one in rounds[1:]), len(parts.model.region.items)]
    steps: list[Step] = []
    left = parts.whole
    for calls, end in zip(rounds, ends, strict=True):
        halves = parts.halves(calls)
        first = common(left, parts.needed(calls))
        left = without(left, first)
        free = without(left, parts.needing([call for one in rounds[rounds.index(calls) :] for call in one]))
        front = {number: some for number, some in free.items() if number < calls[0]}
        meanwhile = {number: some for number, some in free.items() if number < end} if empty(front) else front
        if halves is None or empty(meanwhile):
            return
        steps += [Phase(first), *halves[0], Phase(meanwhile), *halves[1]]
        left = without(left, meanwhile)
    words = "each round of messages begins as soon as its data are made, then the other loops, then it completes"
    yield Order((*steps, Phase(left)), words)


def orders(parts: Parts) -> Iterator[Order]:
    """Yields: begin, what does not need the messages, complete, the rest. If earlier messages must arrive before later
    ones are sent, only the later ones overlap."""
    if empty(parts.free):
        return
    if len(parts.rounds()) > 1:
        yield from in_turn(parts)
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
