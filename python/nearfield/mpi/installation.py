"""Plain data about an MPI on this machine. This module starts no processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FamilyName = Literal["openmpi", "mpich", "intel"]  # names of the modules in `families/`
Hosts = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Installation:
    """An MPI with a compiler wrapper and a launcher. `env` holds the environment variables that it needs to work."""

    name: str  # unique on this machine, e.g. "openmpi-5.0.11"
    family: FamilyName
    version: str
    root: Path  # prefix, the folder that contains bin/
    launcher: Path  # path of mpirun
    compiler: Path  # path of the C++ compiler wrapper
    origin: str  # where the MPI was found, as human-readable text
    env: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    library: Path | None = None  # path of libmpi, with symbolic links resolved
    show: str = field(default="", repr=False)  # output of the wrapper's -show

    def to_plain(self) -> dict[str, Any]:
        """Returns the attributes as JSON-compatible values."""
        values = {**vars(self), "env": dict(self.env)}
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Installation:
        paths = {name: Path(values[name]) for name in ("root", "launcher", "compiler", "library") if values[name]}
        return cls(**{**values, **paths})


@dataclass(frozen=True)
class UnusableMpi:
    """A candidate that looks like an MPI but cannot be used, with the reason and a remedy."""

    path: Path
    origin: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class LaunchParameters:
    """The parameters of a launch from which a family composes its command line."""

    argv: Sequence[str]
    ranks: int
    hosts: Hosts | None
    oversubscribe: bool  # permits more ranks than CPUs; waiting ranks must yield
    is_in_allocation: bool  # whether the launch runs in an allocation of a batch system
    launcher: Path


@dataclass(frozen=True)
class MpiFamily:
    """Everything that differs between MPI families. Each module in `families/` exports one as `SPEC`."""

    name: FamilyName
    summary: str
    library_version_pattern: str  # matches the start of MPI_Get_library_version's text; group 1 is the version
    launcher_version_pattern: str  # searched in the output of `mpirun --version`; group 1 is the version
    launcher_names: tuple[str, ...]  # names of launchers in the wrapper's folder, best first
    wheel_names: tuple[str, ...]  # Python distributions that contain this MPI
    packages: str  # packages to install if the compiler wrapper is missing, as human-readable text
    compiler_variable: str  # environment variable that selects the compiler behind the wrapper
    # returns the command line; without binding, ranks in host order
    make_command: Callable[[LaunchParameters], list[str]]
    srun_mpi_types: tuple[str, ...]  # values for `srun --mpi=`, best first
    verbose_variables: Mapping[str, str]  # environment variables that make the MPI print its transport
    parse_transport: Callable[[str], str | None]  # parses the transport from this output; None if it is not named
    shm_patterns: tuple[str, ...]  # glob patterns of files that killed ranks may leave in /dev/shm
    # regular expressions of what killed launchers may leave in the folder for temporary files: paths below it, with a
    # group `pid` if they contain the launcher's process id
    temporary_patterns: tuple[str, ...]
    # returns the environment variables that an MPI with this prefix needs
    get_required_variables: Callable[[Path], dict[str, str]] = lambda root: {}
    # returns default environment variables; the user's values win
    get_default_variables: Callable[[LaunchParameters], dict[str, str]] = lambda launch: {}
    scratch_variables: tuple[str, ...] = ()  # environment variables that set the folder of session files

    def parse_library_version(self, text: str) -> str | None:
        """Returns the version in MPI_Get_library_version's text; None if it is of another family."""
        found = re.match(self.library_version_pattern, text)
        return found[1] if found else None

    def parse_launcher_version(self, text: str) -> str | None:
        """Returns the version in the output of `mpirun --version`; None if it is of another family."""
        found = re.search(self.launcher_version_pattern, text)
        return found[1] if found else None
