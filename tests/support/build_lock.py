"""Lets one process at a time build a program that several tests want."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock


@contextmanager
def build_lock(target: Path) -> Iterator[bool]:
    """Provides a block in which nobody else builds this file or folder. Yields whether it is still to be built: no
    block for it has ended without an exception."""
    stamp = Path(f"{target}.built")
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock", timeout=600):
        yield not stamp.exists()
        stamp.touch()
