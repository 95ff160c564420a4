"""Builds programs of tests/programs that use the halo library, for an MPI."""

import os
import subprocess
from pathlib import Path

from build_lock import build_lock

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment

ROOT = Path(__file__).parents[2]


def built(inst: Installation, name: str, folder: Path, *flags: str) -> Path:
    """Returns the executable of `name`.cpp, linked to the library of that MPI; builds it at the first call."""
    program = folder / inst.name / name
    with build_lock(program) as is_missing:
        if is_missing:
            compile_program(inst, ROOT / "tests/programs" / f"{name}.cpp", program, *flags)
    return program


def compile_program(inst: Installation, source: Path, program: Path, *flags: str) -> Path:
    """Builds and returns the executable of a source, linked to the library of that MPI."""
    library = mpi.build_target(inst, mpi.HALO_TARGET)
    command = [str(inst.compiler), "-std=c++20", "-O1", "-Wall", *flags, "-Wno-missing-field-initializers"]
    command += [f"-I{ROOT / 'include'}", str(source), "-o", str(program)]
    command += [str(library), f"-Wl,-rpath,{library.parent}"]
    env = {**os.environ, **inst.env, **compiler_environment(inst)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return program
