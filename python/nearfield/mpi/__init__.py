"""Finds the MPIs of this machine, selects one, builds native targets for it, launches programs and cleans up."""

from nearfield.base.disk_cache import cache_root
from nearfield.mpi.build import (
    COLLECTIVES,
    COLLECTIVES_PROGRAM,
    COMPONENT,
    ENGINE,
    FORECAST,
    HALO,
    LAYER,
    SHIM,
    is_built,
    native_source,
    program,
    sources_hash,
)
from nearfield.mpi.discover import SEARCHED_VARIABLES, discover, survey
from nearfield.mpi.installation import Installation, Unusable
from nearfield.mpi.launch import launch_command
from nearfield.mpi.process import Finished, run
from nearfield.mpi.selection import Choice, choose, default
from nearfield.mpi.shm import remove_stale_shm, snapshot_shm
from nearfield.mpi.transports import transport_or_reason

__all__ = [
    "COLLECTIVES",
    "COLLECTIVES_PROGRAM",
    "COMPONENT",
    "ENGINE",
    "FORECAST",
    "HALO",
    "SEARCHED_VARIABLES",
    "LAYER",
    "SHIM",
    "Choice",
    "Finished",
    "Installation",
    "Unusable",
    "cache_root",
    "sources_hash",
    "choose",
    "default",
    "discover",
    "is_built",
    "launch_command",
    "native_source",
    "program",
    "remove_stale_shm",
    "run",
    "snapshot_shm",
    "survey",
    "transport_or_reason",
]
