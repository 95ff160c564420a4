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
    warm = common_iterations(partition.free, partition.warm)
    if not has_no_iterations(warm):
        rest = union_of_iterations(remaining_iterations(partition.free, warm), partition.after)
        words = "what reads the data to be sent, then the exchange, then the rest"
        yield ExecutionOrder(
            (ComputeStep(partition.before), ComputeStep(warm), *partition.original_call_steps(), ComputeStep(rest)),
            words,
        )
    if not has_no_iterations(partition.before) and not has_no_iterations(partition.free):
        words = "what makes the data to be sent comes last before the exchange"
        free, before, after = map(ComputeStep, (partition.free, partition.before, partition.after))
        yield ExecutionOrder((free, before, *partition.original_call_steps(), after), words)


SPEC = Transformation(
    "warm-send", "sends while the data are in the cache, after the loops that touch them", find_orders
)
