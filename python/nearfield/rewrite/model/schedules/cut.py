"""Message chunking (Pellegrini et al. 2012, section IV-C; claim S0.10 of papers/S0/claims.toml): the chunks of a long
message are sent as soon as they are produced, and consumed as they arrive, with computation in between."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import has_no_iterations, iterations_in_chunk_loops, remaining_iterations
from nearfield.rewrite.model.schedule import (
    CallStep,
    ChunkLoop,
    ComputeStep,
    DependencePartition,
    ExecutionOrder,
    Step,
    Transformation,
)


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields orders for message chunking: the remaining predecessors; the start of each chunk after its producers; what
    is independent of the messages; the completion of each chunk before its consumers; the rest. Variants chunk only the
    producers or only the consumers."""
    if not has_no_iterations(partition.between_calls):
        return
    for iterations_before, iterations_after, producers_chunked, consumers_chunked in partition.chunk_assignments():
        begin_steps: list[Step] = []
        completion_steps: list[Step] = []
        for number in partition.call_numbers:
            if number in iterations_before:
                begin_steps.append(ChunkLoop(number, iterations_before=iterations_before[number], completes_call=False))
                completion_steps.append(ChunkLoop(number, iterations_after=iterations_after[number], begins_call=False))
            else:
                begin_steps.append(CallStep(number))
        chunked = iterations_in_chunk_loops(*iterations_before.values(), *iterations_after.values())
        first, independent, last = (
            ComputeStep(remaining_iterations(iterations, chunked))
            for iterations in (partition.predecessors, partition.independent, partition.successors)
        )
        description = "pieces are sent" + " as they are made" * producers_chunked + ", then all that does not need them"
        consumption = "pieces are used as they arrive" if consumers_chunked else "pieces complete"
        yield ExecutionOrder(
            (first, *begin_steps, independent, *completion_steps, last),
            f"{description}, then {consumption}, then the rest",
        )


SPEC = Transformation(
    "cut",
    "cuts a long message into pieces, which travel while others are made or used",
    find_orders,
    chunks_messages=True,
)
