"""Late wait: the completion of messages moves down to the first statement that needs it. All statements stay whole and
in their order, so the patch is a moved line."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.analysis.program import CommunicationStatement, LoopNest
from nearfield.rewrite.model.schedule import (
    CallStep,
    ComputeStep,
    DependencePartition,
    ExecutionOrder,
    Step,
    Transformation,
)


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields an order for each wait that may pass loops: the wait stands in front of the first statement that depends
    on it, or that communicates otherwise than by waiting."""
    items = partition.model.region.items
    for wait, item in enumerate(items):
        if not isinstance(item, CommunicationStatement) or not item.is_plain_wait:
            continue
        needed = partition.successors_of_calls([wait])
        place = wait + 1
        while place < len(items):
            following = items[place]
            if isinstance(following, LoopNest):
                if not needed[place].is_empty():
                    break
            elif not following.is_plain_wait:
                break
            place += 1
        if any(isinstance(one, LoopNest) and one.loops for one in items[wait + 1 : place]):
            numbers = [*range(wait), *range(wait + 1, place), wait, *range(place, len(items))]
            steps: list[Step] = [
                ComputeStep({n: partition.all_iterations[n]}) if isinstance(items[n], LoopNest) else CallStep(n)
                for n in numbers
            ]
            description = "the wait moves behind the loops that need none of its messages"
            yield ExecutionOrder(tuple(steps), description, keeps_statements_whole=True)


SPEC = Transformation("late-wait", "waits for messages just before the first statement that needs them", find_orders)
