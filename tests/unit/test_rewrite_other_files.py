"""Does `nearfield rewrite` count with what headers and other files of the program may do?"""

from __future__ import annotations

from pathlib import Path

import pytest
from rewrite_step import EXCHANGE, PLAIN, SWEEP, read

from nearfield.rewrite import analyze


@pytest.mark.parametrize("source", ["MPI_ANY_SOURCE", "down"])
def test_a_send_does_not_pass_the_receive_in_front_of_it(source: str, tmp_path: Path, arguments: list[str]) -> None:
    """Where a rank receives from any source, may a third rank's message be what the receive orders the send behind?"""
    before = f"void gather(double *x, int down) {{ MPI_Recv(x, 1, MPI_DOUBLE, {source}, 1, MPI_COMM_WORLD, 0); }}\n"
    body = (
        "if (n > 3) {\nMPI_Recv(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        f"MPI_Send(w, 1, MPI_DOUBLE, up, 1, MPI_COMM_WORLD);\n}}\n{SWEEP}for (int i = 1; i <= n; i++) v[i] += u[i - 1];"
    )
    found = {patch.transformation for patch in read(tmp_path, arguments, body, before).patches}
    assert ("overlap" in found) == (source == "down")


RECEIVE_THEN_SEND = (
    "if (n > 3) {\nMPI_Recv(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
    f"MPI_Send(w, 1, MPI_DOUBLE, up, 1, MPI_COMM_WORLD);\n}}\n{SWEEP}for (int i = 1; i <= n; i++) v[i] += u[i - 1];"
)


@pytest.mark.parametrize(
    ("before", "header"),
    [
        ('#include "gather.h"\n', "#define GATHER(x) MPI_Recv(x, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, 0)\n"),
        (
            "#define CAT(a, b) a##b\n"
            "void g(int *x) { MPI_Recv(x, 1, MPI_INT, CAT(MPI_ANY_, SOURCE), 1, MPI_COMM_WORLD, 0); }\n",
            "",
        ),
        ("void g(int *x) { MPI_Recv(x, 1, MPI_INT, -2, 1, MPI_COMM_WORLD, 0); }\n", ""),
    ],
    ids=["in a header", "made by a macro", "as a number"],
)
def test_a_hidden_wildcard_is_found(before: str, header: str, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "gather.h").write_text(header)
    assert "overlap" not in {one.transformation for one in read(tmp_path, arguments, RECEIVE_THEN_SEND, before).patches}


def test_what_other_files_may_do_is_an_assumption_of_the_patch(tmp_path: Path, arguments: list[str]) -> None:
    """Does a patch say that it counts on other files, if there may be some, and not if the file is the program?"""
    whole = "int main(void) { return 0; }\n"
    for before, count in (("", 1), (whole, 0), (f"void other(void);\n{whole.replace('return', 'other(); return')}", 1)):
        overlap = next(
            one
            for one in read(tmp_path, arguments, RECEIVE_THEN_SEND, before).patches
            if one.transformation == "overlap"
        )
        assert sum("MPI_ANY_SOURCE" in one for one in overlap.assumptions) == count


@pytest.mark.parametrize(
    ("name", "header"),
    [("mmap", "static void *share(void) { return mmap(0, 1, 3, 1, -1, 0); }\n"), ("", "#define A 1\n")],
)
def test_a_header_of_the_program_is_read(name: str, header: str, tmp_path: Path, arguments: list[str]) -> None:
    """Is memory that a header shares noticed, and is a harmless one no reason to refuse?"""
    (tmp_path / "share.h").write_text(
        f"void *mmap(void *, unsigned long, int, int, int, long);\n{header}" if name else header
    )
    found = read(tmp_path, arguments, PLAIN, '#include "share.h"\n')
    assert bool(found.patches) == (not name)
    assert all("share.h uses mmap" in one.reason for one in found.missed) or not name


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("#define IN(x) ((x) + __LINE__ % 2)\n#define AT(x) IN(x)\n#define norm(x) AT(x)\n", "the file uses norm"),
        (
            "#pragma GCC system_header\nstatic double *kept;\nstatic double norm(double x) { return x + *kept; }\n",
            "norm",
        ),
        ("#define norm(x) ((x) * 2)\n", ""),
    ],
    ids=["a macro with the line", "a header that says it is the system's", "a plain macro"],
)
def test_what_a_header_defines_is_read(header: str, said: str, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "norm.h").write_text(header)
    body = f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = norm(w[i]);\nfor (int i = 1; i <= n; i++) w[i] += u[i - 1];"
    found = read(tmp_path, arguments, body, '#include "norm.h"\n')
    assert bool(found.patches) == (not said)
    assert said in "\n".join(one.reason for one in found.missed)


@pytest.mark.parametrize("count", [1, 2])
def test_a_function_of_several_files_is_unknown(count: int, tmp_path: Path, arguments: list[str]) -> None:
    """If two files define a function, of which one is linked, does a call of it count as unknown?"""
    others = [tmp_path / f"get{number}.c" for number in range(count)]
    for other in others:
        other.write_text("double get(int i) { return i; }\n")
    path = tmp_path / "step.c"
    path.write_text(
        "#include <mpi.h>\ndouble get(int i);\n"
        "void step(double *restrict u, double *restrict v, double *restrict w, int n, int up, int down) {\n"
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + get(i);\n}}\n"
    )
    found = analyze(path, arguments, other_files=[(other, arguments) for other in others])
    assert bool(found.patches) == (count == 1), found.missed
