"""Strip mining of messages (S0, section IV-C): a loop over chunks of a long message, in which each chunk is produced,
exchanged and used while it is cached."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.schedule import (
    ChunkLoop,
    ChunkMaps,
    ComputeStep,
    Order,
    Partition,
    Step,
    Transformation,
    difference,
    executed_instances,
    intersection,
    is_empty,
    union_of,
)  # fmt: skip


def orders(partition: Partition) -> Iterator[Order]:
    """Yields: the remaining predecessors; for each chunk the producers or readers of the sent data, the exchange, and
    the consumers of the received data; the rest. Variants strip-mine only the producers or only the consumers."""
    for producers_chunked, consumers_chunked in ((True, True), (True, False), (False, True)):
        before, after = assign_to_chunks(
            partition, producers_chunked=producers_chunked, consumers_chunked=consumers_chunked
        )
        if (producers_chunked and not any(before.values())) or (consumers_chunked and not any(after.values())):
            continue
        steps: list[Step] = []
        for step in partition.original_calls():
            if isinstance(step, ComputeStep) or step.call not in before:
                steps.append(step)
            else:
                steps.append(ChunkLoop(step.call, before[step.call], after[step.call]))
        chunked = executed_instances(*before.values(), *after.values())
        last = difference(union_of(partition.free, partition.after), chunked)
        steps = [ComputeStep(difference(partition.before, chunked)), *steps, ComputeStep(last)]
        words = [
            "for each strip, " + ", ".join(
                [
                    *["what makes or reads the data to be sent"] * producers_chunked,
                    "the exchange",
                    *["what needs it"] * consumers_chunked,
                ]
            ),
            *(["then the rest"] if not is_empty(last) else []),
        ]  # fmt: skip
        yield Order(tuple(steps), ", ".join(words))


def assign_to_chunks(
    partition: Partition, *, producers_chunked: bool, consumers_chunked: bool
) -> tuple[dict[int, ChunkMaps], dict[int, ChunkMaps]]:
    """Returns, by call, the instances executed before and after each of its chunks. Instances that several calls depend
    on come before the first of them; instances that depend on several calls come after the last."""
    numbers = [number for number, _ in partition.model.chunked_calls]
    before: dict[int, ChunkMaps] = {number: {} for number in numbers}
    after: dict[int, ChunkMaps] = {number: {} for number in numbers}
    left = union_of(partition.before, intersection(partition.free, partition.warm))
    for number in numbers if producers_chunked else []:
        before[number] = partition.producers(number, left)
        left = difference(left, executed_instances(before[number]))
    left = partition.after
    for number in reversed(numbers) if consumers_chunked else []:
        after[number] = partition.consumers(number, left)
        left = difference(left, executed_instances(after[number]))
    return before, after


SPEC = Transformation(
    "strip-mine", "makes, exchanges and uses a long message strip by strip, in the caches", orders, chunks_messages=True
)
