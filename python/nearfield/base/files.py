"""Writes files atomically, with error messages that name the file and a remedy; reads files that users name, and small
files of the kernel; finds folders that come with nearfield."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nearfield.base.errors import ProfileError


@contextmanager
def os_errors_as_profile_errors(path: Path, remedy: str) -> Iterator[None]:
    """Context manager that turns an OSError into a ProfileError: `path` cannot be written."""
    try:
        yield
    except OSError as error:
        raise ProfileError(f"cannot write {path}: {error.strerror or error}", remedy) from error


def atomic_write(path: Path, content: bytes | str, remedy: str, *, keep: bool = True) -> None:
    """Writes a file atomically, by a rename, and preserves the mode of an existing file. A device or a pipe is written
    directly, without waiting for a reader of the pipe. Text is written as UTF-8, with ? for surrogates (bytes of file
    names that are not UTF-8). If not `keep`, only tests whether the file could be written. Raises ProfileError if it
    cannot."""
    content = content.encode("utf-8", "replace") if isinstance(content, str) else content
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os_errors_as_profile_errors(path, remedy):
            if _is_special_file(path):
                if keep:
                    with open(path, "wb", opener=_open_nonblocking) as file:  # noqa: PTH123  # Path.open takes no opener
                        file.write(content)
                return
            fresh.unlink(missing_ok=True)
            with fresh.open("xb") as file:  # exclusive creation follows no link of another user
                file.write(content)
            if keep:
                with suppress(OSError):  # the file did not exist
                    fresh.chmod(stat.S_IMODE(path.stat().st_mode))
                fresh.replace(path)
    finally:
        with suppress(OSError):
            fresh.unlink()


def _is_special_file(path: Path) -> bool:
    """Returns whether the path is a device, a pipe or an open file such as /dev/stdout: it must be written directly,
    never replaced by a rename."""
    name = str(path.absolute())
    if name.startswith(("/dev/", "/proc/")) and not name.startswith("/dev/shm/"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def read_user_file(path: str | Path, max_bytes: int = -1) -> bytes:
    """Returns the content of a file that a user names: the whole, or the first `max_bytes`. A named pipe is read to its
    end; if no process has it open for writing, the result is empty, since waiting for a writer might never end. Raises
    OSError, also for a name that no file can have."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:  # noqa: PTH123  # Path.open takes no opener
            return file.read(max_bytes)
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path)) from error


def _open_nonblocking(path: str, flags: int) -> int:
    file = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(file, True)
    return file


def find_shipped_folder(name: str) -> Path:
    """Returns the folder of this name that comes with nearfield: in the installed package, or in the source tree. If
    there is none, returns its path in the package."""
    package = Path(__file__).resolve().parents[1]
    folders = [package / name, *(parent / name for parent in package.parents[:3])]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def read_small_file(path: str | Path) -> str | None:
    """Returns the text of a small file without surrounding blanks; None if it does not exist or cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_bracketed_choice(path: str | Path) -> str | None:
    """Returns the word in brackets in a file like "always [madvise] never"; None if it has none."""
    text = read_small_file(path) or ""
    return text.partition("[")[2].partition("]")[0] or None
