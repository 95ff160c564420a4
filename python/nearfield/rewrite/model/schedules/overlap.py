"""Overlap of communication and computation: messages are begun as early and completed as late as possible, with
computation in between."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import difference, intersection, is_empty
from nearfield.rewrite.model.schedule import ComputeStep, Order, Partition, Step, Transformation


def in_turn(partition: Partition) -> Iterator[Order]:
    """Yields an order that overlaps several rounds of messages with loops in between. Each round begins as soon as its
    data is produced, and is in flight during the remaining loops before the round or, if there are none, those after
    it."""
    rounds = partition.exchange_rounds()
    ends = [*(one[0] for one in rounds[1:]), len(partition.model.region.items)]
    steps: list[Step] = []
    left = partition.whole
    for calls, end in zip(rounds, ends, strict=True):
        halves = partition.begin_and_complete(calls)
        first = intersection(left, partition.predecessors(calls))
        left = difference(left, first)
        free = difference(left, partition.successors([call for one in rounds[rounds.index(calls) :] for call in one]))
        front = {number: some for number, some in free.items() if number < calls[0]}
        concurrent = {number: some for number, some in free.items() if number < end} if is_empty(front) else front
        if halves is None or is_empty(concurrent):
            return
        steps += [ComputeStep(first), *halves[0], ComputeStep(concurrent), *halves[1]]
        left = difference(left, concurrent)
    words = "each round of messages begins as soon as its data are made, then the other loops, then it completes"
    yield Order((*steps, ComputeStep(left)), words)


def orders(partition: Partition) -> Iterator[Order]:
    """Yields orders that overlap communication: begin of the messages, what is independent of them, their completion,
    the rest. If later messages depend on earlier ones, only the later ones overlap."""
    if is_empty(partition.free):
        return
    if len(partition.exchange_rounds()) > 1:
        yield from in_turn(partition)
    words = "messages begin, then all that does not need them, then they complete, then the rest"
    for last in range(len(partition.calls), 0, -1):
        halves = partition.begin_last(last)
        if halves:
            before, free, after = map(ComputeStep, (partition.before, partition.free, partition.after))
            yield Order((before, *halves[0], free, *halves[1], after), words)


SPEC = Transformation("overlap", "computes while messages travel", orders)
