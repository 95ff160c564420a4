"""Checks the language of a file; only C and C++ can be rewritten."""

from __future__ import annotations

from pathlib import Path

from nearfield.base import own_command
from nearfield.base.errors import UsageError

FORTRAN = frozenset({".f", ".for", ".ftn", ".fpp", ".f77", ".f90", ".f95", ".f03", ".f08", ".f18"})


def check_language(path: Path) -> None:
    """Raises UsageError if the file is Fortran, with the commands that support Fortran."""
    if path.suffix.lower() in FORTRAN:
        raise UsageError(
            f"{path} is in Fortran: only C and C++ can be rewritten",
            f"{own_command.line('tune')}, run and compare need no source; {own_command.line('observe')} and advise "
            "note the lines at which a Fortran program loses time; the halo library has a Fortran module "
            "(docs/tutorials/halo.md).",
        )
