"""Warm send (Pellegrini et al. 2012, listing 2, OPT1): loop iterations that access the data to be sent are executed
directly before the exchange."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import difference, intersection, is_empty, union_of
from nearfield.rewrite.model.schedule import ComputeStep, Order, Partition, Transformation


def orders(partition: Partition) -> Iterator[Order]:
    """Yields orders for a warm send: the iterations that access data to be sent, the exchange, the rest. If loops
    precede the exchange, also an order in which the iterations that access data to be sent are the last of these."""
    warm = intersection(partition.free, partition.warm)
    if not is_empty(warm):
        rest = union_of(difference(partition.free, warm), partition.after)
        words = "what reads the data to be sent, then the exchange, then the rest"
        yield Order(
            (ComputeStep(partition.before), ComputeStep(warm), *partition.original_calls(), ComputeStep(rest)), words
        )
    if not is_empty(partition.before) and not is_empty(partition.free):
        words = "what makes the data to be sent comes last before the exchange"
        free, before, after = map(ComputeStep, (partition.free, partition.before, partition.after))
        yield Order((free, before, *partition.original_calls(), after), words)


SPEC = Transformation("warm-send", "sends while the data are in the cache, after the loops that touch them", orders)
