"""The interface that each family of MPIs implements for its own algorithms of collectives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.files import atomic_write
from nearfield.base.progress import ReportLine, ignore
from nearfield.mpi import Installation
from nearfield.rules.collective_tables import NativeCollectiveTable

QUERY_LIMIT_S = 60.0


@dataclass(frozen=True)
class Algorithm:
    """One of the MPI's own algorithms. `settings` are the variables that select it while it is measured: control
    variables of MPI_T, or of the environment."""

    name: str
    settings: Mapping[str, int]
    id: int | None = None  # its number in the MPI's files or variables, if that numbers algorithms


@dataclass(frozen=True)
class Selection:
    """A selection in the MPI's own formats: variables of the environment, and files, by the variable that names each:
    its name and its text."""

    variables: Mapping[str, str]
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def environment(self, folder: Path) -> dict[str, str]:
        """Returns all variables if the files are in that folder."""
        named = {variable: str(folder / name) for variable, (name, _) in self.files.items()}
        return {**self.variables, **named}

    def write(self, folder: Path, remedy: str = "") -> dict[str, str]:
        """Writes the files into an existing folder, each whole or not at all. Returns all variables."""
        for name, text in self.files.values():
            atomic_write(folder / name, text, remedy)
        return self.environment(folder)


@dataclass(frozen=True)
class NativeFamily:
    """What differs between families. `mode` says when the MPI reads the variables that select an algorithm: in each
    call, when a communicator is made, or only when a program starts. `select` returns the tables as the MPI reads them.

    With `guards_operators`, the selection is not used for operators that a program defines, nor where the MPI itself
    says that an algorithm cannot do a call. Without it, an algorithm must do all that MPI allows."""

    name: str
    mode: Literal["native-calls", "native-communicators", "launches"]
    list_algorithms: Callable[[Installation, ReportLine], Mapping[str, Sequence[Algorithm]]]
    select: Callable[[Sequence[NativeCollectiveTable], Installation | None], Selection]
    guards_operators: bool
    measuring: Mapping[str, str] = field(default_factory=dict)  # the environment of a measurement


def list_variables(inst: Installation, prefix: str, report: ReportLine = ignore) -> list[dict[str, Any]]:
    """Returns the MPI's integer control variables whose names have that beginning: `variable`, `description` and, for
    an enumeration, `items`. The first call builds the program that reads them."""
    program = mpi.program(inst, mpi.COLLECTIVES_PROGRAM, progress=report)
    lines: list[str] = []
    done = mpi.run(
        inst,
        [str(program), "variables", prefix],
        1,
        timeout_s=QUERY_LIMIT_S,
        on_line=lambda stream, line: lines.append(line) if stream == "stdout" else None,
    )
    if not done.ok:
        raise MeasurementError(f"{inst.name} does not list its variables: {[*done.words, done.silence][0]}")
    return [json.loads(line) for line in lines if line.startswith("{")]
