"""MPI programs of tests and their CMake project: what is built and launched without the engine."""

import shutil
from pathlib import Path

import pytest

from nearfield import mpi
from nearfield.mpi import Installation

TARGET = "nearfield-trial"

_PROJECT = f"""
cmake_minimum_required(VERSION 3.21)
project(trial LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
add_executable({TARGET} src/trial.cpp)
# The MPI library must find the C library's functions that a program replaces.
set_target_properties({TARGET} PROPERTIES ENABLE_EXPORTS ON)
"""
PROGRAMS = Path(__file__).parents[1] / "programs"


def write_project(folder: Path, source: str) -> Path:
    """Writes the project of a program into a folder; returns the folder."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    for file, text in ((folder / "CMakeLists.txt", _PROJECT), (folder / "src/trial.cpp", source)):
        if not file.exists() or file.read_text() != text:  # a file that another process is compiling stays whole
            file.write_text(text)
    (folder / "src/variants.cmake").touch()  # is part of every build
    return folder


def project_of(name: str, folder: Path) -> Path:
    """Returns the project of a program of tests/programs, with its headers if it has any, in a folder of its own."""
    project = write_project(folder / name, (PROGRAMS / name).read_text())
    for header in PROGRAMS.glob(f"{Path(name).stem}*.hpp"):
        copied = project / "src" / header.name
        if not copied.exists() or copied.read_bytes() != header.read_bytes():
            shutil.copy(header, copied)
    return project


def built(inst: Installation, name: str, folder: Path) -> Path:
    """Returns a program of tests/programs, built for one MPI into a cache below `folder` unless it is there."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("NEARFIELD_CACHE", str(folder / "cache"))
        return mpi.build_target(inst, TARGET, source=project_of(name, folder))
