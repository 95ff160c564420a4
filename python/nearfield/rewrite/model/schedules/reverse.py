"""Reversed loops (Pellegrini et al. 2012, listing 3, OPT2): late receive with loops over rows and columns in reverse,
so that the data to be sent are accessed last before the exchange."""

from __future__ import annotations

from collections.abc import Iterator

from nearfield.rewrite.model.instances import has_no_iterations
from nearfield.rewrite.model.schedule import ComputeStep, DependencePartition, ExecutionOrder, Transformation


def find_orders(partition: DependencePartition) -> Iterator[ExecutionOrder]:
    """Yields orders with reversed loops: everything that may precede the exchange, reversed; the exchange; the
    consumers of the received data. All loops are reversed, or only the outermost ones if reversing all is not legal."""
    if has_no_iterations(partition.independent) or has_no_iterations(partition.successors):
        return
    description = "all that does not need the received data, backwards, then the exchange, then what needs them"
    deepest = max(len(nest.loops) for nest in partition.model.region.nests)
    for loops in dict.fromkeys((deepest, 1)):
        first, backward = (
            ComputeStep(partition.predecessors),
            ComputeStep(partition.independent, num_reversed_loops=loops),
        )
        yield ExecutionOrder(
            (first, backward, *partition.original_call_steps(), ComputeStep(partition.successors)), description
        )


SPEC = Transformation(
    "reverse", "sends and receives while both data are in the cache, by going through rows backwards", find_orders
)
