"""Can programmers in C++, C and Fortran install the halo library, find it, and get right results from it?

It is installed for those MPIs of the system that are selected (selected_mpis.py): for one with its wrapper as compiler,
for the others with a plain compiler that finds MPI by itself; the examples are then built the other way. If no MPI of
the system is selected, it is installed for the first one; a machine without such MPIs installs for one wheel.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from installed import EXAMPLES, ROOT, Installed, cmake, install, tool
from PIL import Image
from selected_mpis import selected_installations
from tuning import in_process

from nearfield import mpi
from nearfield.mpi import Installation

# Small, since four ranks may share two cores; odd, so that parts differ; larger than a page where padding begins.
RUNS = {
    "heat2d": ("heat2d", "--rows", "61", "--columns", "47", "--steps", "9"),
    "stencil3d-7": ("stencil3d", "--size", "14", "--steps", "3"),
    "stencil3d-27": ("stencil3d", "--size", "13", "--points", "27", "--periodic", "--steps", "3"),
    "gauss_seidel": ("gauss_seidel", "--rows", "33", "--columns", "40", "--sweeps", "6"),
    "wave": ("wave", "--nx", "40", "--ny", "33", "--steps", "8"),
}
_PROJECT = """
cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES C)
find_package(nearfield {version} REQUIRED)
add_executable(user {source})
target_link_libraries(user nearfield::halo m)
"""
_FORTRAN = """
subroutine documented(nx, ny)
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use nearfield_halo
  implicit none
  integer, intent(in) :: nx, ny
{example}
end subroutine documented
"""


def of_system() -> list[Installation]:
    return [inst for inst in mpi.find_usable_mpis() if inst.origin == "PATH"] or mpi.find_usable_mpis()[:1]


def build_ahead(inst: Installation, programs: Path) -> None:
    if inst in of_system():
        install(inst, programs, wrapper=inst == of_system()[0])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "installed" in metafunc.fixturenames:
        selected = selected_installations(metafunc.config)
        chosen = [inst for inst in of_system() if inst in selected] or of_system()[:1]
        metafunc.parametrize("installed", chosen, ids=[inst.name for inst in chosen], indirect=True, scope="session")


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest, programs: Path) -> Installed:
    return install(request.param, programs, wrapper=request.param == of_system()[0])


def existing(installed: Installed, name: str) -> Path:
    program = installed.example(name)
    if not program.exists() and name == "wave" and (not shutil.which("gfortran") or "wheel" in installed.inst.origin):
        pytest.skip(f"no Fortran compiler, or {installed.inst.name} has no modules for it")
    assert program.exists()
    return program


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("run", RUNS)
def test_examples_are_right(installed: Installed, run: str, ranks: int) -> None:
    """Do the examples, found by find_package, give bit for bit what a serial run gives?"""
    name, *arguments = RUNS[run]
    said = installed.run(existing(installed, name), *arguments, "--check", ranks=ranks)
    assert "check: 0 cells differ" in said


def test_the_check_notices(installed: Installed, tmp_path: Path) -> None:
    """Does an example that forgets to exchange say so, and end with an exit code?"""
    source = (EXAMPLES / "gauss_seidel.c").read_text()
    forgetful = source.replace("must(nf_exchange_fields(grid, &field, 1));", "")
    forgetful = forgetful.replace("options.corners = 0;", 'options.corners = 0;\n  options.protocol = "direct";')
    assert forgetful.count("\n") == source.count("\n") + 1 and "nf_exchange_fields" not in forgetful
    (tmp_path / "forgetful.c").write_text(forgetful)
    program = installed.compile("mpicc", tmp_path / "forgetful.c", flags=(f"-I{EXAMPLES}", "-std=c11"))
    said = installed.run(program, *RUNS["gauss_seidel"][1:], "--check", ranks=2, good=False)
    assert "cells differ" in said and "check: 0 cells" not in said


def test_pkg_config_is_enough(installed: Installed) -> None:
    """Does what pkg-config says build an example with the MPI's C++ wrapper?"""
    program = installed.compile(
        "mpicxx", EXAMPLES / "heat2d.cpp", flags=("-std=c++20", "-fopenmp-simd", "-Wall", "-Werror")
    )
    assert "check: 0 cells differ" in installed.run(program, *RUNS["heat2d"][1:], "--check", ranks=2)


