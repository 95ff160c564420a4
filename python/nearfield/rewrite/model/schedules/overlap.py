"""Overlap of communication and computation: messages are begun as early and completed as late as possible, with
computation in between."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import common_iterations, has_no_iterations, remaining_iterations
from nearfield.rewrite.model.schedule import ComputeStep, DependencePartition, ExecutionOrder, Step, Transformation


def overlap_rounds(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields an order that overlaps several rounds of messages with loops in between. Each round begins as soon as its
    data is produced, and is in flight during the remaining loops before the round or, if there are none, those after
    it."""
    rounds = partition.exchange_rounds()
    ends = [*(one[0] for one in rounds[1:]), len(partition.model.region.items)]
    steps: list[Step] = []
    left = partition.whole
    for calls, end in zip(rounds, ends, strict=True):
        halves = partition.split_calls(calls)
        first = common_iterations(left, partition.predecessors_of_calls(calls))
        left = remaining_iterations(left, first)
        free = remaining_iterations(
            left, partition.successors_of_calls([call for one in rounds[rounds.index(calls) :] for call in one])
        )
        front = {number: some for number, some in free.items() if number < calls[0]}
        concurrent = (
            {number: some for number, some in free.items() if number < end} if has_no_iterations(front) else front
        )
        if halves is None or has_no_iterations(concurrent):
            return
        steps += [ComputeStep(first), *halves[0], ComputeStep(concurrent), *halves[1]]
        left = remaining_iterations(left, concurrent)
    words = "each round of messages begins as soon as its data are made, then the other loops, then it completes"
    yield ExecutionOrder((*steps, ComputeStep(left)), words)


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields orders that overlap communication: begin of the messages, what is independent of them, their completion,
    the rest. If later messages depend on earlier ones, only the later ones overlap."""
    if has_no_iterations(partition.free):
        return
    if len(partition.exchange_rounds()) > 1:
        yield from overlap_rounds(partition)
    words = "messages begin, then all that does not need them, then they complete, then the rest"
    for last in range(len(partition.calls), 0, -1):
        halves = partition.split_last_calls(last)
        if halves:
            before, free, after = map(ComputeStep, (partition.before, partition.free, partition.after))
            yield ExecutionOrder((before, *halves[0], free, *halves[1], after), words)


SPEC = Transformation("overlap", "computes while messages travel", find_orders)
