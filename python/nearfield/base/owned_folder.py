"""Temporary folders that show whether their owner is alive: the owner keeps a file in the folder open."""

from __future__ import annotations

import tempfile
from pathlib import Path

OWNER_FILE_NAME = ".owner"  # a file that the owner keeps open, without content


class OwnedFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder, as a context manager that yields its path and removes it. As long as its owner lives, the
    file OWNER_FILE_NAME in it is open. If the owner is killed, `nearfield doctor --sweep` recognises by this file that
    the folder is stale."""

    def __init__(self, prefix: str, folder: str | Path | None = None) -> None:
        """Creates the folder in `folder`, by default that for temporary files."""
        super().__init__(prefix=prefix, dir=folder, ignore_cleanup_errors=True)
        self._owner = Path(self.name, OWNER_FILE_NAME).open("xb")  # noqa: SIM115  # closed by `cleanup`

    def cleanup(self) -> None:
        """Removes the folder."""
        self._owner.close()
        super().cleanup()
