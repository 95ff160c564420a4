"""Does `nearfield rewrite` read programs as people write them, in several files, and name what keeps them so?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from random_programs import ARRAYS, random_program

from nearfield.cli.rewrite_checks import RewriteChecks
from nearfield.rewrite import Analysis, analyze
from nearfield.rewrite.frontend.compile_commands import listed_source_files

HEAD = "#include <mpi.h>\n#include <stdio.h>\n"
PARAMETERS = "int n, int m, double *restrict a, double *restrict b, int up, int down"
EXCHANGE = (
    "MPI_Sendrecv(&a[m], m, MPI_DOUBLE, up, 0, &a[(n - 1) * m], m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, "
    "MPI_STATUS_IGNORE);\n"
)
SWEEP = (
    "for (int i = 1; i < n - 1; i++)\n for (int j = 0; j < m; j++)\n  "
    "b[i * m + j] = a[i * m + j] + a[(i + 1) * m + j];\n"
)
EVERY = {"warm-send", "overlap", "late-receive", "reverse"}


@pytest.fixture
def read(tmp_path: Path, arguments: list[str]):  # type: ignore[no-untyped-def]
    def analysed(body: str, before: str = "", others: str = "", **more: object) -> Analysis:
        path = tmp_path / "step.c"
        path.write_text(f"{HEAD}{before}void step({PARAMETERS}) {{\n{body}\n}}\n")
        (tmp_path / "other.c").write_text(f"{HEAD}{others}")
        sources = [(tmp_path / "other.c", arguments)] if others else []
        return analyze(path, arguments, other_files=sources, **more)  # type: ignore[arg-type]

    return analysed


def names(found: Analysis) -> set[str]:
    return {patch.transformation for patch in found.patches}


def reasons(found: Analysis) -> str:
    return "\n".join(f"{one.line}: {one.reason}" for one in found.missed)


# ---- several files

HALO = f"void halo({PARAMETERS})"


def test_an_exchange_in_another_file_is_followed(read) -> None:  # type: ignore[no-untyped-def]
    """Is a call of another file's function moved by what that sends and receives, and refused without that file?"""
    body = "halo(n, m, a, b, up, down);\n" + SWEEP
    found = read(body, f"{HALO};\n", f"{HALO} {{ {EXCHANGE} }}\n")
    assert names(found) >= {"warm-send", "late-receive"}
    assert "--extra-source" in reasons(read(body, f"{HALO};\n"))


def test_what_two_files_share_is_the_same_memory(read) -> None:  # type: ignore[no-untyped-def]
    """Is a global array that another file sends not written to before it is sent? And is a function that two files
    define unknown?"""
    send = "extern double edge[8];\nvoid halo(int up) { MPI_Send(edge, 8, MPI_DOUBLE, up, 0, MPI_COMM_WORLD); }\n"
    body = "halo(up);\nfor (int i = 0; i < 8; i++) edge[i] = b[i];\n"
    found = read(body, "double edge[8];\nvoid halo(int up);\n", send, assume_noalias=["edge", "b"])
    assert not found.patches
    assert "edge" in reasons(found)


def test_small_functions_have_values(read) -> None:  # type: ignore[no-untyped-def]
    """Is an index that a function computes by one expression exact?"""
    index = "static int at(const int i, const int j, const int width) { return i * width + j; }\n"
    sweep = SWEEP.replace("b[i * m + j]", "b[at(i, j, m)]").replace("a[(i + 1) * m + j]", "a[at(i + 1, j, m)]")
    assert names(read(EXCHANGE + sweep, index)) == names(read(EXCHANGE + SWEEP)) >= {"overlap"}


# ---- what is read

