"""Loads the collectives of a node (src/preload/collectives) into programs, with the algorithms that rules select."""

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

VARIABLE = "NEARFIELD_COLLECTIVES"  # its settings, "key=value,key=value" (src/preload/collectives/settings.hpp)
SUMMARY = "summary=1"
# The names of src/preload/collectives/selection.cpp.
OPERATIONS = (
    "barrier", "bcast", "gather", "scatter", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter", "scan",
)  # fmt: skip
# Of which the MPIs' own algorithms are searched.
NATIVE_OPERATIONS = ("barrier", "bcast", "reduce", "allgather", "alltoall", "allreduce", "reduce_scatter")
FLAT, OF_MPI = "flat", "mpi"  # each rank reads from all that have data for it; the MPI's own
DOUBLING, MAX_DOUBLING_BYTES = "doubling", 8192  # recursive doubling, of what fits into a slot
GROUPED = "grouped"  # followed by the number of ranks of a group
_FURTHER = {
    "allreduce": ("whole", "slices", DOUBLING, GROUPED),
    "bcast": ("slices", GROUPED),
    "barrier": (DOUBLING, GROUPED),
    "reduce": (DOUBLING,),
}
# Of communicators that span nodes; the MPI does their other operations.
LEADERS, LANES = "leaders", "lanes"  # one rank of each node carries what goes between nodes, or all ranks do
ALGORITHMS_ACROSS_NODES = {
    "barrier": (LEADERS,),
    "bcast": (LEADERS,),
    "reduce": (LEADERS,),
    "allgather": (LANES,),
    "alltoall": (LANES,),
    "allreduce": (LEADERS, LANES),
}


def operations_of(nodes: int) -> tuple[str, ...]:
    """Returns the operations that are done directly by communicators of that many nodes."""
    return OPERATIONS if nodes == 1 else tuple(ALGORITHMS_ACROSS_NODES)


def algorithms_of(operation: str, group: int = 0, nodes: int = 1) -> list[str]:
    """Returns the algorithms of an operation, the MPI's own last. `group` is the number of neighbouring ranks that
    share a cache; 0: there are no groups."""
    if nodes > 1:
        return [*ALGORITHMS_ACROSS_NODES.get(operation, ()), OF_MPI]
    further = _FURTHER.get(operation, ())
    grouped = [f"{GROUPED}{group}"] if group and GROUPED in further else []
    return [FLAT, *(name for name in further if name != GROUPED), *grouped, OF_MPI]


def is_algorithm_of(operation: str, name: str, nodes: int = 1) -> bool:
    """Returns whether the library knows this algorithm for the operation on that many nodes."""
    if name.startswith(GROUPED) and nodes == 1:
        group = name.removeprefix(GROUPED)
        return GROUPED in _FURTHER.get(operation, ()) and group.isdecimal() and int(group) > 1
    return name in algorithms_of(operation, nodes=nodes)


def loading(library: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that preload the library, before the shared heap, through which it copies long data."""
    heap = shared_heap.preload_variables(inherited)
    preloaded = [name for name in heap["LD_PRELOAD"].split() if name != str(library)]
    return heap | {"LD_PRELOAD": " ".join([str(library), *preloaded])}


def for_installation(inst: Installation, inherited: Mapping[str, str], progress: ReportLine = ignore) -> dict[str, str]:
    """Returns the variables for an MPI. The first call builds the library; raises MpiError."""
    return loading(mpi.program(inst, mpi.COLLECTIVES, progress), inherited)


def selection(tables: Iterable[CollectiveTable]) -> str:
    """Returns what rules select as the library reads it: "bcast@2=flat-2048+mpi-8192+flat,reduce@8x4=leaders,..."."""
    return ",".join(f"{table.operation}@{table.place}={'+'.join(map(str, table.range))}" for table in tables)
