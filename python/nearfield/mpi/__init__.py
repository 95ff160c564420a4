"""Finds the MPIs of this machine, selects one, builds native targets for it, launches programs and cleans up."""

from nearfield.base.disk_cache import cache_root
from nearfield.mpi.build import (
    COLLECTIVES_PROGRAM_TARGET,
    COLLECTIVES_TARGET,
    COMPONENT_TARGET,
    ENGINE_TARGET,
    FORECAST_TARGET,
    HALO_TARGET,
    PROFILING_LAYER_TARGET,
    SHIM_TARGET,
    build_target,
    hash_sources,
    is_built,
    native_source_folder,
)
from nearfield.mpi.discover import SEARCHED_VARIABLES, find_usable_mpis, survey_mpis
from nearfield.mpi.installation import Installation, UnusableMpi
from nearfield.mpi.launch import launch_command
from nearfield.mpi.process import FinishedLaunch, run
from nearfield.mpi.selection import DefaultMpiChoice, choose_default_mpi, choose_mpi
from nearfield.mpi.shm import remove_stale_shm, snapshot_shm
from nearfield.mpi.transports import transport_or_reason

__all__ = [
    "COLLECTIVES_TARGET",
    "COLLECTIVES_PROGRAM_TARGET",
    "COMPONENT_TARGET",
    "ENGINE_TARGET",
    "FORECAST_TARGET",
    "HALO_TARGET",
    "SEARCHED_VARIABLES",
    "PROFILING_LAYER_TARGET",
    "SHIM_TARGET",
    "DefaultMpiChoice",
    "FinishedLaunch",
    "Installation",
    "UnusableMpi",
    "cache_root",
    "hash_sources",
    "choose_mpi",
    "choose_default_mpi",
    "find_usable_mpis",
    "is_built",
    "launch_command",
    "native_source_folder",
    "build_target",
    "remove_stale_shm",
    "run",
    "snapshot_shm",
    "survey_mpis",
    "transport_or_reason",
]
