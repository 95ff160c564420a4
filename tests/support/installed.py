"""The halo library as a C, C++ or Fortran programmer installs and finds it, for tests."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from build_lock import build_lock

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CORES = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Installed:
    """One installation for one MPI, and the examples built with it."""

    inst: Installation
    folder: Path

    @property
    def prefix(self) -> Path:
        return self.folder / "prefix"

    def example(self, name: str) -> Path:
        return self.folder / "examples" / name

    def run(self, program: Path, *arguments: str, ranks: int, good: bool = True) -> str:
        """Returns what it prints; fails the test if its exit code is not as expected."""
        argv = [str(program), *arguments]
        done = mpi.run(self.inst, argv, ranks, oversubscribe=ranks > CORES, timeout_s=60, cwd=self.folder)
        assert not done.timed_out, f"{argv} hangs on {ranks} ranks: {done.stderr}"
        assert (done.exit_code == 0) == good, f"{argv} on {ranks} ranks: {done.stdout}{done.stderr}"
        return done.stdout

    def pkg_config(self, *questions: str) -> list[str]:
        if not shutil.which("pkg-config"):
            pytest.skip("pkg-config is missing (Debian: apt install pkgconf)")
        env = {**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}
        return subprocess.check_output(["pkg-config", *questions, "nearfield-halo"], text=True, env=env).split()

    def compile(self, wrapper: str, *sources: Path, flags: tuple[str, ...] = ()) -> Path:
        """Compiles these files with what pkg-config says alone, and returns the program. `wrapper` is pkg-config's
        variable for the compiler."""
        compiler = self.pkg_config(f"--variable={wrapper}")
        if not compiler:
            pytest.skip(f"{self.inst.name} has no {wrapper}")
        program = self.folder / f"by_{wrapper}"
        command = [*compiler, *flags, *map(str, sources), "-o", str(program)]
        command += [*self.pkg_config("--cflags", "--libs"), "-lm"]
        tool(self.inst, command, self.folder)
        return program


def install(inst: Installation, programs: Path, *, wrapper: bool) -> Installed:
    """Installs the library below `programs`, unless it is there, with the MPI's wrapper as compiler or with a plain
    one, then builds the examples the other way. Neither may look for Python or hwloc."""
    made = Installed(inst, folder := programs / f"installed-{inst.name}")
    with build_lock(folder) as is_missing:
        if is_missing:
            _build(made, folder, wrapper=wrapper)
    return made


def _build(made: Installed, folder: Path, *, wrapper: bool) -> None:
    inst = made.inst
    unneeded = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("Python", "Python3", "hwloc", "PkgConfig")]
    quickly = ["-DNEARFIELD_HALO=ON", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1 -Werror"]
    by_wrapper = [f"-DCMAKE_CXX_COMPILER={inst.compiler}"]
    by_search = [f"-DMPI_CXX_COMPILER={inst.compiler}"]
    _cmake(inst, ROOT, folder / "build", [*quickly, *unneeded, *(by_wrapper if wrapper else by_search)])
    tool(inst, [cmake(), "--install", str(folder / "build"), "--prefix", str(made.prefix)], folder)
    choices = [f"-DCMAKE_PREFIX_PATH={made.prefix}", f"-DEXAMPLES_FORTRAN={'OFF' if inst.family == 'intel' else 'ON'}"]
    _cmake(inst, EXAMPLES, folder / "examples", [*choices, *([] if wrapper else by_wrapper)])


def _cmake(inst: Installation, source: Path, build: Path, choices: list[str]) -> None:
    tool(inst, [cmake(), "-S", str(source), "-B", str(build), *ninja(), *choices], source)
    tool(inst, [cmake(), "--build", str(build), "-j2"], source)


def cmake() -> str:
    return _find_program("cmake")


def ninja() -> list[str]:
    """Options for CMake to build by it: much of the time of a small build is make's."""
    return ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_find_program('ninja')}"]


def _find_program(name: str) -> str:
    """Returns the program of this environment, else that of PATH."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found
    return found


def tool(inst: Installation, command: list[str], folder: Path, *, good: bool = True) -> str:
    env = {**os.environ, **inst.env, **compiler_environment(inst), "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
    assert (done.returncode == 0) == good, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr
