"""Makes the libraries that `nearfield run` preloads reach ranks on other nodes, and determines whether they certainly
do.

Hydra (MPICH, Intel MPI) and srun pass the environment on to all nodes. mpirun of Open MPI passes only its own
parameters, and the variables that the parameter FORWARDING_VARIABLE lists. If the dynamic linker does not find a
preloaded library on a node, it starts the program without the library.
"""

from __future__ import annotations

from pathlib import Path

from nearfield.base import job_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL_NODES_VARIABLE = "NEARFIELD_ALL_NODES"  # 1: the user asserts that all nodes have the libraries at the same path
# lists the variables that mpirun of Open MPI passes on to other nodes
FORWARDING_VARIABLE = "OMPI_MCA_mca_base_env_list"
_LAUNCHER_NAMES = ("mpirun", "mpiexec", "orterun", "prun", "mpiexec.hydra", "srun")
_OWN_VARIABLE_PREFIXES = ("LD_PRELOAD", "NEARFIELD_")
_COLLECTIVES_VARIABLE, _COLLECTIVES_LIBRARY = "NEARFIELD_COLLECTIVES", "libnearfield_collectives"
# Types of file systems that nodes share, as in /proc/self/mountinfo.
_SHARED_FILE_SYSTEMS = {
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "afs", "panfs", "cifs", "smb3", "gfs2", "ocfs2", "pvfs2",
    "wekafs", "fuse.glusterfs", "fuse.cvmfs2", "fuse.beegfs-fuse", "fuse.ceph-fuse", "fuse.daos", "fuse.dfuse",
}  # fmt: skip


def variables_for_all_nodes(argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables to add to an environment that preloads libraries: those that make the libraries work on all
    nodes, and the key by which ranks recognise one another."""
    added = job_key.make_key_variable(environment)
    if _COLLECTIVES_LIBRARY in environment.get("LD_PRELOAD", "") and loads_on_all_nodes(argv, environment):
        settings = [environment.get(_COLLECTIVES_VARIABLE, ""), "all_nodes=1"]
        added[_COLLECTIVES_VARIABLE] = ",".join(filter(None, settings))
    if _is_launcher_command(argv) and "LD_PRELOAD" in environment:
        added |= open_mpi_forwarding_variable(argv, {**environment, **added})
    return added


def open_mpi_forwarding_variable(argv: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns {FORWARDING_VARIABLE: list}, by which mpirun of Open MPI passes LD_PRELOAD and all variables of nearfield
    on to other nodes. Returns {} if the command forwards variables itself (-x), since Open MPI accepts only one of the
    two. Other launchers ignore the variable. The list contains values, so call this function again after changing a
    variable."""
    if _command_forwards_variables(argv):
        return {}
    listed = [
        item
        for item in environment.get(FORWARDING_VARIABLE, "").split(";")
        if item and not item.startswith(_OWN_VARIABLE_PREFIXES)
    ]
    own = sorted(name for name in environment if name.startswith(_OWN_VARIABLE_PREFIXES))
    # If a list has only the name of a variable, Open MPI 4.1.4 and 5.0.11 do not forward a value that contains "=".
    items = (f"{name}={environment[name]}" if "=" in environment[name] else name for name in own)
    return {FORWARDING_VARIABLE: ";".join([*listed, *items])}


def loads_on_all_nodes(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Returns whether all ranks of the command certainly load the preloaded libraries: the launcher passes the
    variables on, and all nodes have the files, either on a file system that nodes share, or because the user sets
    ALL_NODES_VARIABLE to 1.
    """
    if _command_forwards_variables(argv) and not all(
        _command_names_variable(argv, name) for name in ("LD_PRELOAD", _COLLECTIVES_VARIABLE)
    ):
        return False
    said = environment.get(ALL_NODES_VARIABLE, "")
    if said:
        return said == "1"
    if not _is_launcher_command(argv):
        return False
    files = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    return bool(files) and all(is_on_shared_file_system(Path(file)) for file in files if file.startswith("/"))


def is_on_shared_file_system(file: Path) -> bool:
    """Returns whether a file is on a file system that nodes share."""
    return file_system_of_file(str(file)) in _SHARED_FILE_SYSTEMS


def file_system_of_file(file: str) -> str:
    """Returns the type of the file system that holds a file, such as "nfs4"; empty if that is unknown."""
    path, best, found = str(Path(file).resolve()), "", ""
    try:
        with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                mount, _, rest = line.partition(" - ")
                folder = mount.split(" ")[4].replace("\\040", " ")
                is_above = folder == "/" or path == folder or path.startswith(folder + "/")
                if is_above and len(folder) >= len(best):  # of two mounts on the same folder, the later one is visible
                    best, found = folder, rest.split(" ")[0]
    except (OSError, IndexError):
        return ""
    return found


def _command_forwards_variables(argv: Sequence[str]) -> bool:
    return any(word in ("-x", "--x", "mca_base_env_list") for word in argv)


def _command_names_variable(argv: Sequence[str], variable: str) -> bool:
    return any(variable in word.split("=")[0].split(";") for word in argv)


def _is_launcher_command(argv: Sequence[str]) -> bool:
    name = Path(argv[0]).name
    return name in _LAUNCHER_NAMES or name.startswith(("mpirun.", "mpiexec."))
