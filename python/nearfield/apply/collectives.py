"""Preloads nearfield's library of collectives (src/preload/collectives) into the programs of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearfield.base.errors import MpiError
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi.detect_command import detect_mpi, installation_of_detected_mpi
from nearfield.rules.collectives import collectives_variables


def collectives_variables_for_command(
    argv: Sequence[str],
    mpi_name: str | None,
    inherited_environment: Mapping[str, str],
    progress: ReportLine = ignore_progress,
) -> dict[str, str]:
    """Returns the environment variables that preload the collectives library for the MPI of a command. Builds the
    library on first use. Raises MpiError if the MPI is unknown."""
    found = detect_mpi(argv, mpi_name)
    inst = installation_of_detected_mpi(found)
    if inst is None:
        raise MpiError(
            f"{found.family} {found.version}, which {argv[0]} starts, is not among the MPIs that are found here",
            "name its folder in NEARFIELD_MPIS",
        )
    return collectives_variables(inst, inherited_environment, progress)
