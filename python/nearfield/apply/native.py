"""Selects the MPI's own algorithms of collectives for the programs of a command, by files in the cache folder.

The folder of a file is named by a hash of the content, so the file never changes while a program reads it. All ranks
must read the same file: if ranks may run on other nodes, it must be on a shared file system."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nearfield.base import all_nodes
from nearfield.base.disk_cache import cache_root
from nearfield.base.errors import MpiError
from nearfield.mpi import Installation
from nearfield.rules.native import FAMILIES, NativeSelection
from nearfield.rules.schema import Rules

# Environment variables that make launchers start ranks on other hosts.
_HOST_FILE_VARIABLES = (
    "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
)  # fmt: skip


def native_selection(rules: Rules, inst: Installation | None) -> NativeSelection:
    """Returns the rules' selection in the MPI's own format. Raises MpiError if the MPI is required but missing, and
    UsageError if the MPI lacks an algorithm named in the rules."""
    tables = [one for one in rules.native_collective_tables() if not one.is_left_to_mpi]
    return FAMILIES[rules.mpi.family].make_selection(tables, inst)


def native_environment(rules: Rules, inst: Installation | None) -> tuple[dict[str, str], list[str]]:
    """Writes the selection to files in the cache. Returns the environment variables that select the algorithms, and the
    names of those whose values are files. Raises the errors of `native_selection`, and MpiError if the cache cannot be
    written."""
    selected = native_selection(rules, inst)
    if not selected.files:
        return dict(selected.variables), []
    text = "\0".join(text for _, text in selected.files.values())
    folder = cache_root() / "collectives" / hashlib.sha256(text.encode()).hexdigest()[:20]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MpiError(f"cannot write to the cache {folder}: {error.strerror}") from error
    return selected.write_files(folder, "set NEARFIELD_CACHE to a writable folder"), list(selected.files)


def are_files_on_all_nodes(argv: Sequence[str], inherited_environment: Mapping[str, str], files: Iterable[str]) -> bool:
    """Returns whether these files certainly exist for all ranks of a command: all ranks are on this node, or the files
    are on a shared file system, or the user says so in NEARFIELD_ALL_NODES."""
    from nearfield.mpi.process import may_use_other_hosts

    if said := inherited_environment.get(all_nodes.ALL_NODES_VARIABLE, ""):
        return said == "1"
    if not may_use_other_hosts(argv) and not any(name in inherited_environment for name in _HOST_FILE_VARIABLES):
        return True
    return all(all_nodes.is_on_shared_file_system(Path(file)) for file in files)
