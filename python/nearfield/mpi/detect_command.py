"""Detects which MPI a command line uses, from the launcher and from the libmpi that the program is linked with."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nearfield import mpi
from nearfield.base import disk_cache
from nearfield.base.errors import MpiError, UsageError
from nearfield.base.executables import OPTIONS_WITH_FILE, find_executable, find_executables
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Installation
from nearfield.mpi.toolchain import capture_output, query_library_version

_ELF_MAGIC = b"\x7fELF"
_LAUNCHER_NAMES = {name for family in FAMILIES.values() for name in family.launcher_names}
_LINKER_CACHE = Path("/etc/ld.so.cache")


@dataclass(frozen=True)
class DetectedMpi:
    """The MPI of a command, and the files from which it was detected."""

    family: str
    version: str
    detected_from: str
    files: tuple[Path, ...] = ()  # a cached result is valid while these files are unchanged


def detect_mpi(argv: Sequence[str], mpi_name: str | None = None) -> DetectedMpi:
    """Returns the MPI of a command: the one named by --mpi, else the program's, else the launcher's. Raises UsageError
    if the command does not exist, and MpiError if its MPI cannot be detected, or if the program's MPI is incompatible
    with that of the launcher or of --mpi."""
    if not find_executable(argv[0]):
        raise UsageError(f"there is no command '{argv[0]}'")
    launcher, program = mpi_of_launcher(argv), mpi_of_program(argv)
    if mpi_name:
        return _check_named_mpi(mpi_name, program or launcher)
    if launcher and program and launcher.family != program.family:
        raise MpiError(
            f"{launcher.detected_from} is of {launcher.family} {launcher.version}, but {program.detected_from} of "
            f"{program.family} "
            f"{program.version}: each rank would be alone",
            "start it with the launcher of its own MPI",
        )
    found = program or launcher
    if not found:
        raise MpiError(
            f"neither the launcher nor a program in '{' '.join(argv)}' identifies the MPI", "name it with --mpi"
        )
    files = (*(launcher.files if launcher else ()), *(program.files if program else ()))
    return replace(found, files=files)


def _check_named_mpi(mpi_name: str, detected_mpi: DetectedMpi | None) -> DetectedMpi:
    """Returns the MPI named by --mpi. Raises MpiError if its ABI is incompatible with the command's own MPI."""
    inst = mpi.choose_mpi(mpi_name)
    if detected_mpi and (detected_mpi.family == "openmpi") != (inst.family == "openmpi"):
        raise MpiError(
            f"--mpi names {inst.family} {inst.version}, but {detected_mpi.detected_from} is of {detected_mpi.family} "
            f"{detected_mpi.version}",
            "leave out --mpi, or start the program of that MPI by its launcher",
        )
    files = (inst.launcher, inst.compiler, inst.library)
    return DetectedMpi(inst.family, inst.version, "--mpi", tuple(file for file in files if file))


def mpi_of_launcher(argv: Sequence[str]) -> DetectedMpi | None:
    """Returns the MPI of the first launcher in the command, also in `env A=1 mpirun`; None if there is no launcher of
    an MPI (as with srun)."""
    return next((_query_launcher(Path(path)) for word, path, _ in find_executables(argv) if _is_launcher(word)), None)


def _is_launcher(word: str) -> bool:
    name = Path(word).name
    return name in _LAUNCHER_NAMES or name.partition(".")[0] in _LAUNCHER_NAMES


def program_index(argv: Sequence[str]) -> int:
    """Returns the index of the MPI program in the command: the first executable after the launcher; 0 if there is
    none."""
    launcher = next((at for at, word in enumerate(argv) if _is_launcher(word)), None)
    command = Path(find_executable(argv[0]) or argv[0])
    if launcher is None and (find_linked_mpi_library(command) or is_linked_with_hooks(command)):
        return 0
    after = range((launcher or 0) + 1, len(argv))
    return next((at for at in after if find_executable(argv[at]) and argv[at - 1] not in OPTIONS_WITH_FILE), 0)


def _query_launcher(path: Path) -> DetectedMpi | None:
    def query() -> tuple[str, str] | None:
        for family in FAMILIES.values():
            with suppress(MpiError):
                said = capture_output([str(path), "--version"], family.get_required_variables(path.parent.parent))
                if version := family.parse_launcher_version(said):
                    return family.name, version
        return None

    known = disk_cache.get_or_compute("launcher", [str(path.absolute())], query, [path])
    return DetectedMpi(known[0], known[1], f"launcher {path}", (path,)) if known else None


def mpi_of_program(argv: Sequence[str]) -> DetectedMpi | None:
    """Returns the MPI with which the first program after the launcher is linked, or, without a launcher, the command
    itself; None for scripts, interpreters and programs that bundle their MPI."""
    after = next((path for _, path, may_be_a_program in find_executables(argv[1:]) if may_be_a_program), None)
    for path in filter(None, (after, find_executable(argv[0]))):
        if library := find_linked_mpi_library(Path(path)):
            return _query_library(library, path)
    return None


def find_linked_mpi_library(program: Path) -> Path | None:
    """Returns the path of the libmpi that the dynamic loader resolves for the program, by ldd; None if the program is
    not linked with libmpi."""
    return _find_linked_library(program, r"libmpi(?:ch)?\.so")


def is_linked_with_hooks(program: Path) -> bool:
    """Returns whether the program was linked by `nearfield cc`, `cxx` or `fc`, by ldd."""
    return _find_linked_library(program, r"libnearfield_observe\.so") is not None


def _find_linked_library(program: Path, name: str) -> Path | None:
    """Returns the path of the library that the dynamic loader resolves for the program and whose file name begins with
    the pattern `name`; None if there is none."""
    try:
        with program.open("rb") as file:
            if file.read(4) != _ELF_MAGIC:
                return None
        done = subprocess.run(
            ["ldd", str(program)], capture_output=True, text=True, errors="replace", timeout=20, env=os.environ
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rf"^\s*{name}\S* => (/\S+)", done.stdout, re.MULTILINE)
    return Path(found[1]) if found else None


def _query_library(library: Path, program: str) -> DetectedMpi | None:
    def query() -> tuple[str, str] | None:
        text = query_library_version(library)
        versions = ((family.name, family.parse_library_version(text)) for family in FAMILIES.values())
        return next(((name, version) for name, version in versions if version), None)

    files = (library, _LINKER_CACHE)
    known = disk_cache.get_or_compute("library", [str(library)], query, files)
    return DetectedMpi(known[0], known[1], f"{program} with {library}", files) if known else None


def installation_of_detected_mpi(detected_mpi: DetectedMpi) -> Installation | None:
    """Returns this machine's installation of the detected MPI; None if there is none. The result is cached on disk,
    because a survey runs every MPI's wrapper."""
    question = [detected_mpi.family, detected_mpi.version, *(os.environ.get(name) for name in mpi.SEARCHED_VARIABLES)]
    if cached := disk_cache.get_value("mpi", question):
        return Installation.from_plain(cached)
    same = [i for i in mpi.find_usable_mpis() if (i.family, i.version) == (detected_mpi.family, detected_mpi.version)]
    if not same:
        return None
    disk_cache.store_value(
        "mpi", question, same[0].to_plain(), filter(None, (same[0].launcher, same[0].compiler, same[0].library))
    )
    return same[0]
