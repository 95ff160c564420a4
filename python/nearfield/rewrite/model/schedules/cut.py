"""Message chunking (Pellegrini et al. 2012, section IV-C; claim S0.10): the chunks of a long message are sent as soon
as they are produced, and consumed as they arrive, with computation in between."""

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
    """Yields orders for message chunking: the remaining predecessors; the begin of each chunk after its producers; what
    is independent of the messages; the completion of each chunk before its consumers; the rest. Variants chunk only the
    producers or only the consumers."""
    if not has_no_iterations(partition.between):
        return
    for before, after, producers_chunked, consumers_chunked in partition.chunk_assignments():
        begin: list[Step] = []
        complete: list[Step] = []
        for number in partition.calls:
            if number in before:
                begin.append(ChunkLoop(number, before=before[number], completes=False))
                complete.append(ChunkLoop(number, after=after[number], begins=False))
            else:
                begin.append(CallStep(number))
        chunked = iterations_in_chunk_loops(*before.values(), *after.values())
        first, free, last = (
            ComputeStep(remaining_iterations(some, chunked))
            for some in (partition.before, partition.free, partition.after)
        )
        words = "pieces are sent" + " as they are made" * producers_chunked + ", then all that does not need them"
        used = "pieces are used as they arrive" if consumers_chunked else "pieces complete"
        yield ExecutionOrder((first, *begin, free, *complete, last), f"{words}, then {used}, then the rest")


SPEC = Transformation(
    "cut",
    "cuts a long message into pieces, which travel while others are made or used",
    find_orders,
    chunks_messages=True,
)
