"""Finds or builds the halo library for the MPI that this process has loaded.

One rank of each node does so, and the others wait for it. Building needs a compiler; if compute nodes have none, run
any program with one rank on a node that has one, since all nodes share the cache in the home folder.
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
from nearfield.halo.interface import declared

if TYPE_CHECKING:
    from mpi4py import MPI


def communicator(comm: MPI.Comm | None) -> MPI.Comm:
    """Returns the given communicator, or that of all ranks. Initialises MPI if mpi4py has not."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise MpiError(f"mpi4py cannot be used: {error}", "pip install 'mpi4py>=4'") from error
    return MPI.COMM_WORLD if comm is None else comm


@lru_cache(maxsize=1)
def load() -> ctypes.CDLL:
    """Returns the library for this process's MPI. The first call is collective over all ranks."""
    from mpi4py import MPI

    world = communicator(None)
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    path, cause, library = None, None, None
    if node.rank == 0:
        try:
            path = _library_for(_loaded_mpi())
        except Exception as error:  # any error: the other ranks wait for an answer
            cause = error
    path = node.bcast(path)
    node.Free()
    if path:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            cause = error
    problems = [p for p in world.allgather(cause and _in_words(cause)) if p]
    if problems or library is None:
        raise MpiError(*problems[0]) from cause
    return declared(library)


def _in_words(error: Exception) -> tuple[str, str]:
    """Returns the message and the remedy."""
    if isinstance(error, NearfieldError):
        return error.message, error.remedy
    folder = mpi.cache_root() / "halo"
    return f"the halo library cannot be built or loaded: {error}", f"it is kept in {folder}; NEARFIELD_CACHE moves it"


def _loaded_mpi() -> Path:
    """Returns the path of this process's libmpi, links resolved."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(("libmpi.so", "libmpich.so")):
            return path.resolve()
    raise MpiError("no MPI library is loaded in this process", "import mpi4py.MPI first")


def _library_for(libmpi: Path) -> Path:
    """Returns the halo library for this libmpi. The result is cached, since querying all MPIs takes most of a
    second."""
    status = libmpi.stat()
    key = hashlib.sha256(f"{libmpi} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:20]
    note = mpi.cache_root() / "halo" / f"{key}-{mpi.sources_hash(mpi.HALO)}"
    if note.is_file() and (known := Path(note.read_text(encoding="utf-8"))).is_file():
        return known
    for inst in mpi.discover():
        if inst.library and _same(inst.library, libmpi):
            built = mpi.program(inst, mpi.HALO, progress=lambda text: print(f"nearfield: {text}", file=sys.stderr))
            note.parent.mkdir(parents=True, exist_ok=True)
            fresh = note.with_suffix(f".{os.getpid()}")
            fresh.write_text(str(built), encoding="utf-8")
            fresh.replace(note)
            return built
    raise MpiError(
        f"the MPI of this process, {libmpi}, has no compiler wrapper that nearfield can find",
        f"put its mpicxx on PATH or its prefix into NEARFIELD_MPIS; what is found shows: {own_command.line('mpi')}",
    )


def _same(one: Path, other: Path) -> bool:
    """Returns whether both are the same library; wheels contain a copy under each of its names."""
    if one.samefile(other):
        return True
    alike = one.parent.samefile(other.parent) and one.name.partition(".")[0] == other.name.partition(".")[0]
    return alike and filecmp.cmp(one, other, shallow=False)
