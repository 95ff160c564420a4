"""Reads a trace from a file or standard input, and decompresses it on the fly."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from nearfield.base.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import Self

STANDARD_INPUT = "-"
BLOCK_BYTES = 1 << 20
_DECOMPRESSOR_BY_MAGIC: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b\x08": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}  # first bytes of a file -> function that opens it
_DAMAGED_DATA_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


class TraceSource:
    """One trace, as a context manager. gzip, xz and bzip2 data are recognised by their first bytes and decompressed."""

    def __init__(self, name: str) -> None:
        """`name`: a file name, or '-' for standard input. Waits for the first bytes. Raises UsageError if the trace
        cannot be read."""
        self._is_file = name != STANDARD_INPUT
        self.name = name if self._is_file else "standard input"
        if not self._is_file and sys.stdin is None:
            raise UsageError("standard input is closed", "Name a file, or send the trace through a pipe.")
        try:
            self._file = cast("BinaryIO", Path(name).open("rb") if self._is_file else sys.stdin.buffer)  # noqa: SIM115
            self._file_bytes = Path(name).stat().st_size if self._is_file else 0
            first = self._file.peek(6)  # type: ignore[attr-defined]  # both files are buffered readers
        except (OSError, ValueError) as error:  # ValueError if the name has a null character
            cause = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{self.name} cannot be read: {cause}") from error
        unpack = next((unpack for magic, unpack in _DECOMPRESSOR_BY_MAGIC.items() if first.startswith(magic)), None)
        self._decompressed: Any = unpack(self._file) if unpack else self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_file:
            self._file.close()

    def read(self) -> bytes:
        """Returns the next bytes as soon as some are available; empty at the end. Raises UsageError if the data is
        damaged."""
        try:
            return self._decompressed.read1(BLOCK_BYTES)  # type: ignore[no-any-return]
        except _DAMAGED_DATA_ERRORS as error:
            raise UsageError(
                f"{self.name} is damaged: {error}", "Unpack it by hand to see more, or copy it again."
            ) from error
        except OSError as error:
            raise UsageError(f"{self.name} cannot be read: {error.strerror or error}") from error

    @property
    def read_share(self) -> float | None:
        """Returns the share of the file that has been read, from 0 to 1; None if its length is unknown."""
        return min(1.0, self._file.tell() / self._file_bytes) if self._file_bytes else None
