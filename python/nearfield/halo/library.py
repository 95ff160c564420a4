"""Finds or builds the halo library for the MPI that this process has loaded.

One rank of each node finds or builds it, while the other ranks wait. A build requires a compiler; if compute nodes have
none, run any program with one rank on a node with a compiler, since all nodes share the cache in the home folder.
"""

from __future__ import annotations

import ctypes
import filecmp
import hashlib
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.errors import MpiError, NearfieldError
from nearfield.halo.interface import declare_functions

if TYPE_CHECKING:
    from mpi4py import MPI


def get_communicator(comm: MPI.Comm | None) -> MPI.Comm:
    """Returns the given communicator, or MPI.COMM_WORLD for None. Importing mpi4py initialises MPI. Raises MpiError if
    mpi4py cannot be imported."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise MpiError(f"mpi4py cannot be used: {error}", "pip install 'mpi4py>=4'") from error
    return MPI.COMM_WORLD if comm is None else comm


@lru_cache(maxsize=1)
def load_halo_library() -> ctypes.CDLL:
    """Returns the halo library for the MPI of this process. The first call is collective over all ranks. If any rank
    fails, raises MpiError on all ranks."""
    from mpi4py import MPI

    world = get_communicator(None)
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    path, cause, library = None, None, None
    if node.rank == 0:
        try:
            path = _find_or_build_library(_loaded_mpi_path())
        except Exception as error:  # catches all errors, since the other ranks wait for the result
            cause = error
    path = node.bcast(path)
    node.Free()
    if path:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            cause = error
    problems = [p for p in world.allgather(cause and _message_and_remedy(cause)) if p]
    if problems or library is None:
        raise MpiError(*problems[0]) from cause
    return declare_functions(library)


def protocols() -> dict[str, str]:
    """Returns name -> summary of all protocols. Requires mpi4py, whose MPI must be loaded for the library."""
    library, found, number = load_halo_library(), {}, 0
    while name := library.nf_protocol_name(number):
        found[name.decode()] = library.nf_protocol_summary(number).decode()
        number += 1
    return found


def _message_and_remedy(error: Exception) -> tuple[str, str]:
    """Returns message and remedy for an error."""
    if isinstance(error, NearfieldError):
        return error.message, error.remedy
    folder = mpi.cache_root() / "halo"
    return f"the halo library cannot be built or loaded: {error}", f"it is kept in {folder}; NEARFIELD_CACHE moves it"


def _loaded_mpi_path() -> Path:
    """Returns the path of the MPI library that this process has loaded, with links resolved, from /proc/self/maps.
    Raises MpiError if it has none."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(("libmpi.so", "libmpich.so")):
            return path.resolve()
    raise MpiError("no MPI library is loaded in this process", "import mpi4py.MPI first")


def _find_or_build_library(libmpi: Path) -> Path:
    """Returns the path of the halo library for this MPI library; builds it if necessary. The path is cached, since
    querying all MPIs takes most of a second."""
    status = libmpi.stat()
    key = hashlib.sha256(f"{libmpi} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:20]
    note = mpi.cache_root() / "halo" / f"{key}-{mpi.hash_sources(mpi.HALO_TARGET)}"
    if note.is_file() and (known := Path(note.read_text(encoding="utf-8"))).is_file():
        return known
    for inst in mpi.find_usable_mpis():
        if inst.library and _are_same_library(inst.library, libmpi):
            built = mpi.build_target(
                inst, mpi.HALO_TARGET, progress=lambda text: print(f"nearfield: {text}", file=sys.stderr)
            )
            note.parent.mkdir(parents=True, exist_ok=True)
            fresh = note.with_suffix(f".{os.getpid()}")
            fresh.write_text(str(built), encoding="utf-8")
            fresh.replace(note)
            return built
    raise MpiError(
        f"the MPI of this process, {libmpi}, has no compiler wrapper that nearfield can find",
        f"put its mpicxx on PATH or its prefix into NEARFIELD_MPIS; what is found shows: "
        f"{own_command.command_line('mpi')}",
    )


def _are_same_library(one: Path, other: Path) -> bool:
    """Returns whether both paths are the same library; a wheel contains a copy under each of its names."""
    if one.samefile(other):
        return True
    alike = one.parent.samefile(other.parent) and one.name.partition(".")[0] == other.name.partition(".")[0]
    return alike and filecmp.cmp(one, other, shallow=False)
