"""Intel MPI 2021, from oneAPI or from wheels."""

import os
import re
from pathlib import Path

from nearfield.mpi.installation import LaunchParameters, MpiFamily

# Folders of Intel MPI's libfabric and its providers, in oneAPI and in wheels up to 2021.18; otherwise only oneAPI's
# vars.sh sets their search paths. Wheels of 2021.19 contain no libfabric: shm within a node needs none, and between
# nodes the system's libfabric is used.
_LIBFABRIC_FOLDERS = (("opt/mpi/libfabric/lib", "opt/mpi/libfabric/lib/prov"), ("lib", "lib"))


def _get_required_variables(root: Path) -> dict[str, str]:
    """Returns the environment variables that Intel MPI needs. They include PATH, because its mpirun is a script that
    calls `mpiexec.hydra` without a path: if MPICH's is found first, each rank starts as a singleton, and MPI_Init
    fails."""
    env = {"I_MPI_ROOT": str(root), "PATH": _prepend_to_variable(str(root / "bin"), "PATH")}
    for fabric, providers in _LIBFABRIC_FOLDERS:
        if (root / fabric / "libfabric.so.1").exists():
            env["LD_LIBRARY_PATH"] = _prepend_to_variable(str(root / fabric), "LD_LIBRARY_PATH")
            env["FI_PROVIDER_PATH"] = str(root / providers)
            break
    return env


def _prepend_to_variable(folder: str, variable: str) -> str:
    others = [p for p in os.environ.get(variable, "").split(os.pathsep) if p not in ("", folder)]
    return os.pathsep.join([folder, *others])


def _make_command(launch: LaunchParameters) -> list[str]:
    """Returns the command line. Each host gets a program context, because `-hosts` accepts no number of ranks per
    host."""
    if not launch.hosts:
        return [str(launch.launcher), "-n", str(launch.ranks), *launch.argv]
    contexts = [["-n", str(n), "-host", host, *launch.argv] for host, n in launch.hosts]
    return [str(launch.launcher)] + [word for context in contexts for word in (":", *context)][1:]


def _parse_transport(text: str) -> str | None:
    """Returns `shm` if the output reports a shared-memory segment, which two ranks of a node use by default; with
    I_MPI_FABRICS=ofi, returns the libfabric provider. Returns None otherwise."""
    provider = re.search(r"libfabric provider: (\S+)", text)
    if "shm segment size" in text:
        return "shm"
    return f"ofi ({provider[1]})" if provider else None


SPEC = MpiFamily(
    name="intel",
    summary="Intel MPI 2021",
    library_version_pattern=r"Intel\(R\) MPI Library (\S+)",
    launcher_version_pattern=r"Intel\(R\) MPI Library.*?Version (\S+)",
    launcher_names=("mpirun", "mpiexec", "mpiexec.hydra"),
    wheel_names=("impi-rt", "impi-devel"),
    packages="in a virtual environment of its own: pip install impi-devel",
    compiler_variable="I_MPI_CXX",
    get_required_variables=_get_required_variables,
    make_command=_make_command,
    get_default_variables=lambda launch: {"I_MPI_PIN": "0"},  # Intel MPI pins ranks by default; the engine binds itself
    srun_mpi_types=("pmi2", "pmi1"),
    verbose_variables={"I_MPI_DEBUG": "10"},
    parse_transport=_parse_transport,
    shm_patterns=("Intel_MPI*", "impi_*", "psm*_shm*"),
    temporary_patterns=(r"Intel_MPI_ipc_check_capability_\w{6}",),
)
