"""The interface through which each MPI family exposes its own algorithms of collectives."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nearfield import mpi
from nearfield.base.errors import MeasurementError
from nearfield.base.files import atomic_write
from nearfield.base.progress import ReportLine, ignore_progress
from nearfield.mpi import Installation
from nearfield.rules.collective_tables import NativeCollectiveTable

QUERY_TIME_LIMIT_S = 60.0


@dataclass(frozen=True)
class NativeAlgorithm:
    """One of the MPI's own algorithms. `settings` are the variables that select it during a measurement: MPI_T control
    variables or environment variables."""

    name: str
    settings: Mapping[str, int]
    id: int | None = None  # number of the algorithm in the MPI's files or variables, if the MPI has numbers


@dataclass(frozen=True)
class NativeSelection:
    """A selection of algorithms in the MPI's own formats: environment variables, and files. `files` maps the
    environment variable that names a file to the file's name and text."""

    variables: Mapping[str, str]
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def environment(self, folder: Path) -> dict[str, str]:
        """Returns all environment variables of the selection, for files in `folder`."""
        named = {variable: str(folder / name) for variable, (name, _) in self.files.items()}
        return {**self.variables, **named}

    def write_files(self, folder: Path, remedy: str = "") -> dict[str, str]:
        """Writes each file of the selection atomically into an existing folder. Returns all environment variables of
        the selection."""
        for name, text in self.files.values():
            atomic_write(folder / name, text, remedy)
        return self.environment(folder)


@dataclass(frozen=True)
class NativeFamily:
    """The differences between MPI families. `measurement_mode` states when the MPI reads the variables that select an
    algorithm: in each call, at the creation of a communicator, or at program start. `make_selection` converts tables to
    the MPI's format. If `excludes_user_operators`, a selection does not apply to user-defined operators, nor to calls
    that the MPI reports an algorithm cannot handle. Otherwise an algorithm must handle all calls that MPI allows."""

    name: str
    measurement_mode: Literal["native-calls", "native-communicators", "launches"]
    list_algorithms: Callable[[Installation, ReportLine], Mapping[str, Sequence[NativeAlgorithm]]]
    make_selection: Callable[[Sequence[NativeCollectiveTable], Installation | None], NativeSelection]
    excludes_user_operators: bool
    measurement_variables: Mapping[str, str] = field(default_factory=dict)  # environment variables for measurements


def list_control_variables(
    inst: Installation, prefix: str, report: ReportLine = ignore_progress
) -> list[dict[str, Any]]:
    """Returns the MPI's integer MPI_T control variables whose names begin with `prefix`: `variable`, `description` and,
    for an enumeration, `items`. The first call builds the program that reads them."""
    program = mpi.build_target(inst, mpi.COLLECTIVES_PROGRAM_TARGET, progress=report)
    lines: list[str] = []
    done = mpi.run(
        inst,
        [str(program), "variables", prefix],
        1,
        timeout_s=QUERY_TIME_LIMIT_S,
        on_line=lambda stream, line: lines.append(line) if stream == "stdout" else None,
    )
    if not done.has_succeeded:
        raise MeasurementError(
            f"{inst.name} does not list its variables: {[*done.output_lines, done.describe_silence][0]}"
        )
    return [json.loads(line) for line in lines if line.startswith("{")]
