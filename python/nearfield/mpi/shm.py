"""Removes shared-memory files that killed ranks leave behind in /dev/shm."""

import os
import time
from fnmatch import fnmatch
from pathlib import Path

from nearfield.mpi.families import FAMILIES
from nearfield.mpi.file_use import FileUse, claim_file, find_process_by_open_file

SHM_FOLDER = Path("/dev/shm")
FILE_CLOSE_LIMIT_S = 1.0  # time limit for the kernel to close the files of a process whose memory is already unmapped


def snapshot_shm() -> set[str]:
    """Returns the names of all files in /dev/shm. Call it before a launch."""
    try:
        return {entry.name for entry in SHM_FOLDER.iterdir()}
    except OSError:
        return set()


def remove_stale_shm(names_before: set[str]) -> list[str]:
    """Removes files in /dev/shm that are not in `names_before`, belong to this user, match an MPI's name patterns, and
    that no live process uses. Returns their names. Files of launches that still run are in use and remain."""
    left = {name for name in snapshot_shm() - names_before if _is_mpi_file_of_user(name)}
    removed: list[str] = []
    deadline = time.monotonic() + FILE_CLOSE_LIMIT_S
    while left:
        uses = {name: _remove_if_unused(SHM_FOLDER / name) for name in left}
        removed += [name for name, use in uses.items() if use is FileUse.UNUSED]
        left = {name for name, use in uses.items() if use is FileUse.IN_USE}
        # Files in use that no visible process uses belong to processes that are exiting.
        used = find_process_by_open_file() if left else {}
        left = {name for name in left if str(SHM_FOLDER / name) not in used}
        if time.monotonic() > deadline:
            break
        time.sleep(0.02 if left else 0)
    return sorted(removed)


def _is_mpi_file_of_user(name: str) -> bool:
    try:
        owner = (SHM_FOLDER / name).lstat().st_uid
    except OSError:
        return False
    patterns = (p for family in FAMILIES.values() for p in family.shm_patterns)
    return owner == os.geteuid() and any(fnmatch(name, pattern) for pattern in patterns)


def _remove_if_unused(file: Path) -> FileUse:
    """Removes the file if no process uses it. Returns UNUSED if it was removed."""
    with claim_file(file) as found:
        if found.use is FileUse.UNUSED and not found.remove():
            return FileUse.UNKNOWN
        return found.use
