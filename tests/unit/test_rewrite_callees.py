"""Does `nearfield rewrite` split loops that stand in a function beside the messages, only where the function's body may
stand in place of its call, and does it say why not?"""

from __future__ import annotations

from pathlib import Path

import pytest
from rewriting import analyse_c

from nearfield.rewrite import callees
from nearfield.rewrite.codegen.inlining import InlinedText, Inliner

# ---- one callee, one call

BODY = """for (int i = 1; i < rows - 1; i++)
    for (int j = 0; j < cols; j++) y[i * cols + j] = c * x[i * cols + j] + x[(i + 1) * cols + j];"""
PARAMETERS = "const double *x, double *y, int rows, int cols, double c"


def program(
    body: str = BODY, call: str = "update(a, b, n, m, 0.25);", parameters: str = PARAMETERS, before: str = "",
    variables: str = "", result: str = "void", between: str = "",
) -> str:  # fmt: skip
    return f"""#include <mpi.h>
#include <stdio.h>
{before}
{result} update({parameters}) {{
  {body}
}}
{between}
void step(int n, int m, double *restrict a, double *restrict b, int up, int down) {{
  {variables}
  for (int t = 0; t < 9; t++) {{
    MPI_Sendrecv(&a[m], m, MPI_DOUBLE, up, 0, &a[(n - 1) * m], m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    {call}
  }}
}}
"""


def rows(call: str = "update(n, m, a, b);", **more: str) -> str:
    """Returns a program whose arrays are pointers to rows of a length that comes at run time."""
    body = "for (int i = 1; i < rows - 1; i++) for (int j = 0; j < cols; j++) y[i][j] = x[i + 1][j];"
    text = program(body, call, "int rows, int cols, double (*x)[cols], double (*y)[cols]", **more)
    text = text.replace("*restrict a", "(*restrict a)[m]").replace("*restrict b", "(*restrict b)[m]")
    return text.replace("&a[m]", "a[1]").replace("&a[(n - 1) * m]", "a[n - 1]")


INLINED = {
    "plain": program(),
    "variables": program("int last = rows - 1; const double q = 2 * c;\n" + BODY.replace("rows - 1", "last")),
    "expressions": program(call="update(a + m, b, n - 1, m, 0.5);"),
    "result": program(
        f"double sum = x[0];\n{BODY}\n return sum;", "s = update(a, b, n, m, 0.25);", result="double",
        variables="double s;",
    ),
    "macro": program(
        "for (int i = 1; i < rows - 1; i++) for (int j = 0; j < m; j++) y[AT(i, j)] = x[AT(i + 1, j)];",
        before="#define AT(i, j) ((i) * m + (j))", parameters=PARAMETERS.replace("cols", "m"),
    ),
    "number": program(call="update(a, b, n, m, -0.5);"),
    "row lengths": rows(),
}  # fmt: skip


@pytest.mark.parametrize("name", INLINED)
def test_a_body_stands_in_place_of_the_call(name: str, tmp_path: Path, arguments: list[str]) -> None:
    found = analyse_c(tmp_path, arguments, INLINED[name], transformation_names=frozenset({"overlap"}))
    assert len(found.patches) == 1, found.missed
    assert "update(" not in found.patches[0].rewritten.partition("void step")[2]


def test_names_with_c_linkage_mean_the_same_in_a_body(tmp_path: Path, arguments: list[str]) -> None:
    """Is a body inlined in C++ if it names what a header of C declares, as MPI's handles may be?"""
    text = program(BODY.replace("c *", "c * weight *"), before='extern "C" { extern double weight; }')
    text = text.replace("*restrict", "*__restrict")
    found = analyse_c(tmp_path, arguments, text, "program.cpp", transformation_names=frozenset({"overlap"}))
    assert len(found.patches) == 1, found.missed


