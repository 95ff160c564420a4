"""Finds the MPI wheels of this Python environment, and detects files that other wheels overwrote."""

import base64
import hashlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Installation

# programs in bin that every MPI has, so that a later wheel overwrites them
_CHECKED_PROGRAMS = ("mpicxx", "mpirun", "mpiexec")


@dataclass(frozen=True)
class MpiWheel:
    """An MPI that is installed as a Python wheel."""

    name: str
    version: str
    family: str
    bin_folder: Path
    overwritten_programs: tuple[str, ...]  # names of files in bin that another wheel overwrote

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    def contains(self, installation: Installation) -> bool:
        return installation.family == self.family and installation.compiler.parent == self.bin_folder


def find_mpi_wheels() -> list[MpiWheel]:
    """Returns the MPI wheels in this Python environment, in the order of the families' `wheels`."""
    known = {name: family.name for family in FAMILIES.values() for name in family.wheel_names}
    found = [
        _make_wheel(distribution, name, known[name])
        for distribution in importlib.metadata.distributions()
        if (name := (distribution.metadata["Name"] or "").lower().replace("_", "-")) in known
    ]
    order = list(known)
    return sorted((w for w in found if w), key=lambda w: order.index(w.name))


def _make_wheel(distribution: importlib.metadata.Distribution, name: str, family: str) -> MpiWheel | None:
    files = {f.name: f for f in distribution.files or () if f.parent.name == "bin" and f.name in _CHECKED_PROGRAMS}
    if not files:
        return None
    bin_dir = Path(str(next(iter(files.values())).locate())).resolve().parent
    changed = tuple(sorted(n for n, file in files.items() if not _is_as_installed(file)))
    return MpiWheel(name, distribution.version, family, bin_dir, changed)


def _is_as_installed(file: importlib.metadata.PackagePath) -> bool:
    """Returns whether a file's hash matches the wheel's RECORD. A file without a recorded hash counts as intact."""
    path = Path(str(file.locate()))
    if file.hash is None or not path.exists():
        return path.exists()
    digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value
