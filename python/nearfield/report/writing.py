"""Writes a page, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from nearfield.errors import ProfileError


def write_whole(path: Path, page: str) -> Path:
    """Writes the page to `path` and returns it. Raises ProfileError if it cannot be written."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_bytes(page.encode())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise ProfileError(f"cannot write {path}: {error.strerror}", "Give another place with -o FILE.") from error
    return path
