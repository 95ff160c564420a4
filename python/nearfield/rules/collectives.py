"""Preloads nearfield's library of collectives (src/preload/collectives) into programs, with the algorithms that rules
select."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nearfield import mpi
from nearfield.base import shared_heap
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi import Installation

# the library's settings, "key=value,..." (src/preload/collectives/settings.hpp)
COLLECTIVES_VARIABLE = "NEARFIELD_COLLECTIVES"
SUMMARY_SETTING = "summary=1"
# Names of operations, as in src/preload/collectives/selection.cpp.
OPERATIONS = (
    "barrier", "bcast", "gather", "scatter", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter", "scan",
)  # fmt: skip
# Operations for which `tune --native` searches the MPI's own algorithms.
NATIVE_OPERATIONS = ("barrier", "bcast", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter")
# FLAT_ALGORITHM: each rank reads directly from all ranks that have data for it; MPI_ALGORITHM: the MPI's own algorithm
FLAT_ALGORITHM, MPI_ALGORITHM = "flat", "mpi"
DOUBLING_ALGORITHM = "doubling"  # recursive doubling, for data that fit into a slot
_SLOT_BYTES = 8192  # as in src/collectives/box.hpp
GROUPED_PREFIX = "grouped"  # name prefix, followed by the number of ranks per group
_EXTRA_ALGORITHMS = {
    "allreduce": ("whole", "slices", DOUBLING_ALGORITHM, GROUPED_PREFIX),
    "bcast": ("slices", GROUPED_PREFIX),
    "barrier": (DOUBLING_ALGORITHM, GROUPED_PREFIX),
    "reduce": (DOUBLING_ALGORITHM,),
    "allgather": (DOUBLING_ALGORITHM,),
    "alltoall": (DOUBLING_ALGORITHM,),
}
# Algorithms for communicators that span nodes; the MPI runs the other operations.
# LEADERS_ALGORITHM: one rank per node transfers the data between nodes; LANES_ALGORITHM: all ranks do
LEADERS_ALGORITHM, LANES_ALGORITHM = "leaders", "lanes"
ALGORITHMS_ACROSS_NODES = {
    "barrier": (LEADERS_ALGORITHM,),
    "bcast": (LEADERS_ALGORITHM,),
    "reduce": (LEADERS_ALGORITHM,),
    "allgather": (LANES_ALGORITHM,),
    "alltoall": (LANES_ALGORITHM,),
    "allreduce": (LEADERS_ALGORITHM, LANES_ALGORITHM),
}


def operations_across_nodes(num_nodes: int) -> tuple[str, ...]:
    """Returns the operations that nearfield implements for communicators on `num_nodes` nodes."""
    return OPERATIONS if num_nodes == 1 else tuple(ALGORITHMS_ACROSS_NODES)


def algorithms_of(operation: str, cache_group_size: int = 0, num_nodes: int = 1) -> list[str]:
    """Returns the names of an operation's algorithms, the MPI's own last. `cache_group_size` is the number of
    neighbouring ranks that share a cache; 0: no groups."""
    if num_nodes > 1:
        return [*ALGORITHMS_ACROSS_NODES.get(operation, ()), MPI_ALGORITHM]
    further = _EXTRA_ALGORITHMS.get(operation, ())
    grouped = [f"{GROUPED_PREFIX}{cache_group_size}"] if cache_group_size and GROUPED_PREFIX in further else []
    return [FLAT_ALGORITHM, *(name for name in further if name != GROUPED_PREFIX), *grouped, MPI_ALGORITHM]


def max_doubling_bytes(operation: str, num_ranks: int) -> int:
    """Returns the maximum length in bytes for which `doubling` can run an operation: of the vector, or of one block in
    an allgather and an alltoall, in which a rank sends up to half of the blocks of `num_ranks` ranks in a step."""
    return _SLOT_BYTES // ((num_ranks + 1) // 2) if operation in ("allgather", "alltoall") else _SLOT_BYTES


def is_algorithm_of(operation: str, algorithm: str, num_nodes: int = 1) -> bool:
    """Returns whether nearfield's library has this algorithm for the operation on `num_nodes` nodes."""
    if algorithm.startswith(GROUPED_PREFIX) and num_nodes == 1:
        group = algorithm.removeprefix(GROUPED_PREFIX)
        return GROUPED_PREFIX in _EXTRA_ALGORITHMS.get(operation, ()) and group.isdecimal() and int(group) > 1
    return algorithm in algorithms_of(operation, num_nodes=num_nodes)


def collectives_preload_variables(library: Path, inherited_environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that preload the collectives library, in front of the shared heap, which it
    uses to copy long data."""
    heap = shared_heap.heap_preload_variables(inherited_environment)
    preloaded = [name for name in heap["LD_PRELOAD"].split() if name != str(library)]
    return heap | {"LD_PRELOAD": " ".join([str(library), *preloaded])}


def collectives_variables(
    inst: Installation, inherited_environment: Mapping[str, str], progress: ReportLine = ignore_progress
) -> dict[str, str]:
    """Returns the environment variables that preload the collectives library for an MPI. The first call builds the
    library. Raises MpiError if that fails."""
    return collectives_preload_variables(
        mpi.build_target(inst, mpi.COLLECTIVES_TARGET, progress), inherited_environment
    )
