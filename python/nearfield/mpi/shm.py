"""Removes shared-memory files that killed ranks leave behind in /dev/shm."""

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from nearfield.mpi.families import FAMILIES

SHM = Path("/dev/shm")


def snapshot_shm() -> set[str]:
    """Returns the names of all files in /dev/shm. Call it before a launch."""
    try:
        return {entry.name for entry in SHM.iterdir()}
    except OSError:
        return set()


def remove_stale_shm(before: set[str]) -> list[str]:
    """Removes files in /dev/shm that are not in `before`, belong to this user, match an MPI's name patterns and are
    used by no live process. Returns their names. Files of launches that still run are in use and remain."""
    candidates = {name for name in snapshot_shm() - before if _is_mpi_file_of_user(name)}
    if not candidates:
        return []
    return sorted(name for name in candidates - _names_in_use() if _remove(SHM / name))


def _is_mpi_file_of_user(name: str) -> bool:
    try:
        owner = (SHM / name).lstat().st_uid
    except OSError:
        return False
    patterns = (p for family in FAMILIES.values() for p in family.shm_names)
    return owner == os.geteuid() and any(fnmatch(name, pattern) for pattern in patterns)


def _names_in_use() -> set[str]:
    """Returns the names of files in /dev/shm that a process has mapped or open, as far as this user may read /proc."""
    prefix = f"{SHM}/"
    return {path[len(prefix) :] for path in _paths_in_use() if path.startswith(prefix)}


def _paths_in_use() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
            if not maps:
                continue  # the process is exiting: memory already unmapped, files may stay open for some ms
            for line in maps.splitlines():
                if "/" in line:
                    yield line[line.index("/") :]
            yield from (str(fd.readlink()) for fd in (process / "fd").iterdir())
        except OSError:
            continue  # the process has ended, or belongs to another user


def _remove(file: Path) -> bool:
    try:
        file.unlink()
    except OSError:
        return False
    return True