def test_fortran_module_counts_as_fortran_does(installed: Installed) -> None:
    """Do indices, bounds, ghost cells and errors of the Fortran module hold in all types and dimensions, and does the
    example in its first lines compile?"""
    if not shutil.which("gfortran"):
        pytest.skip("needs gfortran")
    module = Path(installed.pkg_config("--variable=fortran_module")[0])
    example = re.search(r"(?:^!   .*\n)+", module.read_text(), re.M)
    assert example and "call g%create(" in example[0]
    documented = installed.folder / "documented.f90"
    documented.write_text(_FORTRAN.format(example=re.sub("^! ", "  ", example[0], flags=re.M)))
    flags = ("-std=f2008", "-fcheck=all", "-Wall", f"-J{installed.folder}")
    program = installed.compile("mpifort", module, documented, ROOT / "tests/programs/halo_fortran.f90", flags=flags)
    for ranks in (1, 3):
        assert installed.run(program, ranks=ranks).split() == ["ok"]


def test_fortran_flags_are_all_that_a_compiler_needs(tmp_path: Path) -> None:
    """Does a Fortran program build with what `nearfield halo --fortran-flags` prints, as the help says, and run?"""
    inst = of_system()[0]
    compiler = inst.compiler.with_name(re.sub(r"mpi(cxx|c\+\+|CC)", "mpifort", inst.compiler.name))
    if not compiler.exists() or not shutil.which("gfortran"):
        pytest.skip(f"{inst.name} has no Fortran compiler here")
    flags = in_process("halo", "--mpi", inst.name, "--fortran-flags").out.split()
    subprocess.run([compiler, *flags, EXAMPLES / "wave.f90", "-o", "wave"], check=True, cwd=tmp_path)
    done = mpi.run(inst, [str(tmp_path / "wave"), "--steps", "3", "--check"], 2, timeout_s=60)
    assert "check: 0 cells differ" in done.stdout, done.stdout + done.stderr


def test_frames_show_something(installed: Installed) -> None:
    """Is the picture of the temperatures, or of the pressures, one: of the grid's size and not of one colour?"""
    size = ("--rows", "30", "--columns", "50", "--steps", "20")
    installed.run(existing(installed, "heat2d"), *size, "--frame", "heat.png", ranks=2)
    installed.run(existing(installed, "heat2d"), *size, "--frame", "heat.pgm", ranks=1)
    assert pixels(installed.folder / "heat.png", "P") == pixels(installed.folder / "heat.pgm", "L")
    installed.run(existing(installed, "wave"), "--nx", "50", "--ny", "30", "--frame", "wave.pgm", ranks=2)
    pixels(installed.folder / "wave.pgm", "L")


def pixels(file: Path, mode: str) -> bytes:
    with Image.open(file) as picture:
        assert picture.size == (50, 30) and picture.mode == mode
        assert len(set(picture.tobytes())) > 10
        return picture.tobytes()


def test_projects_in_c_alone_and_other_versions(installed: Installed, tmp_path: Path) -> None:
    """Does find_package work where C is the only language, and refuse a version that is not there?"""
    source = EXAMPLES / "gauss_seidel.c"
    for version, good in (("0.1", True), ("0.2", False)):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(_PROJECT.format(version=version, source=source))
        command = [cmake(), "-S", str(folder), "-B", str(folder), f"-DCMAKE_PREFIX_PATH={installed.prefix}"]
        said = tool(installed.inst, command, folder, good=good)
        assert good or "0.2" in said
    tool(installed.inst, [cmake(), "--build", str(tmp_path / "0.1")], tmp_path)
    assert "differ" in installed.run(tmp_path / "0.1/user", *RUNS["gauss_seidel"][1:], "--check", ranks=2)


def test_another_mpi_is_refused(installed: Installed, tmp_path: Path) -> None:
    """Does find_package say so when a project is about to use the library with an MPI of another kind?"""
    kind = installed.inst.family == "openmpi"
    others = [inst for inst in mpi.find_usable_mpis() if (inst.family == "openmpi") != kind and inst.family != "intel"]
    if not others:
        pytest.skip("needs Open MPI and MPICH")
    compiler = others[-1].compiler.with_name(others[-1].compiler.name.replace("cxx", "cc"))
    (tmp_path / "CMakeLists.txt").write_text(_PROJECT.format(version="0.1", source=EXAMPLES / "gauss_seidel.c"))
    command = [cmake(), "-S", ".", "-B", ".", f"-DCMAKE_PREFIX_PATH={installed.prefix}"]
    said = tool(installed.inst, [*command, f"-DMPI_C_COMPILER={compiler}"], tmp_path, good=False)
    assert "built for another MPI" in " ".join(said.split()) and str(installed.inst.compiler) in said


def test_examples_refuse_what_they_do_not_know(installed: Installed) -> None:
    """Does a mistyped option end the program with what there is, not with a default?"""
    for name, option in (("heat2d", "--row"), ("gauss_seidel", "--checks")):
        said = tool(installed.inst, [str(existing(installed, name)), option], installed.folder, good=False)
        assert f"'{option}' is not understood" in said
