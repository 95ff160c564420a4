"""Strip mining of messages (Pellegrini et al. 2012, section IV-C): a loop over chunks of a long message, in which each
chunk is produced, exchanged and consumed while it is cached."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import (
    has_no_iterations,
    iterations_in_chunk_loops,
    remaining_iterations,
    union_of_iterations,
)
from nearfield.rewrite.model.schedule import (
    ChunkLoop,
    ComputeStep,
    DependencePartition,
    ExecutionOrder,
    Step,
    Transformation,
)


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields orders with a loop over message chunks: the remaining predecessors; for each chunk the producers or
    readers of the sent data, the exchange, and the consumers of the received data; the rest. Variants strip-mine only
    the producers or only the consumers."""
    for iterations_before, iterations_after, producers_chunked, consumers_chunked in partition.chunk_assignments():
        steps: list[Step] = []
        for step in partition.original_call_steps():
            if isinstance(step, ComputeStep) or step.call_number not in iterations_before:
                steps.append(step)
            else:
                steps.append(
                    ChunkLoop(step.call_number, iterations_before[step.call_number], iterations_after[step.call_number])
                )
        chunked = iterations_in_chunk_loops(*iterations_before.values(), *iterations_after.values())
        last = remaining_iterations(union_of_iterations(partition.independent, partition.successors), chunked)
        steps = [ComputeStep(remaining_iterations(partition.predecessors, chunked)), *steps, ComputeStep(last)]
        description = ["what makes or reads the data to be sent"] * producers_chunked + ["the exchange"]
        description += ["what needs it"] * consumers_chunked
        remaining = "" if has_no_iterations(last) else ", then the rest"
        yield ExecutionOrder(tuple(steps), f"for each strip, {', '.join(description)}{remaining}")


SPEC = Transformation(
    "strip-mine",
    "makes, exchanges and uses a long message strip by strip, in the caches",
    find_orders,
    chunks_messages=True,
)
