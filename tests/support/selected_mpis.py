"""Which MPIs the options of pytest select."""

import pytest

from nearfield import mpi
from nearfield.mpi import Installation


def selected_installations(config: pytest.Config) -> list[Installation]:
    """Returns the MPI of --mpi, the two of --rotate, or all of this machine without these options."""
    if name := config.getoption("--mpi"):
        return [mpi.choose_mpi(name)]
    found = mpi.find_usable_mpis()
    turn = config.getoption("--rotate")
    if turn is None:
        return found
    of_open_mpi = [inst for inst in found if inst.family == "openmpi"]
    of_mpich = [inst for inst in found if inst.family != "openmpi"]  # Intel MPI's ABI is MPICH's
    return [versions[turn % len(versions)] for versions in (of_open_mpi, of_mpich) if versions]
