"""Removes shared-memory files that killed ranks leave behind in /dev/shm."""

import os
import time
from fnmatch import fnmatch
from pathlib import Path

from nearfield.mpi.families import FAMILIES
from nearfield.mpi.file_use import Use, claim, visible_users

SHM = Path("/dev/shm")
EXIT_S = 1.0  # within which the kernel closes the files of a process whose memory it has unmapped


def snapshot_shm() -> set[str]:
    """Returns the names of all files in /dev/shm. Call it before a launch."""
    try:
        return {entry.name for entry in SHM.iterdir()}
    except OSError:
        return set()


def remove_stale_shm(before: set[str]) -> list[str]:
    """Removes files in /dev/shm that are not in `before`, belong to this user, match an MPI's name patterns and are
    used by no live process. Returns their names. Files of launches that still run are in use and remain."""
    left = {name for name in snapshot_shm() - before if _is_mpi_file_of_user(name)}
    removed: list[str] = []
    deadline = time.monotonic() + EXIT_S
    while left:
        uses = {name: _remove_if_unused(SHM / name) for name in left}
        removed += [name for name, use in uses.items() if use is Use.UNUSED]
        left = {name for name, use in uses.items() if use is Use.IN_USE}
        # Files in use that no visible process uses belong to processes that are exiting.
        used = visible_users() if left else {}
        left = {name for name in left if str(SHM / name) not in used}
        if time.monotonic() > deadline:
            break
        time.sleep(0.02 if left else 0)
    return sorted(removed)


def _is_mpi_file_of_user(name: str) -> bool:
    try:
        owner = (SHM / name).lstat().st_uid
    except OSError:
        return False
    patterns = (p for family in FAMILIES.values() for p in family.shm_names)
    return owner == os.geteuid() and any(fnmatch(name, pattern) for pattern in patterns)


def _remove_if_unused(file: Path) -> Use:
    """Removes the file if no process uses it. Returns UNUSED if it was removed."""
    with claim(file) as found:
        if found.use is Use.UNUSED and not found.remove():
            return Use.UNKNOWN
        return found.use
