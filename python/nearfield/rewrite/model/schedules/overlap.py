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
    rounds = partition.group_calls_by_round()
    next_calls = [*(one[0] for one in rounds[1:]), len(partition.model.region.items)]
    steps: list[Step] = []
    remaining = partition.all_iterations
    for calls, end in zip(rounds, next_calls, strict=True):
        call_steps = partition.split_calls(calls)
        required = common_iterations(remaining, partition.predecessors_of_calls(calls))
        remaining = remaining_iterations(remaining, required)
        independent = remaining_iterations(
            remaining, partition.successors_of_calls([call for one in rounds[rounds.index(calls) :] for call in one])
        )
        independent_before = {number: iterations for number, iterations in independent.items() if number < calls[0]}
        concurrent = (
            {number: iterations for number, iterations in independent.items() if number < end}
            if has_no_iterations(independent_before)
            else independent_before
        )
        if call_steps is None or has_no_iterations(concurrent):
            return
        steps += [ComputeStep(required), *call_steps[0], ComputeStep(concurrent), *call_steps[1]]
        remaining = remaining_iterations(remaining, concurrent)
    description = "each round of messages begins as soon as its data are made, then the other loops, then it completes"
    yield ExecutionOrder((*steps, ComputeStep(remaining)), description)


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields orders that overlap communication: the start of the messages, what is independent of them, their
    completion, the rest. If later messages depend on earlier ones, only the later ones overlap."""
    if has_no_iterations(partition.independent):
        return
    if len(partition.group_calls_by_round()) > 1:
        yield from overlap_rounds(partition)
    description = "messages begin, then all that does not need them, then they complete, then the rest"
    for num_calls in range(len(partition.call_numbers), 0, -1):
        call_steps = partition.split_last_calls(num_calls)
        if call_steps:
            predecessors, independent, successors = map(
                ComputeStep, (partition.predecessors, partition.independent, partition.successors)
            )
            yield ExecutionOrder((predecessors, *call_steps[0], independent, *call_steps[1], successors), description)


SPEC = Transformation("overlap", "computes while messages travel", find_orders)
