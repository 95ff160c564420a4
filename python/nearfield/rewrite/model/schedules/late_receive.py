"""Late receive: everything that is independent of the received data is executed before the exchange, and the consumers
of the data directly after it."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import is_empty, union_of
from nearfield.rewrite.model.schedule import ComputeStep, Order, Partition, Transformation


def orders(partition: Partition) -> Iterator[Order]:
    """Yields the order of a late receive: everything that may precede the exchange, the exchange, the consumers of the
    received data."""
    if not is_empty(partition.free) and not is_empty(partition.after):
        words = "all that does not need the received data, then the exchange, then what needs them, at once"
        first = ComputeStep(union_of(partition.before, partition.free))
        yield Order((first, *partition.original_calls(), ComputeStep(partition.after)), words)


SPEC = Transformation("late-receive", "receives just before the received data are used", orders)