REFUSED = {
    "return": (program(f"if (rows < 3) return;\n  {BODY}"), "the function returns before its end (line 5)"),
    "goto": (program(f"if (rows < 3) goto out;\n  {BODY}\nout:;"), "the function contains goto (line 5)"),
    "static": (
        program(f"static int k; k++;\n  {BODY}"),
        "its variable k outlives the call (static or extern) (line 5)",
    ),
    "changed parameter": (program(f"rows--;\n  {BODY}"), "the function changes its parameter rows (line 5)"),
    "address": (program(f"int *p = &rows; if (p) {BODY}"), "the function takes the address of its parameter rows"),
    "size": (program(BODY.replace("c *", "sizeof(x) *")), "the function takes the size of its parameter x"),
    "type": (
        program(call="update(a, b, n, m, 1);"),
        "the argument for the parameter c is converted: int becomes double",
    ),
    "argument": (
        program(call="update(a, b, n, m, b[0]);"),
        "the argument for the parameter c is no variable, no number",
    ),
    "global": (
        program(f"y[0] = 1;\n  {BODY}", "update(a, b, n, m, weight);", before="double weight;"),
        "weight, the argument for the parameter c, may change during the call",
    ),
    "other sign": (
        program(f"*place = 3;\n  {BODY}", "update(a, b, most, m, 0.25);",
                before="int most;\nunsigned *place = (unsigned *)&most;"),
        "most, the argument for the parameter rows, may change during the call",
    ),
    "row length": (
        rows("update(n, k, a, b);", variables="int k = 3;"),
        "the argument for the parameter x is converted",
    ),
    "row length that changes": (rows(variables="m += 1;"), "the length of the rows of the parameter x may change"),
    "structure": (
        program(parameters=PARAMETERS.replace("double c", "struct weights w"), call="update(a, b, n, m, w);",
                body=BODY.replace("c *", "w.c *"), before="struct weights { double c; };",
                variables="struct weights w = {1};"),
        "the parameter w is neither a number nor a pointer",
    ),
    "macro": (
        program(
            "for (int i = 1; i < rows - 1; i++) for (int j = 0; j < cols; j++) y[AT(i, j)] = x[AT(i + 1, j)];",
            before="#define AT(i, j) ((i) * cols + (j))",
        ),
        "the macro AT uses the name of the parameter cols",
    ),
    "macro twice": (
        program(BODY.replace("c *", "W *"), before="#define W 2", between="#undef W\n#define W 3"),
        "the macro W is defined more than once",
    ),
    "header": (program(between="#include <math.h>"), "a header is included between the function and this call"),
    "place": (program(f'printf("%s", __func__);\n  {BODY}'), "the function uses __func__"),
    "pragma": (
        program(f"int k;\n#pragma omp parallel for private(k)\n  {BODY}", "update(a, b, n, m, 0.25); //k"),
        "a pragma names k",
    ),
    "result": (
        program(f"{BODY}\n  return rows;", "s = update(a, b, n, m, 0.25);", result="int", variables="double s;"),
        "the result is converted to another type",
    ),
    "unused result": (
        program(f"int k = 0;\n  {BODY}\n  return k++;", result="int"),
        "this call does not use the result, and computing it may have side effects",
    ),
    "clash": (
        program(call="update(a, b, n, m, i);", variables="double i = 3;"), "the name i clashes with another one"
    ),
    "hidden": (
        program(BODY.replace("c *", "weight *"), before="double weight = 2;", variables="double weight = 3;"),
        "the name weight clashes with another one",
    ),
    "array": (
        program(f"double k[2] = {{x[0], 1}};\n  {BODY}"),
        "its variable k is initialised with a value that may change before the call",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_inlined_is_refused_with_the_reason(name: str, tmp_path: Path, arguments: list[str]) -> None:
    text, reason = REFUSED[name]
    found = analyse_c(tmp_path, arguments, text, transformation_names=frozenset({"overlap"}))
    assert not found.patches
    line = text[: text.index("update(", text.index("void step"))].count("\n") + 1
    assert any(reason in one.reason for one in found.missed if one.line == line), found.missed


def test_what_is_received_may_be_an_argument(tmp_path: Path, arguments: list[str]) -> None:
    """Does an argument keep its name where a message into memory of no known type may change it?"""
    receive = "MPI_Recv(place, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
    text = program(f"{receive}\n  {BODY}", "update(a, b, most, m, 0.25);", before="int most;\nvoid *place = &most;")
    assert not any("stands in place" in patch.reason for patch in analyse_c(tmp_path, arguments, text).patches)


def test_a_function_of_another_file_is_not_inlined(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "update.h").write_text(f"static void update({PARAMETERS}) {{\n  {BODY}\n}}\n")
    text = program().replace("<stdio.h>", '"update.h"').replace("update(const", "another(const")
    found = analyse_c(tmp_path, arguments, text, transformation_names=frozenset({"overlap"}))
    assert any("the function is defined in another file" in one.reason for one in found.missed), found.missed


def test_a_reason_behind_an_inlined_body_has_the_lines_of_the_file(tmp_path: Path, arguments: list[str]) -> None:
    """Does a body in which each iteration needs the one before say so, at its own line?"""
    text = program(BODY.replace("y[i", "y[(i - 1)").replace("x[(i + 1)", "y[i"), "update(a, a, n, m, 0.25);")
    found = analyse_c(tmp_path, arguments, text, transformation_names=frozenset({"warm-send"}))
    assert not found.patches
    reason = next(one.reason for one in found.missed if "with the body of update in place of the call" in one.reason)
    assert "line 6" in reason or "line 5" in reason, reason


# ---- the proof of the text

DAMAGES = {
    "an argument": ("b[i * m + j] =", "b[i * n + j] ="),
    "a number": ("i = 1; i < n", "i = 2; i < n"),
    "a bound": ("j < m;", "j <= m;"),
    "a statement": ("for (int i = 1; i < n", "b[0] = 0;\n    for (int i = 1; i < n"),
    "a weight": ("0.25 *", "0.26 *"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_body_is_not_proved(
    damage: str, tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Does the proof of the text with bodies find a mistake of what writes it?"""
    old, new = DAMAGES[damage]
    written = Inliner.inline_calls

    def damaged(self: Inliner, sites: list[object]) -> InlinedText:
        made = written(self, sites)  # type: ignore[arg-type]
        head, call, rest = made.text.partition("void step")
        assert old in rest
        made.text = head + call + rest.replace(old, new, 1)
        return made

    monkeypatch.setattr(callees.Inliner, "inline_calls", damaged)
    found = analyse_c(tmp_path, arguments, program(), transformation_names=frozenset({"overlap"}))
    assert not found.patches
    assert any("update cannot be inlined" in one.reason for one in found.missed), found.missed
