"""MPICH 3.4 and later, and its direct descendants (MVAPICH), with the launcher Hydra."""

import re

from nearfield.mpi.installation import LaunchParameters, MpiFamily
from nearfield.mpi.ucx import parse_ucx_lanes


def _make_command(launch: LaunchParameters) -> list[str]:
    command = [str(launch.launcher), "-n", str(launch.ranks), "-bind-to", "none"]
    if launch.hosts:
        command += ["-hosts", ",".join(f"{host}:{count}" for host, count in launch.hosts)]
    return [*command, *launch.argv]


def _parse_transport(text: str) -> str | None:
    """Returns the transport. MPICH does not report which of its two on-node paths carries messages: ch4's shared
    memory, or the netmod (up to 4.0, if built for UCX). It follows from the library that made the single copies, as
    counted by the engine; UCX logs its lanes. Returns None if no single copy was made."""
    copier = re.search(r"^single_copies [1-9]\d* (\S+)$", text, re.MULTILINE)
    if not copier:
        return None
    if not copier[1].startswith(("libuct", "libucp", "libucs")):
        return "ch4 / posix"
    return f"ch4 / ucx ({parse_ucx_lanes(text) or 'lanes unknown'})"


SPEC = MpiFamily(
    name="mpich",
    summary="MPICH 3.4 and later, and MVAPICH",
    library_version_pattern=r"(?:MPICH|MVAPICH2?)\s*Version\s*:\s*(\S+)",
    launcher_version_pattern=r"HYDRA build details:\s+Version:\s*(\S+)",
    launcher_names=("mpirun", "mpiexec", "mpiexec.hydra"),
    wheel_names=("mpich",),
    packages="Debian: apt install libmpich-dev; or, in a virtual environment of its own: pip install mpich",
    compiler_variable="MPICH_CXX",
    make_command=_make_command,
    srun_mpi_types=("pmi2", "pmix"),
    verbose_variables={"MPIR_CVAR_DEBUG_SUMMARY": "1", "UCX_LOG_LEVEL": "info"},
    parse_transport=_parse_transport,
    shm_patterns=("mpich_shm_*", "mpich_shar_tmp*", "mpich_s_shar_tmp*", "mv2_*", "ucx_shm_posix_*", "psm*_shm*"),
    temporary_patterns=(r"hydra_hwloc_xmlfile_\w{6}",),
)
