"""Loads the collectives of a node (src/preload/collectives) into programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nearfield import mpi
from nearfield.base.errors import MpiError
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi import Installation
from nearfield.mpi.detect_command import installation_of, recognise
from nearfield.rules import shared_heap

VARIABLE = "NEARFIELD_COLLECTIVES"  # its settings, "key=number,key=number" (src/preload/collectives/settings.hpp)
SUMMARY = "summary=1"


def loading(library: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that preload the library, before the shared heap, through which it copies long data."""
    heap = shared_heap.loading(inherited)
    preloaded = [name for name in heap["LD_PRELOAD"].split() if name != str(library)]
    return heap | {"LD_PRELOAD": " ".join([str(library), *preloaded])}


def for_installation(inst: Installation, inherited: Mapping[str, str], progress: ReportLine = ignore) -> dict[str, str]:
    """Returns the variables for an MPI. The first call builds the library; raises MpiError."""
    return loading(mpi.program(inst, mpi.COLLECTIVES, progress), inherited)


def for_command(
    argv: Sequence[str], mpi_name: str | None, inherited: Mapping[str, str], progress: ReportLine = ignore
) -> dict[str, str]:
    """Returns the variables for the MPI of a command; raises MpiError if that is unknown."""
    found = recognise(argv, mpi_name)
    inst = installation_of(found)
    if inst is None:
        raise MpiError(
            f"{found.family} {found.version}, which {argv[0]} starts, is not among the MPIs that are found here",
            "name its folder in NEARFIELD_MPIS",
        )
    return for_installation(inst, inherited, progress)
