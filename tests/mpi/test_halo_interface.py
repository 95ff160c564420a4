"""The halo library's interfaces in C++ and C: what must compile does and runs, what must not does not, for the reason
that it should. (Python's and Fortran's examples: test_halo_python.py, test_install.py)"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from halo_programs import ROOT, built, compile_program

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.mpi.compiler import compiler_environment
from nearfield.mpi.families import FAMILIES

HEADER = ROOT / "include/nearfield/halo.hpp"
WRONG = ROOT / "tests/programs/halo_wrong.cpp"


def test_examples_of_the_documentation_run(installations: list[Installation], tmp_path: Path) -> None:
    """Does the program in docs/tutorials/halo.md compile and run, and does the example of the header compile?"""
    document = re.search(r"```cpp\n(.*?)```", (ROOT / "docs/tutorials/halo.md").read_text(), re.S)
    header = re.search(r"(?:^//   .*\n)+", HEADER.read_text(), re.M)
    assert document and document[1].count("4096, 4096") == 1 and header and "nearfield::Grid<2>" in header[0]
    example = re.sub("^//   ", "  ", header[0], flags=re.M)
    source = tmp_path / "documented.cpp"
    source.write_text(
        document[1].replace("4096, 4096", "64, 64")
        + "template <class Fill, class Sweep>\nvoid example(int steps, Fill fill, Sweep sweep) {\n"
        + f"{example}}}\ntemplate void example(int, void (*)(nearfield::View<double, 2>), decltype(&sweep));\n"
    )
    program = compile_program(installations[0], source, tmp_path / "documented", "-Wextra", "-Werror")
    done = mpi.run(installations[0], [str(program)], 2, timeout_s=60)
    assert done.exit_code == 0 and "grid of 64 x 64 cells on " in done.stdout, done.stdout + done.stderr


def plain(text: str) -> str:
    """Returns the text without parts that compilers' versions write differently."""
    return re.sub(r"[\s'`‘’]|nearfield::", "", text)


def errors_by_line(said: str) -> dict[int, list[str]]:
    """Line of the file of wrong uses -> GCC's errors of it, those in templates that it has instantiated included."""
    found: dict[int, list[str]] = {}
    used = 0
    for line in said.splitlines():
        if at := re.match(rf".*{WRONG.name}:(\d+):", line):
            used = int(at[1])
        if " error: " in line:
            found.setdefault(used, []).append(line)
    return found


def test_wrong_uses_do_not_compile(installations: list[Installation]) -> None:
    """A wrong dimension, a wrong type of cell, copies of what cannot be copied: is each an error, whose words say so,
    and nothing else one?"""
    if not shutil.which("g++"):
        pytest.skip("needs GCC, whose errors this reads")
    inst = installations[0]
    env = {**os.environ, **inst.env, **compiler_environment(inst), FAMILIES[inst.family].compiler_variable: "g++"}
    flags = ["-std=c++20", "-fsyntax-only", "-fno-elide-type", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
    command = [str(inst.compiler), *flags, f"-I{ROOT / 'include'}", str(WRONG)]
    done = subprocess.run(command, capture_output=True, text=True, env={**env, "LC_ALL": "C"})
    lines = enumerate(WRONG.read_text().splitlines(), 1)
    wanted = {number: line.partition("// error: ")[2] for number, line in lines if "// error: " in line}
    found = errors_by_line(done.stderr)
    assert found.keys() == wanted.keys(), done.stderr
    for number, words in wanted.items():
        assert plain(words) in plain(found[number][0]), found[number]


def test_cells_options_and_sizes(installations: list[Installation], programs: Path) -> None:
    """Cells of several components in C++, options of programs that know fewer or more of them: all as promised?"""
    program = built(installations[0], "halo_interface", programs, "-Wextra")
    done = mpi.run(installations[0], [str(program)], 2, timeout_s=60)
    assert done.exit_code == 0 and done.stdout == "ok\n", done.stdout + done.stderr