FORMS = {
    "packing with a running index": (
        "for (int k = 0, j = m; j < 2 * m; j++) out[k++] = a[j];\n"
        "MPI_Send(out, m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);\n" + SWEEP,
        "static double out[100];\n",
        {"warm-send"},
    ),
    "code that is never compiled in": (
        EXCHANGE + "DEBUG {\n  unknown(a);\n}\n" + SWEEP,
        "void unknown(double *);\n#define DEBUG if (0)\n",
        EVERY,
    ),
    "a label for a message": (
        "char label[20];\n" + EXCHANGE + 'sprintf(label, "%d of %s", n, "x");\n' + SWEEP, "", {"overlap"},
    ),
    "an error that ends the program": (
        "if (n < 0) MPI_Abort(MPI_COMM_WORLD, 1);\n" + EXCHANGE + SWEEP, "", EVERY,
    ),
    "persistent requests": (
        "MPI_Request r[2];\n"
        "MPI_Send_init(&a[m], m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r[0]);\n"
        "MPI_Recv_init(&a[(n - 1) * m], m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r[1]);\n"
        "for (int t = 0; t < 9; t++) {\nMPI_Startall(2, r);\nMPI_Waitall(2, r, MPI_STATUSES_IGNORE);\n" + SWEEP + "}\n",
        "",
        {"overlap", "warm-send", "late-receive"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_real_programs_are_read(form: str, read) -> None:  # type: ignore[no-untyped-def]
    body, before, expected = FORMS[form]
    found = read(body, before)
    assert names(found) >= expected, reasons(found)


WRONG = {
    "a persistent request whose buffer is another one by now": (
        "MPI_Request r;\ndouble *p = a;\nMPI_Send_init(p, m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r);\np = b;\n"
        "MPI_Start(&r);\nMPI_Wait(&r, MPI_STATUS_IGNORE);\n" + SWEEP,
        "p may have changed since line",
    ),
    "a persistent request that a loop's order would break": (
        "MPI_Request r;\nMPI_Send_init(&b[m], m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r);\n"
        "MPI_Start(&r);\nMPI_Wait(&r, MPI_STATUS_IGNORE);\nfor (int j = 0; j < m; j++) b[m + j] = a[j];\n",
        "writes b, which the MPI_Start at line",
    ),
    "a status that is read": (
        "MPI_Status s;\nint from;\ndouble x;\nMPI_Recv(&a[0], m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &s);\n"
        "from = s.MPI_SOURCE;\nfor (int j = 0; j < m; j++) b[j] = from;\n",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_orders_that_would_be_wrong_are_refused(name: str, read) -> None:  # type: ignore[no-untyped-def]
    body, said = WRONG[name]
    found = read(body)
    assert not found.patches
    assert said in reasons(found)


@pytest.mark.parametrize("name", ["kept_orders.c", "kept_orders.cpp"])
def test_orders_that_must_stay_do(name: str, arguments: list[str]) -> None:
    """Does each function of this file, in which no other order is right, keep its own, for some reason?"""
    path = Path(__file__).parents[1] / "programs" / name
    functions = set(re.findall(r"^void (\w+)\(.*\{$", path.read_text(), re.MULTILINE))
    found = analyze(path, arguments, assume_noalias=["rows"])
    assert not found.patches, {patch.function for patch in found.patches}
    assert len(functions) > 4
    assert functions == {one.function for one in found.missed}


READ_AT_THE_HEAD = {  # a value that is read where it is not seen at once, and changed later
    "an index": "for (int i = 0; i < n; i++) *(b + k + i) = a[i];\n",
    "a bound": "for (int i = 0; i < n; i++) { a[i] += 1; for (int j = 0; j < k; j++) b[i * m + j] = a[i]; }\n",
    "the length of a datatype": "MPI_Type_contiguous(k, MPI_DOUBLE, &t);\nMPI_Type_commit(&t);\n"
                                "MPI_Send(a, 1, t, up, 1, MPI_COMM_WORLD);\n",
}  # fmt: skip


@pytest.mark.parametrize("what", READ_AT_THE_HEAD)
def test_a_value_is_not_changed_before_it_is_read(what: str, read) -> None:  # type: ignore[no-untyped-def]
    receive = "MPI_Recv(a, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
    other = "for (int i = 0; i < n; i++) c[i] = i;\n"
    uses = READ_AT_THE_HEAD[what]
    found = read(f"int k; MPI_Datatype t;\nk = 1;\n{receive}{uses}k = m;\n{other}", "static double c[100];\n")
    assert found.patches
    for patch in found.patches:
        places = [patch.rewritten.index(one) for one in ("k = 1;", uses.splitlines()[0], "k = m;")]
        assert places == sorted(places), patch.rewritten


def test_a_condition_computes_what_the_original_computes(read) -> None:  # type: ignore[no-untyped-def]
    """Is a check of addresses that divides printed only where the program divides in any case?"""
    receive = "MPI_Recv(p + n / m, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
    fill = "for (int i = 0; i < n; i++) q[i] = 1;\n"
    for condition, expected in (("", {"overlap"}), ("if (m) ", set())):
        found = read(condition + receive + fill, "double *p, *q;\n", assume_noalias=("p", "q"))
        assert names(found) == expected, reasons(found)


def test_numbers_without_sign_stay_what_they_are(tmp_path: Path, arguments: list[str]) -> None:
    """Are conditions such as nx - 1 >= 2, which hold for nx = 0 without sign, not written; and others are? And is an
    index of 32 bits, which may wrap around before it is added to an address, an unknown one?"""
    path = tmp_path / "program.c"
    for seed, unsigned, expected in ((12, "size_t", False), (8, "size_t", True), (8, "unsigned", False)):
        text = random_program(seed).text.replace("for (int", f"for ({unsigned}")
        text = text.replace("int nx, int", f"{unsigned} nx, {unsigned}").replace("int nz", f"{unsigned} nz")
        path.write_text("#include <stddef.h>\n" + text)
        found = analyze(path, arguments, assume_noalias=ARRAYS)
        assert bool(names(found) - {"persistent"}) == expected, reasons(found)
        if unsigned == "unsigned":
            assert "has no sign and may wrap around" in reasons(found)


# ---- reasons

REASONS = {
    "what is received": (
        EXCHANGE + "for (int i = 1; i < n; i++)\n b[i] = a[(n - 1) * m];\n",
        "the loop at line 7 reads (line 8) a, which the MPI_Sendrecv at line 6 receives into",
    ),
    "what is sent": (
        "for (int i = 1; i < n; i++)\n a[m] += b[i];\n" + EXCHANGE,
        "the MPI_Sendrecv at line 8 sends a, which the loop at line 6 writes",
    ),
    "any source": (
        "MPI_Status s;\nMPI_Probe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &s);\n" + EXCHANGE + "n++;\n" + SWEEP,
        "it calls MPI_Probe (MPI_ANY_SOURCE), and which message it finds is known only when it runs",
    ),
    "collective": (EXCHANGE + "MPI_Bcast(a, m, MPI_DOUBLE, 0, MPI_COMM_WORLD);\n" + SWEEP, "MPI_Bcast, a collective"),
    "pointer to a function": ("void (*f)(double *) = 0;\n" + EXCHANGE + "f(a);\n" + SWEEP, "a function through f"),
    "no loop": (EXCHANGE, "nothing in its block"),
    "no message": ("int r;\nMPI_Comm_rank(MPI_COMM_WORLD, &r);\n" + SWEEP, "of MPI it calls MPI_Comm_rank, but"),
    "no MPI": (SWEEP, "no function of this file calls MPI"),
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons_are_specific(name: str, read) -> None:  # type: ignore[no-untyped-def]
    """Does each refusal name the accesses and lines, or the call, that keep the communication where it is?"""
    body, said = REASONS[name]
    found = read(body, "\n\n" if "line" in said else "")
    assert not found.patches
    assert said in reasons(found)


def test_what_a_loop_changes_says_nothing_of_other_iterations(read) -> None:  # type: ignore[no-untyped-def]
    """Is a condition on a variable that each iteration gives a value no reason to take its accesses apart?"""
    change = "k = (int)a[n + i]; if (k == 0) b[i] = a[i]; if (k == 1) a[i] = b[i - 1];"
    ends = "&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE"
    found = read(f"int k;\nMPI_Sendrecv({ends});\nfor (int i = 1; i < n - 1; i++) {{ {change} }}\n")
    assert "reverse" not in names(found)


# ---- the verb's helpers


def test_other_files_come_from_compile_commands(tmp_path: Path) -> None:
    """Are the files that the database names taken, each once, if they are there?"""
    (tmp_path / "a.c").write_text("")
    (tmp_path / "compile_commands.json").write_text(
        f'[{{"directory": "{tmp_path}", "file": "a.c"}}, {{"directory": "{tmp_path}", "file": "gone.c"}}]'
    )
    assert listed_source_files(tmp_path) == [tmp_path / "a.c"]


@pytest.mark.parametrize(("given", "processors", "ranks"), [(None, 6, 4), (None, 1, 2), ("1,3,9", 4, 3), ("9", 4, 2)])
def test_measure_takes_the_ranks_that_fit(
    given: str | None, processors: int, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does --measure follow --ranks, and else the processors?"""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    assert RewriteChecks(False, True, Path("a.c"), [], [], given, [], None)._ranks_to_measure() == ranks
