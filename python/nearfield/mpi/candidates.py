"""Lists where MPIs may be installed: folders to search, and the compiler wrappers in them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi.toolchain import WRAPPER_NAMES, capture_output

PREFIXES_VARIABLE = "NEARFIELD_MPIS"  # environment variable with additional prefixes, separated by colons


def candidate_folders() -> Iterator[tuple[Path, str]]:
    """Yields (folder, origin) for all folders to search, in order of preference."""
    for variable in ("MPI_HOME", PREFIXES_VARIABLE):
        for prefix in filter(None, os.environ.get(variable, "").split(os.pathsep)):
            yield Path(prefix).expanduser() / "bin", variable
    path = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep) if p]
    for folder in path:
        yield folder, "PATH"
    for folder in path:
        mpicc = folder / "mpicc"
        if os.access(mpicc, os.X_OK) and not compiler_wrappers_in(folder):
            yield from ((p / "bin", f"{mpicc} -show") for p in _prefixes_of_mpicc(mpicc))


def _prefixes_of_mpicc(mpicc: Path) -> list[Path]:
    """Returns the prefixes of MPIs in the -I and -L flags that `mpicc -show` prints."""
    try:
        show = capture_output([str(mpicc), "-show"])
    except MpiError:
        return []
    folders = [Path(p) for p in re.findall(r"-[IL]\"?([^\s\"]+)", show)]
    return list(dict.fromkeys(parent for f in folders for parent in f.parents if (parent / "bin/mpirun").exists()))


def compiler_wrappers_at(path: Path) -> Iterator[Path]:
    """Yields the C++ compiler wrappers for a path, which may be a prefix, its bin folder, its mpirun (then wrappers of
    the same suffix) or a wrapper itself."""
    if path.is_dir():
        yield from compiler_wrappers_in(path / "bin" if (path / "bin").is_dir() else path)
    elif path.name.startswith(WRAPPER_NAMES):
        yield path
    else:
        suffix = mpi_suffix(path.name)
        yield from (w for w in compiler_wrappers_in(path.parent) if mpi_suffix(w.name) == suffix)


def compiler_wrappers_in(folder: Path) -> list[Path]:
    """Returns the C++ compiler wrappers in a folder, one per suffix: Debian's `mpicxx.mpich` and `mpicxx.openmpi`
    belong to two MPIs."""
    try:
        names = {p.name for p in folder.iterdir() if p.name.startswith(WRAPPER_NAMES) and os.access(p, os.X_OK)}
    except OSError:
        return []
    best: dict[str, str] = {}
    for wrapper in WRAPPER_NAMES:
        for name in sorted(names):
            if re.fullmatch(re.escape(wrapper) + r"(\.\w+)?", name):
                best.setdefault(mpi_suffix(name), name)
    # names with a suffix first, because Debian's alternatives link to them
    return [folder / best[suffix] for suffix in sorted(best, reverse=True)]


def mpi_suffix(name: str) -> str:
    """Returns the suffix that identifies an MPI: `.mpich` for Debian's `mpirun.mpich`, but '' for Hydra's
    `mpiexec.hydra`."""
    suffix = Path(name).suffix
    return "" if suffix in (".hydra", ".gforker") else suffix
