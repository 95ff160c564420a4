"""Preloads nearfield's library of collectives (src/preload/collectives) into programs, with the algorithms that rules
select."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nearfield import mpi
from nearfield.base import shared_heap
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi import Installation

if TYPE_CHECKING:
    from nearfield.rules.collective_tables import CollectiveTable

VARIABLE = "NEARFIELD_COLLECTIVES"  # the library's settings, "key=value,..." (src/preload/collectives/settings.hpp)
SUMMARY = "summary=1"
# Names of operations, as in src/preload/collectives/selection.cpp.
OPERATIONS = (
    "barrier", "bcast", "gather", "scatter", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter", "scan",
)  # fmt: skip
# Operations for which `tune --native` searches the MPI's own algorithms.
NATIVE_OPERATIONS = ("barrier", "bcast", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter")
# FLAT: each rank reads directly from all ranks that have data for it; OF_MPI: the MPI's own algorithm
FLAT, OF_MPI = "flat", "mpi"
DOUBLING, MAX_DOUBLING_BYTES = "doubling", 8192  # recursive doubling, for data that fit into a slot
GROUPED = "grouped"  # name prefix, followed by the number of ranks per group
_EXTRA_ALGORITHMS = {
    "allreduce": ("whole", "slices", DOUBLING, GROUPED),
    "bcast": ("slices", GROUPED),
    "barrier": (DOUBLING, GROUPED),
    "reduce": (DOUBLING,),
}
# Algorithms for communicators that span nodes; the MPI runs the other operations.
LEADERS, LANES = "leaders", "lanes"  # LEADERS: one rank per node transfers the data between nodes; LANES: all ranks do
ALGORITHMS_ACROSS_NODES = {
    "barrier": (LEADERS,),
    "bcast": (LEADERS,),
    "reduce": (LEADERS,),
    "allgather": (LANES,),
    "alltoall": (LANES,),
    "allreduce": (LEADERS, LANES),
}


def operations_of(nodes: int) -> tuple[str, ...]:
    """Returns the operations that nearfield implements for communicators on `nodes` nodes."""
    return OPERATIONS if nodes == 1 else tuple(ALGORITHMS_ACROSS_NODES)


def algorithms_of(operation: str, group: int = 0, nodes: int = 1) -> list[str]:
    """Returns the names of an operation's algorithms, the MPI's own last. `group` is the number of neighbouring ranks
    that share a cache; 0: no groups."""
    if nodes > 1:
        return [*ALGORITHMS_ACROSS_NODES.get(operation, ()), OF_MPI]
    further = _EXTRA_ALGORITHMS.get(operation, ())
    grouped = [f"{GROUPED}{group}"] if group and GROUPED in further else []
    return [FLAT, *(name for name in further if name != GROUPED), *grouped, OF_MPI]


def is_algorithm_of(operation: str, name: str, nodes: int = 1) -> bool:
    """Returns whether nearfield's library has this algorithm for the operation on `nodes` nodes."""
    if name.startswith(GROUPED) and nodes == 1:
        group = name.removeprefix(GROUPED)
        return GROUPED in _EXTRA_ALGORITHMS.get(operation, ()) and group.isdecimal() and int(group) > 1
    return name in algorithms_of(operation, nodes=nodes)


def preload_variables(library: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that preload the collectives library, in front of the shared heap, which it
    uses to copy long data."""
    heap = shared_heap.preload_variables(inherited)
    preloaded = [name for name in heap["LD_PRELOAD"].split() if name != str(library)]
    return heap | {"LD_PRELOAD": " ".join([str(library), *preloaded])}


def variables_for_installation(
    inst: Installation, inherited: Mapping[str, str], progress: ReportLine = ignore
) -> dict[str, str]:
    """Returns the environment variables that preload the collectives library for an MPI. The first call builds the
    library. Raises MpiError if that fails."""
    return preload_variables(mpi.program(inst, mpi.COLLECTIVES, progress), inherited)


def selection_text(tables: Iterable[CollectiveTable]) -> str:
    """Returns the selected algorithms in the library's syntax:
    "bcast@2=flat-2048+mpi-8192+flat,reduce@8x4=leaders,..."."""
    return ",".join(f"{table.operation}@{table.place}={'+'.join(map(str, table.range))}" for table in tables)
