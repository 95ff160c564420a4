"""Do compilers vectorise loops over fields? (Zhu et al., CCGrid 2015, IV.A: memory that neighbours share comes as plain
pointers, of which a compiler must assume that they overlap; the study lost its gain to that.)

The loops are those of the examples; the answer is the compiler's own report. A loop that is "versioned" is vectorised
behind a comparison of addresses at run time, row by row.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nearfield import mpi
from nearfield.mpi.families import FAMILIES

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "examples/kernels.hpp"
FUNCTIONS = ("heat", "seven_points", "twenty_seven_points")

VECTORISED = "loop vectorized"
VERSIONED = "possible aliasing"


def compiler(name: str) -> str:
    path = shutil.which(name)
    if not path or "Free Software Foundation" not in subprocess.check_output([path, "--version"], text=True):
        pytest.skip(f"needs GCC's {name}, whose report this reads")
    return path


def report(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> str:
    command = [*command, "-O3", "-fopt-info-vec-all", "-c", "-o", str(folder / "kernels.o")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | (variables or {}))
    assert done.returncode == 0, done.stderr
    return done.stderr


def functions_of(file: Path, pattern: str) -> dict[str, range]:
    """Name -> its lines, for functions that begin on a line that matches the pattern."""
    lines = file.read_text().splitlines()
    begins = [(number, found[1]) for number, line in enumerate(lines, 1) if (found := re.match(pattern, line))]
    ends = [number for number, _ in begins[1:]] + [len(lines) + 1]
    return {name: range(begin, end) for (begin, name), end in zip(begins, ends, strict=True)}


def said_of(text: str, file: Path, lines: range) -> list[str]:
    """Returns the compiler's remarks on these lines of the file."""
    found = re.findall(rf"{re.escape(file.name)}:(\d+):\d+: optimized:\s+(.*)", text)
    return [words for line, words in found if int(line) in lines]


def cpp_report(folder: Path, *flags: str) -> dict[str, list[str]]:
    program = ROOT / "tests/programs/kernels.cpp"
    text = report([compiler("g++"), "-std=c++20", *flags, str(program)], folder)
    functions = functions_of(KERNELS, r"inline \w+ (\w+)\(")
    assert set(functions) == set(FUNCTIONS)
    return {name: said_of(text, KERNELS, lines) for name, lines in functions.items()}


def test_loops_through_restrict_are_vectorised(tmp_path: Path) -> None:
    """Are the examples' loops vectorised, without any check at run time?"""
    for name, said in cpp_report(tmp_path).items():
        assert any(VECTORISED in words for words in said), f"{name}: {said}"
        assert not any(VERSIONED in words for words in said), f"{name}: {said}"


def test_plain_pointers_are_what_the_study_found(tmp_path: Path) -> None:
    """And without NEARFIELD_RESTRICT: does the compiler have to check at run time, or give up?"""
    for name, said in cpp_report(tmp_path, "-DNEARFIELD_RESTRICT=").items():
        free = any(VECTORISED in words for words in said) and not any(VERSIONED in words for words in said)
        assert not free, f"{name} is vectorised without a check, so the test above shows nothing: {said}"


def test_simd_pragma_does_the_same(tmp_path: Path) -> None:
    """Is the heat loop, whose sum would otherwise go in order, free of checks by its pragma alone, too?"""
    said = cpp_report(tmp_path, "-DNEARFIELD_RESTRICT=", "-fopenmp-simd")["heat"]
    assert any(VECTORISED in words for words in said) and not any(VERSIONED in words for words in said), said


@pytest.mark.parametrize("way", ["by_parameter", "by_pragma"])
def test_rows_of_views_are_vectorised(tmp_path: Path, way: str) -> None:
    """Does the same hold for rows of views, through the C++ header? (Not checked for `by_index` and `by_local_alias`:
    GCC 12 takes no notice of `restrict` on a pointer that is no parameter, and checks.)"""
    compiler("g++")
    inst = mpi.find_usable_mpis()[0]
    file = ROOT / "tests/programs/view_loops.cpp"
    command = [str(inst.compiler), "-std=c++20", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", f"-I{ROOT / 'include'}"]
    text = report([*command, str(file)], tmp_path, {**inst.env, FAMILIES[inst.family].compiler_variable: "g++"})
    said = said_of(text, file, functions_of(file, r"void (\w+)\(")[way])
    assert any(VECTORISED in words for words in said), said
    assert not any(VERSIONED in words for words in said), said


def test_fortran_arguments_need_no_word(tmp_path: Path) -> None:
    """Are loops in Fortran procedures vectorised without a check, when fields come as assumed-shape arguments?"""
    source = tmp_path / "wave_kernels.f90"
    source.write_text((ROOT / "examples/wave.f90").read_text().split("\nprogram wave")[0] + "\n")
    text = report([compiler("gfortran"), str(source)], tmp_path)
    functions = functions_of(source, r"  pure subroutine (\w+)\(")
    assert set(functions) == {"push", "squeeze"}
    for name, lines in functions.items():
        said = said_of(text, source, lines)
        assert any(VECTORISED in words for words in said), f"{name}: {said}"
        assert not any(VERSIONED in words for words in said), f"{name}: {said}"
