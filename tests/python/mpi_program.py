"""A small MPI program and its CMake project, for tests of building and launching that need no engine."""

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

# Without arguments: exchange, say who and where, end. `spin`: say the process id, then never end.
_SOURCE = r"""
#include <mpi.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, length = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<char> memory(1 << 20, static_cast<char>(rank));
  if (rank < 2 && size > 1)
    MPI_Sendrecv_replace(memory.data(), 1 << 20, MPI_CHAR, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
  char host[256] = "", version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  gethostname(host, sizeof host);
  MPI_Get_library_version(version, &length);
  version[std::strcspn(version, "\r\n")] = '\0';
  if (argc > 1) {
    std::printf("pid %d\n", static_cast<int>(getpid()));
    std::fflush(stdout);
    for (;;) MPI_Barrier(MPI_COMM_WORLD);
  }
  std::printf("rank %d of %d on %s got %d by %.80s\n", rank, size, host, memory[0], version);
  MPI_Finalize();
}
"""


def write_project(folder: Path, source: str = _SOURCE) -> Path:
    """Writes the project into a folder; returns the folder."""
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "CMakeLists.txt").write_text(_PROJECT)
    (folder / "src/trial.cpp").write_text(source)
    return folder


def built(inst: Installation, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of tests/programs, built for one MPI into a cache below `folder`, unless it is there."""
    project = write_project(folder / name, (PROGRAMS / name).read_text())
    monkeypatch.setenv("NEARFIELD_CACHE", str(folder / "cache"))
    return mpi.program(inst, TARGET, source=project)
