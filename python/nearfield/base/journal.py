"""A file of lines in which long work records its finished steps, so that it can resume after an interruption."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from nearfield.base.errors import ProfileError, UsageError
from nearfield.base.files import os_errors_as_profile_errors

if TYPE_CHECKING:
    from typing_extensions import Self


class Journal:
    """A journal file. It can be used only inside of the context `open_locked`, in which it is open and locked. OSErrors
    become ProfileError with the `remedy`."""

    def __init__(self, path: Path, remedy: str) -> None:
        self.path, self._remedy = path, remedy
        self._file: FileIO | None = None

    @contextmanager
    def open_locked(self, busy: UsageError, *, is_private: bool = False) -> Iterator[Self]:
        """Context manager: opens or creates the file and locks it by flock. Raises `busy` if another process has locked
        it. With `is_private`, raises ProfileError if another user may write to the file."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with os_errors_as_profile_errors(self.path, self._remedy):
            self._file = FileIO(os.open(self.path, flags, 0o600 if is_private else 0o666), "r+")
        with self._file:
            status = os.fstat(self._file.fileno())
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
            if is_private and not is_ours:
                raise ProfileError(
                    f"{self.path} is in the way: it is not a file that only you may write",
                    f"remove it, or {self._remedy}",
                )
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise busy from None
            yield self

    def read_lines(self) -> list[bytes]:
        """Returns the lines of the file. The last line may be incomplete, if its writer was killed; it is then
        terminated, so that the next line does not continue it."""
        assert self._file
        self._file.seek(0)
        with os_errors_as_profile_errors(self.path, self._remedy):
            *lines, torn = self._file.readall().split(b"\n")
            if torn:
                self._file.write(b"\n")
        return [*lines, torn] if torn else lines

    def append_line(self, line: bytes, *, sync: bool = False) -> None:
        """Appends a line. With `sync`, returns after fsync. Without it, a crash of the machine may lose the line, but a
        crash of this process does not."""
        assert self._file
        with os_errors_as_profile_errors(self.path, self._remedy):
            if self._file.write(line + b"\n") <= len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sync:
                os.fsync(self._file)

    def clear(self) -> None:
        """Removes all lines."""
        assert self._file
        with os_errors_as_profile_errors(self.path, self._remedy):
            self._file.truncate(0)

    def remove_file(self) -> None:
        """Removes the file."""
        self.path.unlink(missing_ok=True)
