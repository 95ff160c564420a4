"""Selects the MPI's own algorithms of collectives for the programs of a command, by files in the cache folder.

A file has its contents' name, so that it never changes while a program reads it. All ranks must read the same file:
where ranks may be on other nodes, it must be on a file system that nodes share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nearfield.base import all_nodes
from nearfield.base.disk_cache import cache_root
from nearfield.base.errors import MpiError
from nearfield.mpi import Installation
from nearfield.rules.native import FAMILIES, Selection
from nearfield.rules.schema import Rules

# Variables that may send ranks to other hosts without a word of the command.
_HOST_FILES = (
    "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
)  # fmt: skip


def selection(rules: Rules, inst: Installation | None) -> Selection:
    """Returns the rules' selection in the MPI's own formats. Raises MpiError if an MPI that is needed is not here, and
    UsageError if the rules name an algorithm that it does not have."""
    tables = [one for one in rules.native_collectives() if not one.is_left_to_mpi]
    return FAMILIES[rules.mpi.family].select(tables, inst)


def environment(rules: Rules, inst: Installation | None) -> tuple[dict[str, str], list[str]]:
    """Returns the variables that select the algorithms, and which of them name files, which are written. Raises errors
    as `selection` does, and MpiError if the cache cannot be written."""
    selected = selection(rules, inst)
    if not selected.files:
        return dict(selected.variables), []
    text = "\0".join(text for _, text in selected.files.values())
    folder = cache_root() / "collectives" / hashlib.sha256(text.encode()).hexdigest()[:20]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MpiError(f"cannot write to the cache {folder}: {error.strerror}") from error
    return selected.write(folder, "set NEARFIELD_CACHE to a writable folder"), list(selected.files)


def all_nodes_find(argv: Sequence[str], inherited: Mapping[str, str], files: Iterable[str]) -> bool:
    """Returns whether all ranks of a command surely find these files: they are on this node, or on a file system that
    nodes share, or the user says so by NEARFIELD_ALL_NODES."""
    from nearfield.mpi.process import may_use_other_hosts

    if said := inherited.get(all_nodes.ALL_NODES, ""):
        return said == "1"
    if not may_use_other_hosts(argv) and not any(name in inherited for name in _HOST_FILES):
        return True
    return all(all_nodes.is_shared(Path(file)) for file in files)
