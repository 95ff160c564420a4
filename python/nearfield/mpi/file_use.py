"""Finds out whether any process has a file open or mapped, by a lease of the kernel.

A write lease (fcntl F_SETLEASE) is refused while any other open file description of the file exists. A mapping keeps
its open file description alive, so a file that is mapped and closed counts as well. The kernel counts these in the
inode, so the answer holds for processes of other PID namespaces, of other users, and for those that hidepid hides. A
look into /proc would miss all of these.

While the lease is held, an open() of the file by another process waits. So nobody can begin to use the file between the
question and its removal.

The lease misses some users. On file systems that are layered over others (overlay, FUSE, NFS), a mapping holds another
inode. There the answer is UNKNOWN unless the lease is refused. A process that was saved to disk by a checkpoint, and
has ended since, does not exist for the kernel."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

# File systems whose inodes count all openings and mappings of their files.
COUNTING_FILE_SYSTEMS = frozenset({"tmpfs", "ext2", "ext3", "ext4", "xfs"})


class FileUse(Enum):
    """Whether a process has a file open or mapped."""

    UNUSED = "unused"
    IN_USE = "in use"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FileClaim:
    """The result for one file. If it is UNUSED, the lease is held until the end of `claim_file`."""

    path: Path
    use: FileUse
    reason: str  # why the answer is UNKNOWN
    _fd: int = -1

    def is_unchanged(self) -> bool:
        """Returns whether the path still leads to the file, and nobody waits to open it."""
        try:
            now, then = self.path.lstat(), os.fstat(self._fd)
            waits = fcntl.fcntl(self._fd, fcntl.F_GETLEASE) != fcntl.F_WRLCK
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino) and not waits

    def remove(self) -> bool:
        """Removes the file if it is UNUSED and unchanged. Returns whether it did."""
        if self.use is not FileUse.UNUSED or not self.is_unchanged():
            return False
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


@contextmanager
def claim_file(path: Path) -> Iterator[FileClaim]:
    """Context manager that finds out whether a regular file of this user is in use. If not, no process can open the
    file until the end of the context."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # The owner of another lease, such as a second sweep, makes open() fail with EWOULDBLOCK.
        in_use = error.errno == errno.EWOULDBLOCK
        yield FileClaim(path, FileUse.IN_USE if in_use else FileUse.UNKNOWN, f"it cannot be opened: {error.strerror}")
        return
    try:
        use, reason = _take_lease(file)
        yield FileClaim(path, use, reason, file)
    finally:
        os.close(file)  # ends the lease


def _take_lease(fd: int) -> tuple[FileUse, str]:
    try:
        # The kernel signals the holder when somebody wants to open the file. SIGURG is ignored by default, SIGIO kills.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return FileUse.IN_USE, ""
        return FileUse.UNKNOWN, f"the kernel does not report which processes use it: {error.strerror}"
    kind = file_system_of_device(os.fstat(fd).st_dev)
    if kind in COUNTING_FILE_SYSTEMS:
        return FileUse.UNUSED, ""
    return (
        FileUse.UNKNOWN,
        f"the file system ({kind or 'of an unknown type'}) does not report which processes have it mapped",
    )


def file_system_of_device(device: int) -> str:
    """Returns the type of the file system with this device number, such as "tmpfs"; "" if it is not a mount."""
    return _file_system_by_device().get(f"{os.major(device)}:{os.minor(device)}", "")


@lru_cache(maxsize=1)
def _file_system_by_device() -> dict[str, str]:
    """Returns device number -> type for all mounts that this process sees."""
    found = {}
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        mount, _, source = line.partition(" - ")
        found[mount.split()[2]] = source.split()[0]
    return found


def find_process_by_open_file() -> dict[str, int]:
    """Returns a dict from path to the id of a process that has this file mapped or open, for the processes whose /proc
    entries this user may read. Processes that are exiting, whose memory is already unmapped, are left out."""
    return {
        path: int(process.name) for process in Path("/proc").glob("[0-9]*") for path in _open_paths_of_process(process)
    }


def _open_paths_of_process(process: Path) -> Iterator[str]:
    try:
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
        if not maps:
            return
        yield from {line[line.index("/") :] for line in maps.splitlines() if "/" in line}
        yield from (str(file.readlink()) for file in (process / "fd").iterdir())
    except OSError:
        return  # the process has ended, or belongs to another user
