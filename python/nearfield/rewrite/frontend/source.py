"""Reads the source files to be rewritten, which must be C or C++."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.base.errors import UsageError
from nearfield.base.files import read_user_file

FORTRAN_SUFFIXES = frozenset({".f", ".for", ".ftn", ".fpp", ".f77", ".f90", ".f95", ".f03", ".f08", ".f18"})


def check_language(path: Path) -> None:
    """Raises UsageError if a source file is Fortran. The message names the commands that support Fortran."""
    if path.suffix.lower() in FORTRAN_SUFFIXES:
        raise UsageError(
            f"{path} is in Fortran: only C and C++ can be rewritten",
            f"{own_command.command_line('tune')}, run and compare need no source; "
            f"{own_command.command_line('observe')} and advise "
            "note the lines at which a Fortran program loses time; the halo library has a Fortran module "
            "(docs/tutorials/halo.md).",
        )


def read_source(path: Path) -> str:
    """Returns the text of a source file with one character per byte. Raises UsageError if the file cannot be read, is
    not UTF-8, or is Fortran."""
    check_language(path)
    try:
        data = read_user_file(path)
        data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: byte {error.start}", "Convert it first, with iconv.") from error
    return data.decode("latin-1")


def decode_source(text: str) -> str:
    """Decodes a text of `read_source`, which has one character per byte, to a normal string."""
    return text.encode("latin-1").decode("utf-8")
