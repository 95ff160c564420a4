"""Intel MPI 2021, from oneAPI or from wheels."""

import os
import re
from pathlib import Path

from nearfield.mpi.installation import Family, Launch

# Folders of Intel MPI's libfabric and its providers, in oneAPI and in wheels up to 2021.18; otherwise only oneAPI's
# vars.sh sets their search paths. Wheels of 2021.19 contain no libfabric: shm within a node needs none, and between
# nodes the system's libfabric is used.
_FABRICS = (("opt/mpi/libfabric/lib", "opt/mpi/libfabric/lib/prov"), ("lib", "lib"))


def _needs(root: Path) -> dict[str, str]:
    """Returns the environment variables that Intel MPI needs. They include PATH, because its mpirun is a script that
    calls `mpiexec.hydra` without a path: if MPICH's is found first, each rank starts as a singleton, and MPI_Init
    fails."""
    env = {"I_MPI_ROOT": str(root), "PATH": _in_front(str(root / "bin"), "PATH")}
    for fabric, providers in _FABRICS:
        if (root / fabric / "libfabric.so.1").exists():
            env["LD_LIBRARY_PATH"] = _in_front(str(root / fabric), "LD_LIBRARY_PATH")
            env["FI_PROVIDER_PATH"] = str(root / providers)
            break
    return env


def _in_front(folder: str, variable: str) -> str:
    others = [p for p in os.environ.get(variable, "").split(os.pathsep) if p not in ("", folder)]
    return os.pathsep.join([folder, *others])


def _command(launch: Launch) -> list[str]:
    """Returns the command line. Each host gets a program context, because `-hosts` accepts no number of ranks per
    host."""
    if not launch.hosts:
        return [str(launch.launcher), "-n", str(launch.ranks), *launch.argv]
    contexts = [["-n", str(n), "-host", host, *launch.argv] for host, n in launch.hosts]
    return [str(launch.launcher)] + [word for context in contexts for word in (":", *context)][1:]


def _transport(text: str) -> str | None:
    """Returns `shm` if the output reports a shared-memory segment, which two ranks of a node use by default; with
    I_MPI_FABRICS=ofi, returns the libfabric provider. Returns None otherwise."""
    provider = re.search(r"libfabric provider: (\S+)", text)
    if "shm segment size" in text:
        return "shm"
    return f"ofi ({provider[1]})" if provider else None


SPEC = Family(
    name="intel",
    summary="Intel MPI 2021",
    library_says=r"Intel\(R\) MPI Library (\S+)",
    launcher_says=r"Intel\(R\) MPI Library.*?Version (\S+)",
    launchers=("mpirun", "mpiexec", "mpiexec.hydra"),
    wheels=("impi-rt", "impi-devel"),
    packages="in a virtual environment of its own: pip install impi-devel",
    compiler_variable="I_MPI_CXX",
    needs=_needs,
    command=_command,
    environment=lambda launch: {"I_MPI_PIN": "0"},  # Intel MPI pins ranks by default; the engine binds itself
    pmi=("pmi2", "pmi1"),
    verbose={"I_MPI_DEBUG": "10"},
    transport=_transport,
    shm_names=("Intel_MPI*", "impi_*", "psm*_shm*"),
    temporary_names=(r"Intel_MPI_ipc_check_capability_\w{6}",),
)
