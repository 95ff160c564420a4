"""Compiling programs of tests with hooks, observing them, and reading what was recorded."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mpi_program import PROGRAMS
from typer.testing import CliRunner

from nearfield.cli import app
from nearfield.observe import hooks

N = 1000  # of tests/programs/observed_accesses.c


def compile_observed(source: str, program: Path, *flags: str, verb: str = "cc", **environment: str) -> Path:
    """Compiles a program of tests/programs with hooks."""
    words = [*flags, "-g", str(PROGRAMS / source), "-o", str(program)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        subprocess.run(hooks.compiler_command(hooks.LANGUAGES[verb], words), check=True, timeout=120)
    return program


def observe(folder: Path, *words: object, environment: dict[str, str] | None = None) -> Any:
    """Runs the command line in a process of its own, since what it starts writes past Python's streams."""
    command = [sys.executable, "-m", "nearfield", "observe", "-o", str(folder / "trace"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


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
