"""Late receive: everything that is independent of the received data is executed before the exchange, and the consumers
of the data directly after it."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import has_no_iterations, union_of_iterations
from nearfield.rewrite.model.schedule import ComputeStep, DependencePartition, ExecutionOrder, Transformation


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields the order of a late receive: everything that may precede the exchange, the exchange, the consumers of the
    received data."""
    if not has_no_iterations(partition.independent) and not has_no_iterations(partition.successors):
        description = "all that does not need the received data, then the exchange, then what needs them, at once"
        first = ComputeStep(union_of_iterations(partition.predecessors, partition.independent))
        yield ExecutionOrder((first, *partition.original_call_steps(), ComputeStep(partition.successors)), description)


SPEC = Transformation("late-receive", "receives just before the received data are used", find_orders)
