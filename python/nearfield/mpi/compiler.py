"""Finds the compiler behind an MPI's compiler wrapper and its version, and explains build errors."""

import os
import re
import shlex
import shutil
from pathlib import Path

from nearfield.base.errors import MpiError
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Installation
from nearfield.mpi.toolchain import capture_output

_PACKAGE_BY_COMPILER = {"clang++": "clang", "icpx": "intel-oneapi-compiler-dpcpp-cpp"}
_ERROR_LINE = re.compile(
    r"(\berror\b|undefined reference|cannot find -l|CMake Error|: not found|Killed)", re.IGNORECASE
)
_NOT_AN_ERROR = re.compile(r"(^\$ |CMakeError\.log|FAILED: |^ninja: )")
_REMEDY_BY_ERROR_PATTERN = (
    (r"mpi\.h: No such file|cannot find -lmpi", "install the development files of this MPI: {packages}"),
    (r"fatal error: (\S+): No such file", "install the development package that brings that header"),
    (r"No space left", "free some space, or set NEARFIELD_CACHE to a folder elsewhere"),
    (r"c\+\+20|CXX20|concept|std::span", "nearfield needs a C++20 compiler: GCC 11 or Clang 14 and later"),
    (r"Killed|out of memory|Cannot allocate", "the compiler ran out of memory; free some and try again"),
)


def compiler_behind_wrapper(inst: Installation) -> str:
    """Returns the compiler command behind the wrapper: the one in the family's environment variable, else the wrapper's
    own, or $CXX if that is not installed. Raises MpiError if none exists."""
    variable = FAMILIES[inst.family].compiler_variable
    own = os.environ.get(variable) or (shlex.split(inst.show) or ["c++"])[0]
    for command in (own, os.environ.get("CXX", "")):
        if command and shutil.which(shlex.split(command)[0]):
            return command
    package = _PACKAGE_BY_COMPILER.get(Path(own).name, "g++")
    raise MpiError(
        f"the C++ compiler that {inst.name} calls, '{own}', is not there",
        f"install it (Debian: apt install {package}), or set {variable} to another C++ compiler",
    )


def compiler_environment(inst: Installation) -> dict[str, str]:
    """Returns the environment variable (such as OMPI_CXX) that makes the wrapper call the compiler that
    `compiler_behind_wrapper` returned."""
    return {FAMILIES[inst.family].compiler_variable: compiler_behind_wrapper(inst)}


def query_compiler_version(inst: Installation) -> str:
    """Returns the first line of the compiler's `--version` output."""
    return capture_output([*shlex.split(compiler_behind_wrapper(inst)), "--version"]).splitlines()[0]


def find_first_error(log: str) -> str:
    """Returns the first error line in a build log. For an error of CMake itself, appends the line with the cause."""
    lines = [line.rstrip() for line in log.splitlines()]
    for number, line in enumerate(lines):
        if _ERROR_LINE.search(line) and not _NOT_AN_ERROR.search(line):
            if line.startswith("CMake Error"):
                more = [text.strip() for text in lines[number + 1 : number + 20] if text.strip()]
                better = next((m for m in more if _ERROR_LINE.search(m)), more[0] if more else "")
                return f"{line} {better}".strip()
            return line.strip()
    return next((line for line in reversed(lines) if line), "the build failed without a word")


def explain_build_failure(inst: Installation, target_name: str, log: Path) -> MpiError:
    """Returns an MpiError with the first error in the build log and a remedy, such as the package to install."""
    text = log.read_text(encoding="utf-8", errors="replace")
    error = find_first_error(text)
    packages = FAMILIES[inst.family].packages
    remedies = [
        advice.format(packages=packages) for pattern, advice in _REMEDY_BY_ERROR_PATTERN if re.search(pattern, error)
    ]
    return MpiError(
        f"{target_name} cannot be built for {inst.name}: {error}",
        "; ".join([*remedies[:1], f"the whole log is {log}"]),
    )
