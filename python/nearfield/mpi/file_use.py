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


class Use(Enum):
    """Whether a process has a file open or mapped."""

    UNUSED = "unused"
    IN_USE = "in use"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Claim:
    """The answer for one file. If it is UNUSED, the lease is held until the end of `claim`."""

    path: Path
    use: Use
    reason: str  # why the answer is UNKNOWN
    _file: int = -1

    def is_unchanged(self) -> bool:
        """Returns whether the path still leads to the file, and nobody waits to open it."""
        try:
            now, then = self.path.lstat(), os.fstat(self._file)
            waits = fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_WRLCK
        except OSError:
            return False
        return (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino) and not waits

    def remove(self) -> bool:
        """Removes the file if it is UNUSED and unchanged. Returns whether it did."""
        if self.use is not Use.UNUSED or not self.is_unchanged():
            return False
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


@contextmanager
def claim(path: Path) -> Iterator[Claim]:
    """Context manager that finds out whether a regular file of this user is in use. If not, no process can open the
    file until the end of the context."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        # The owner of another lease, such as a second sweep, makes open() fail with EWOULDBLOCK.
        in_use = error.errno == errno.EWOULDBLOCK
        yield Claim(path, Use.IN_USE if in_use else Use.UNKNOWN, f"it cannot be opened: {error.strerror}")
        return
    try:
        use, reason = _take_lease(file)
        yield Claim(path, use, reason, file)
    finally:
        os.close(file)  # ends the lease


def _take_lease(file: int) -> tuple[Use, str]:
    try:
        # The kernel signals the holder when somebody wants to open the file. SIGURG is ignored by default, SIGIO kills.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return Use.IN_USE, ""
        return Use.UNKNOWN, f"the kernel does not say who uses it: {error.strerror}"
    kind = file_system_of(os.fstat(file).st_dev)
    if kind in COUNTING_FILE_SYSTEMS:
        return Use.UNUSED, ""
    return Use.UNKNOWN, f"the file system ({kind or 'of an unknown type'}) does not say who has it mapped"


def file_system_of(device: int) -> str:
    """Returns the type of the file system with this device number, such as "tmpfs"; "" if it is not a mount."""
    return _file_systems().get(f"{os.major(device)}:{os.minor(device)}", "")


@lru_cache(maxsize=1)
def _file_systems() -> dict[str, str]:
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


def visible_users() -> dict[str, int]:
    """Returns path -> a process that has this file mapped or open, as far as this user may read /proc. Processes that
    are exiting, whose memory is already unmapped, are left out."""
    return {path: int(process.name) for process in Path("/proc").glob("[0-9]*") for path in _paths_of(process)}


def _paths_of(process: Path) -> Iterator[str]:
    try:
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
        if not maps:
            return
        yield from {line[line.index("/") :] for line in maps.splitlines() if "/" in line}
        yield from (str(file.readlink()) for file in (process / "fd").iterdir())
    except OSError:
        return  # the process has ended, or belongs to another user
