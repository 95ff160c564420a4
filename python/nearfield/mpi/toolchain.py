"""Queries an MPI compiler wrapper and its library for family and version, because the names of folders and packages may
be misleading."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import MpiFamily

WRAPPER_NAMES = ("mpicxx", "mpic++", "mpiCC")
_SYSTEM_FOLDERS = [Path("/usr", lib) for lib in (f"lib/{os.uname().machine}-linux-gnu", "lib64", "lib", "local/lib")]
_QUERY_LIMIT_S = 20
_VERSION_QUERY_SCRIPT = """
import ctypes, sys
text, length = ctypes.create_string_buffer(1 << 16), ctypes.c_int()
ctypes.CDLL(sys.argv[1]).MPI_Get_library_version(text, ctypes.byref(length))
print(text.value.decode(errors="replace"))
"""


@dataclass(frozen=True)
class MpiToolchain:
    """A compiler wrapper and the MPI library that it links."""

    wrapper: Path
    family: MpiFamily
    version: str
    show: str
    library: Path
    env: dict[str, str]

    @property
    def root(self) -> Path:
        return self.wrapper.parent.parent


def capture_output(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """Runs a short command. Returns its standard output followed by its standard error. Raises MpiError if it fails or
    exceeds the time limit."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_QUERY_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpiError(f"{command[0]} does not run: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it wrote nothing").splitlines()[0]
        raise MpiError(
            f"{command[0]} fails (exit code {done.returncode}): {said}", f"to see the error, run: {shlex.join(command)}"
        )
    return done.stdout + done.stderr


def inspect_wrapper(wrapper: Path) -> MpiToolchain:
    """Returns the MPI toolchain behind a C++ compiler wrapper. Raises MpiError if the wrapper is broken, or if its MPI
    is of no supported family."""
    root = wrapper.parent.parent
    show = capture_output([str(wrapper), "-show"], {"I_MPI_ROOT": str(root)}).strip()
    library = find_mpi_library(show)
    text = query_library_version(library)
    for family in FAMILIES.values():
        version = family.parse_library_version(text)
        if version:
            return MpiToolchain(wrapper, family, version, show, library, family.get_required_variables(root))
    said = text.strip().splitlines()[0] if text.strip() else "nothing"
    raise MpiError(f"{library} is of no MPI family that nearfield supports; its version is: {said}")


def find_mpi_library(show_output: str) -> Path:
    """Returns the libmpi that a wrapper's `-show` command line links, after symbolic links and linker scripts are
    resolved. Raises MpiError if there is none."""
    words = shlex.split(show_output)
    folders = [Path(w[2:]) for w in words if w.startswith("-L")]
    names = [w[2:] for w in words if w in ("-lmpi", "-lmpich")]
    if not names:
        raise MpiError(f"not an MPI compiler wrapper: its command links no MPI library: {show_output[:200]}")
    for folder in [*folders, *_SYSTEM_FOLDERS]:
        for name in names:
            candidate = folder / f"lib{name}.so"
            if candidate.exists():
                return _resolve_library(candidate)
    raise MpiError(f"lib{names[0]}.so is in none of the folders the wrapper names", "install MPI's development files")


def _resolve_library(library: Path) -> Path:
    """Resolves symbolic links, and linker scripts such as `INPUT(libmpi.so.40)`, which replace symbolic links in
    wheels."""
    with library.open("rb") as file:
        script = re.match(rb"\s*(?:INPUT|GROUP)\s*\(\s*([^\s)]+)", file.read(256))
    return (library.parent / script[1].decode()).resolve() if script else library.resolve()


@lru_cache(maxsize=64)
def query_library_version(library: Path) -> str:
    """Returns the text of MPI_Get_library_version, which may be called before MPI_Init. Calls it in a separate process,
    because two MPIs must not be loaded into one process."""
    return capture_output([sys.executable, "-ISc", _VERSION_QUERY_SCRIPT, str(library)])
