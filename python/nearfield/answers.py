"""Keeps answers that take long to find out in the cache folder, until a file that they depend on changes.

It has no slow imports, because `nearfield run` stands before every mpirun and takes its answers from here. If the
folder cannot be written, nothing is kept."""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

from nearfield.base.files import content_of, write_whole
from nearfield.errors import NearfieldError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MOST_ANSWERS = 256  # of one kind; beyond that the oldest ones are removed


def cache_root() -> Path:
    """Returns NEARFIELD_CACHE, else nearfield's folder in the user's cache, which all environments of a user share.
    Raises UsageError if the user has no home folder: it is not nearfield's to make."""
    try:
        if chosen := os.environ.get("NEARFIELD_CACHE"):
            return Path(chosen).expanduser().absolute()
        if (given := Path(os.environ.get("XDG_CACHE_HOME") or "")).is_absolute():  # others are void, as XDG says
            return given / "nearfield"
        home = Path.home()
    except RuntimeError:
        home = None
    if home is None or not home.is_dir():
        remedy = "set HOME, or NEARFIELD_CACHE to a folder for it"
        raise UsageError("there is no home folder in which nearfield could keep its cache", remedy)
    return home / ".cache" / "nearfield"


def recall(kind: str, question: Any) -> Any:
    """Returns the answer to a question, which is anything that JSON can hold; None if there is none, or if one of its
    files changed since."""
    text = json.dumps(question)
    try:
        kept = json.loads(content_of(_file(kind, text)))
        if kept["question"] == text and all(stamp(path) == then for path, then in kept["files"].items()):
            return kept["answer"]
    except (NearfieldError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def remember(kind: str, question: Any, answer: Any, files: Iterable[str | Path] = ()) -> None:
    """Keeps an answer until one of the files changes."""
    text = json.dumps(question)
    kept = {"question": text, "files": {str(path): stamp(path) for path in files}, "answer": answer}
    with suppress(OSError, NearfieldError):
        file = _file(kind, text)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(kept).encode(), "")
        _forget_oldest(file.parent)


def found_out(kind: str, question: Any, find: Callable[[], Any], files: Iterable[str | Path]) -> Any:
    """The answer: as it was kept, else as `find` returns it, which is kept unless it is None."""
    answer = recall(kind, question)
    if answer is None and (answer := find()) is not None:
        remember(kind, question, answer, files)
    return answer


def stamp(path: str | Path) -> list[int] | None:
    """Returns a value that changes when the file does; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def _file(kind: str, question: str) -> Path:
    return cache_root() / "answers" / f"{kind}-{zlib.crc32(question.encode()):08x}{len(question):x}.json"


def _forget_oldest(folder: Path) -> None:
    files = list(folder.iterdir())
    if len(files) > 2 * MOST_ANSWERS:
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-MOST_ANSWERS]:
            file.unlink(missing_ok=True)
