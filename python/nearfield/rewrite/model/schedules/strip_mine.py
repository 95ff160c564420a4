"""Strip mining of messages (Pellegrini et al. 2012, section IV-C): a loop over chunks of a long message, in which each
chunk is produced, exchanged and consumed while it is cached."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import difference, executed_instances, is_empty, union_of
from nearfield.rewrite.model.schedule import ChunkLoop, ComputeStep, Order, Partition, Step, Transformation


def orders(partition: Partition) -> Iterator[Order]:
    """Yields orders with a loop over message chunks: the remaining predecessors; for each chunk the producers or
    readers of the sent data, the exchange, and the consumers of the received data; the rest. Variants strip-mine only
    the producers or only the consumers."""
    for before, after, producers_chunked, consumers_chunked in partition.chunk_assignments():
        steps: list[Step] = []
        for step in partition.original_calls():
            if isinstance(step, ComputeStep) or step.call not in before:
                steps.append(step)
            else:
                steps.append(ChunkLoop(step.call, before[step.call], after[step.call]))
        chunked = executed_instances(*before.values(), *after.values())
        last = difference(union_of(partition.free, partition.after), chunked)
        steps = [ComputeStep(difference(partition.before, chunked)), *steps, ComputeStep(last)]
        words = ["what makes or reads the data to be sent"] * producers_chunked + ["the exchange"]
        words += ["what needs it"] * consumers_chunked
        rest = "" if is_empty(last) else ", then the rest"
        yield Order(tuple(steps), f"for each strip, {', '.join(words)}{rest}")


SPEC = Transformation(
    "strip-mine", "makes, exchanges and uses a long message strip by strip, in the caches", orders, chunks_messages=True
)
