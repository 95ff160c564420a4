"""Plain data about one MPI on this machine; nothing here starts a process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FamilyName = Literal["openmpi", "mpich", "intel"]  # the files of `families/`
Hosts = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Installation:
    """An MPI that can both compile and launch. `env` holds the variables without which it does not work."""

    name: str  # unique on this machine, e.g. "openmpi-5.0.11"
    family: FamilyName
    version: str
    root: Path  # the folder that contains bin/
    launcher: Path  # mpirun
    compiler: Path  # the C++ wrapper
    origin: str  # where it was found
    env: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    library: Path | None = None  # libmpi itself, links resolved
    show: str = field(default="", repr=False)  # the compiler command behind the wrapper

    def plain(self) -> dict[str, Any]:
        """Returns the attributes as values that JSON can hold."""
        values = {**vars(self), "env": dict(self.env)}
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Installation:
        paths = {name: Path(values[name]) for name in ("root", "launcher", "compiler", "library") if values[name]}
        return cls(**{**values, **paths})


@dataclass(frozen=True)
class Unusable:
    """Something that looks like an MPI but cannot be used, with the reason and a remedy."""

    path: Path
    origin: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Launch:
    """The facts that a family needs to start a program."""

    argv: Sequence[str]
    ranks: int
    hosts: Hosts | None
    oversubscribe: bool  # more ranks than processors: waiting ranks must yield
    allocated: bool  # a batch system has placed the ranks
    launcher: Path


@dataclass(frozen=True)
class Family:
    """All differences between MPI families. Each file of `families/` exports one as `SPEC`."""

    name: FamilyName
    summary: str
    library_says: str  # regular expression for the start of MPI_Get_library_version's text; the group is the version
    launcher_says: str  # regular expression for `mpirun --version`'s text; the group is the version
    launchers: tuple[str, ...]  # names of launchers in the wrapper's folder, best first
    wheels: tuple[str, ...]  # Python distributions that contain this MPI
    packages: str  # what to install when the compiler wrapper is missing
    compiler_variable: str  # environment variable that changes the compiler behind the wrapper
    command: Callable[[Launch], list[str]]  # binds no rank; places ranks in the order of the hosts
    pmi: tuple[str, ...]  # values for `srun --mpi=`, best first
    verbose: Mapping[str, str]  # variables with which the MPI reports its transport
    transport: Callable[[str], str | None]  # returns the transport that such a report names
    shm_names: tuple[str, ...]  # patterns of the files that killed ranks may leave in /dev/shm
    needs: Callable[[Path], dict[str, str]] = lambda root: {}  # variables that an MPI in this folder needs
    environment: Callable[[Launch], dict[str, str]] = lambda launch: {}  # defaults; the user's own values win
    scratch_variables: tuple[str, ...] = ()  # name the folder for files that a killed launcher leaves

    def library_version(self, text: str) -> str | None:
        """Returns the version in the library's text; None if the text is of another family."""
        found = re.match(self.library_says, text)
        return found[1] if found else None

    def launcher_version(self, text: str) -> str | None:
        """Returns the version in the launcher's text; None if the text is of another family."""
        found = re.search(self.launcher_says, text)
        return found[1] if found else None
