"""Finds what looks like an MPI but cannot be used: launchers without a compiler wrapper, wheels that overwrote each
other. The list explains to users why an MPI is missing."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nearfield.errors import MpiError
from nearfield.mpi.candidates import PREFIXES_VARIABLE, folders
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Installation, Unusable
from nearfield.mpi.toolchain import ask
from nearfield.mpi.wheels import Wheel


def unusable(usable: Iterable[Installation], wheels: list[Wheel]) -> Iterator[Unusable]:
    """Yields everything unusable, given the usable MPIs."""
    yield from _launchers_alone(list(usable), wheels)
    yield from _overwritten(wheels)


def _launchers_alone(usable: list[Installation], wheels: list[Wheel]) -> Iterator[Unusable]:
    """Yields launchers without wrappers, as Debian's openmpi-bin or the wheel impi-rt alone install them."""
    known = {i.launcher.resolve() for i in usable}
    places = {w.bin: f"wheel {w.title}" for w in wheels}
    for folder, origin in folders():
        places.setdefault(folder, origin)
    for folder, origin in places.items():
        for launcher in _launchers_in(folder):
            if re.fullmatch(r"mpirun(\.\w+)?", launcher.name) and launcher.resolve() not in known:
                known.add(launcher.resolve())
                yield from _alone(launcher, origin)


def _launchers_in(folder: Path) -> list[Path]:
    """Returns the launchers in a folder. There are none in a folder that this user may not read; after `su`, PATH may
    name such folders."""
    return sorted(folder.glob("mpirun*")) if os.access(folder, os.R_OK | os.X_OK) else []


def _alone(launcher: Path, origin: str) -> Iterator[Unusable]:
    for family in FAMILIES.values():
        try:
            said = ask([str(launcher), "--version"], family.needs(launcher.parent.parent))
        except MpiError:
            continue
        if version := family.launcher_version(said):
            reason = f"{family.summary} ({version}) has a launcher but no C++ compiler wrapper"
            yield Unusable(launcher, origin, reason, family.packages)
            return


def _overwritten(wheels: list[Wheel]) -> Iterator[Unusable]:
    """Yields wheels that another MPI's wheel overwrote: in one environment they share a bin, and the last one wins."""
    for wheel in wheels:
        if wheel.overwritten:
            yield Unusable(
                wheel.bin / wheel.overwritten[0],
                f"wheel {wheel.title}",
                f"another MPI's wheel has overwritten its {', '.join(wheel.overwritten)}",
                f"give each MPI a virtual environment of its own and name it in {PREFIXES_VARIABLE}",
            )
