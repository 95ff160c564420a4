"""Are blocking sends and receives begun and completed apart where that does the same, also under conditions, and only
there?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rewriting import SWEEP, analyse_c, names, step

from nearfield.rewrite import Analysis

PARAMETERS = "int n, int m, double *restrict a, double *restrict b, int rank, int size"
WORLD, ANY = "MPI_COMM_WORLD", "MPI_ANY_SOURCE"
STENCIL = f"{SWEEP}b[i * m + j] = a[(i - 1) * m + j] + a[(i + 1) * m + j];"


def pair(other: str, send: str, receive: str, status: str = "MPI_STATUS_IGNORE") -> str:
    return (
        f"MPI_Send(&a[({send}) * m], m, MPI_DOUBLE, {other}, 0, {WORLD});\n"
        f"MPI_Recv(&a[({receive}) * m], m, MPI_DOUBLE, {other}, 0, {WORLD}, {status});\n"
    )


def guarded(status: str = "MPI_STATUS_IGNORE") -> str:
    up, down = pair("rank - 1", "1", "0", status), pair("rank + 1", "n - 2", "n - 1", status)
    return f"if (rank > 0) {{\n{up}}}\nif (rank < size - 1) {{\n{down}}}\n"


def analyse_body(tmp_path: Path, arguments: list[str], body: str) -> Analysis:
    return analyse_c(tmp_path, arguments, step(body, PARAMETERS))


def overlap(analysis: Analysis) -> str:
    """Returns the text that overlaps; '' if there is none."""
    texts = [patch.rewritten for patch in analysis.patches if patch.transformation == "overlap"]
    return texts[0] if texts else ""


@pytest.mark.parametrize("status", ["MPI_STATUS_IGNORE", "&status"])
def test_sends_and_receives_under_conditions_overlap(tmp_path: Path, arguments: list[str], status: str) -> None:
    """Are they begun under their conditions, completed together, and computed between, if nothing reads the status?"""
    text = overlap(analyse_body(tmp_path, arguments, f"MPI_Status status;\n{guarded(status)}{STENCIL}"))
    assert f"[4] = {{{', '.join(['MPI_REQUEST_NULL'] * 4)}}};" in text
    new = text.partition("} else {\n")[0]
    begun, _, after = new.partition("MPI_Waitall(4, nearfield_requests, MPI_STATUSES_IGNORE);")
    assert begun.count("MPI_Isend") == begun.count("MPI_Irecv") == begun.count("if (rank") == 2
    assert "for (int i = 2; i < n - 2; i++)" in begun and "for (int i = 1; i < 2; i++)" in after


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (guarded("&status") + "b[0] = status.MPI_SOURCE;\n", "the status of a message is kept"),
        (guarded().replace("rank - 1", ANY).replace("rank + 1", ANY), ANY),
        (f"int from;\nfrom = {ANY};\n{guarded().replace('rank - 1, 0', 'from, 0')}", ANY),
        # what is received is sent on at once, in the same statement
        (f"if (rank > 0) {{\n{pair('rank - 1', '1', '0')}{pair('rank - 1', '0', 'n - 1')}}}\n", ""),
        # a buffer is filled again after it is sent
        (f"if (rank > 0) {{\n{pair('rank - 1', '1', '0')}for (int j = 0; j < m; j++) a[m + j] = 0;\n}}\n", ""),
        # what is received decides what comes next
        (f"if (rank > 0) {{\n{pair('rank - 1', '1', '0')}if (a[0] > 0) a[(n - 1) * m] = 1;\n}}\n", ""),
        (f"for (int k = 0; k < 2; k++) {{\n{pair('rank', '1', '0')}}}\n", ""),
        # a buffer ends with its block
        (
            f"if (rank > 0) {{\ndouble t = 1;\nMPI_Send(&t, 1, MPI_DOUBLE, 0, 0, {WORLD});\n{pair('0', '1', '0')}}}\n",
            "",
        ),
    ],
)
def test_what_cannot_be_completed_later_is_not(
    tmp_path: Path, arguments: list[str], exchange: str, reason: str
) -> None:
    analysis = analyse_body(tmp_path, arguments, f"MPI_Status status;\n{exchange}{STENCIL}")
    assert "MPI_Isend" not in "".join(patch.rewritten for patch in analysis.patches)
    assert "late-receive" in names(analysis) or any(reason in one.reason for one in analysis.missed)


def test_the_arguments_of_a_message_are_not_changed_before_it(tmp_path: Path, arguments: list[str]) -> None:
    """Do ranks and tags of a message keep their values where loops and statements are moved?"""
    body = f"int to = rank;\n{pair('to', '1', '0')}to = 0;\nb[0] = to;\n{pair('to', 'n - 2', 'n - 1')}{STENCIL}"
    for patch in analyse_body(tmp_path, arguments, body).patches:
        new = patch.rewritten.split("{\n", 1)[1].partition("} else {\n")[0]
        order = [new.index("to, 0, MPI_COMM_WORLD"), new.index("to = 0;"), new.rindex("to, 0, MPI_COMM_WORLD")]
        assert order == sorted(order), patch.rewritten


def test_declarations_among_the_statements_come_first(tmp_path: Path, arguments: list[str]) -> None:
    """Is a variable with a value that never changes declared in front of what is rewritten, and any other a barrier?"""
    declared = "double sum = 0;\n"
    text = overlap(analyse_body(tmp_path, arguments, f"{guarded()}{declared}{STENCIL}\nsum += b[m];\nb[0] = sum;"))
    assert text.count(declared.strip()) == 1
    assert text.index(declared.strip()) < text.index("if (n >=")
    for other in ("double sum = a[0];\n", "static double sum = 0;\n"):
        assert not overlap(analyse_body(tmp_path, arguments, f"{guarded()}{other}{STENCIL}"))


def test_rounds_of_messages_overlap_in_turn(tmp_path: Path, arguments: list[str]) -> None:
    """Is each of two rounds under way during the inner rows of the loop before it?"""
    there = STENCIL
    back = STENCIL.replace("b[i", "c[i").replace("a[", "b[").replace("c[i", "a[i")
    body = f"{there}\n{guarded().replace('&a[', '&b[')}{back}\n{guarded()}"
    text = overlap(analyse_body(tmp_path, arguments, body)).partition("} else {\n")[0]
    waits = [match.start() for match in re.finditer("MPI_Waitall", text)]
    inner = [match.start() for match in re.finditer(re.escape("for (int i = 2; i < n - 2; i++)"), text)]
    begins = [match.start() for match in re.finditer("MPI_Irecv", text)]
    assert len(waits) == len(inner) == 2 and len(begins) == 4
    assert begins[1] < inner[0] < waits[0] < begins[2] and begins[3] < inner[1] < waits[1]


def test_a_branch_of_failed_calls_is_not_looked_at(tmp_path: Path, arguments: list[str]) -> None:
    """May messages be moved whose errors are looked at, and across conditions on what changes among them?"""
    posts = f"if (rank > 0) {{\n{pair('rank - 1', '1', '0')}}}\n".replace("MPI_Send(", "rc = MPI_Send(")
    checked = posts + "if (rc != MPI_SUCCESS) { MPI_Finalize(); }\n"
    assert "late-receive" in names(analyse_body(tmp_path, arguments, f"int rc = 0;\n{checked}{STENCIL}"))


def test_an_empty_block_is_no_obstacle(tmp_path: Path, arguments: list[str]) -> None:
    assert names(analyse_body(tmp_path, arguments, f"for (int k = 0; k < n; k++) {{ }}\n{guarded()}{STENCIL}"))
