"""A cache on disk: JSON values by namespace and key. A value is dropped when a file on which it depends changes.

This module imports no slow modules, because `nearfield run` reads the cache before every mpirun. If the folder is not
writable, nothing is stored.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

from nearfield.base.errors import NearfieldError, UsageError
from nearfield.base.files import atomic_write, read_user_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MAX_ENTRIES = 256  # maximum number of values; when there are twice as many, the oldest are removed


def cache_root() -> Path:
    """Returns the folder for caches: NEARFIELD_CACHE if it is set, otherwise `nearfield` in the cache folder of the
    user, which all Python environments of the user share. Raises UsageError if the user has no home folder, since
    nearfield must not create one."""
    try:
        if chosen := os.environ.get("NEARFIELD_CACHE"):
            return Path(chosen).expanduser().absolute()
        if (given := Path(os.environ.get("XDG_CACHE_HOME") or "")).is_absolute():  # XDG: relative paths are invalid
            return given / "nearfield"
        home = Path.home()
    except RuntimeError:
        home = None
    if home is None or not home.is_dir():
        remedy = "set HOME, or NEARFIELD_CACHE to a folder for it"
        raise UsageError("there is no home folder for nearfield's cache", remedy)
    return home / ".cache" / "nearfield"


def get_value(namespace: str, key: Any) -> Any:
    """Returns the value stored under a key (any JSON value). Returns None if no value is stored, or if a file on which
    the value depends has changed since."""
    text = json.dumps(key)
    try:
        entry = json.loads(read_user_file(_entry_file(namespace, text)))
        if entry["key"] == text and all(file_signature(path) == then for path, then in entry["files"].items()):
            return entry["value"]
    except (NearfieldError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def store_value(namespace: str, key: Any, value: Any, files: Iterable[str | Path] = ()) -> None:
    """Stores a value that is valid until one of the files changes. If the folder is not writable, does nothing."""
    text = json.dumps(key)
    entry = {"key": text, "files": {str(path): file_signature(path) for path in files}, "value": value}
    with suppress(OSError, NearfieldError):
        file = _entry_file(namespace, text)
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(file, json.dumps(entry).encode(), "")
        _remove_oldest_entries(file.parent)


def get_or_compute(namespace: str, key: Any, compute: Callable[[], Any], files: Iterable[str | Path]) -> Any:
    """Returns the stored value if it exists. Otherwise calls compute(), stores its result unless it is None, and
    returns it."""
    value = get_value(namespace, key)
    if value is None and (value := compute()) is not None:
        store_value(namespace, key, value, files)
    return value


def file_signature(path: str | Path) -> list[int] | None:
    """Returns a value that changes when the file changes: modification time, size and inode. Returns None if the file
    does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _entry_file(namespace: str, key: str) -> Path:
    return cache_root() / "values" / f"{namespace}-{zlib.crc32(key.encode()):08x}{len(key):x}.json"


def _remove_oldest_entries(folder: Path) -> None:
    """If the folder has more than 2 * MAX_ENTRIES entries, removes all but the newest MAX_ENTRIES."""
    files = list(folder.iterdir())
    if len(files) > 2 * MAX_ENTRIES:
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-MAX_ENTRIES]:
            file.unlink(missing_ok=True)
