"""Warm send (Pellegrini et al. 2012, listing 2, OPT1): loop iterations that access the data to be sent are executed
directly before the exchange."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import (
    common_iterations,
    has_no_iterations,
    remaining_iterations,
    union_of_iterations,
)
from nearfield.rewrite.model.schedule import ComputeStep, DependencePartition, ExecutionOrder, Transformation


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields orders for a warm send: the iterations that access data to be sent, the exchange, the rest. If loops
    precede the exchange, also an order in which the iterations that access data to be sent are the last of these."""
    accessing_sent_data = common_iterations(partition.independent, partition.accessing_sent_data)
    if not has_no_iterations(accessing_sent_data):
        remaining = union_of_iterations(
            remaining_iterations(partition.independent, accessing_sent_data), partition.successors
        )
        description = "what reads the data to be sent, then the exchange, then the rest"
        yield ExecutionOrder(
            (
                ComputeStep(partition.predecessors),
                ComputeStep(accessing_sent_data),
                *partition.original_call_steps(),
                ComputeStep(remaining),
            ),
            description,
        )
    if not has_no_iterations(partition.predecessors) and not has_no_iterations(partition.independent):
        description = "what makes the data to be sent comes last before the exchange"
        independent, predecessors, successors = map(
            ComputeStep, (partition.independent, partition.predecessors, partition.successors)
        )
        yield ExecutionOrder((independent, predecessors, *partition.original_call_steps(), successors), description)


SPEC = Transformation(
    "warm-send", "sends while the data are in the cache, after the loops that touch them", find_orders
)
