"""Compiling programs of tests with hooks, observing them, and reading what was recorded."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from build_lock import build_lock
from mpi_program import PROGRAMS
from typer.testing import CliRunner

from nearfield import mpi
from nearfield.cli import app
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.observe import hooks
from nearfield.rewrite.check.build import c_compiler_wrapper

N = 1000  # of tests/programs/observed_accesses.c


def compile_observed(source: str, program: Path, *flags: str, verb: str = "cc", **environment: str) -> Path:
    """Compiles a program of tests/programs with hooks."""
    words = [*flags, "-g", str(PROGRAMS / source), "-o", str(program)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        subprocess.run(hooks.compiler_command(hooks.LANGUAGES[verb], words), check=True, timeout=120)
    return program


def compile_with_mpi(inst: Installation, source: str, program: Path, *flags: str) -> Path:
    """Compiles a program of MPI's with hooks."""
    environment = {**inst.env, **compiler_environment(inst)}
    return compile_observed(source, program, *flags, NEARFIELD_CC=str(c_compiler_wrapper(inst)), **environment)


def observe(folder: Path, *words: object, environment: dict[str, str] | None = None) -> Any:
    """Runs the command line in a process of its own, since what it starts writes past Python's streams."""
    command = [sys.executable, "-m", "nearfield", "observe", "-o", str(folder / "trace"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def observe_ranks(inst: Installation, folder: Path, ranks: int, *words: object) -> Any:
    """Observes the ranks of an MPI program."""
    command, environment = mpi.launch_command(inst, list(map(str, words)), ranks, oversubscribe=True)
    return observe(folder, "--mpi", inst.name, "--", *command, environment=environment)


def build_ring(inst: Installation, programs: Path) -> Path:
    """Returns tests/programs/observed_ring.c with hooks, which is built once for an MPI."""
    program = programs / f"ring-{inst.name.replace('/', '-')}"
    with build_lock(program) as is_missing:
        if is_missing:
            compile_with_mpi(inst, "observed_ring.c", program, "-O2")
    return program


def observe_ring(inst: Installation, folder: Path, programs: Path, ranks: int) -> Any:
    return observe_ranks(inst, folder, ranks, build_ring(inst, programs))


def trace_of_ring(folder: Path, programs: Path, ranks: int) -> Path:
    """Returns the trace of the ring under the first MPI that is found."""
    done = observe_ring(mpi.find_usable_mpis()[0], folder, programs, ranks)
    assert done.returncode == 0, done.stderr
    return folder / "trace"


def show(folder: Path) -> list[dict[str, Any]]:
    """Returns what each rank did."""
    done = CliRunner().invoke(app, ["observe", "show", str(folder / "trace"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)["ranks"]


def by_function(rank: dict[str, Any], what: str = "accesses") -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in rank["lines"]:
        counts[line["function"]] += line[what]
    return counts
