"""Does a wait move down to the first statement that needs it, and no further?"""

from __future__ import annotations

from pathlib import Path

import pytest
from rewriting import HEAD, analyse_c

PARAMETERS = "int n, double *restrict a, double *restrict b, double *restrict c, int up, int down"
BEGIN = """MPI_Irecv(a, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r[0]);
MPI_Isend(a + n, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r[1]);
"""
WAIT = "MPI_Waitall(2, r, MPI_STATUSES_IGNORE);\n"
FREE = "for (int i = 0; i < n; i++) c[i] += b[i];\n"
USE = "for (int i = 0; i < n; i++) b[i] = a[i];\n"
SENT = "for (int i = 0; i < n; i++) c[i] = a[n + i];\n"
# What follows the wait, and in front of which statement the wait then stands.
MOVED = {
    "in front of what reads the received data": (FREE + USE, USE),
    "behind loops that only read what is sent": (SENT + USE, USE),
    "in front of what writes the sent data": (
        f"{FREE}for (int i = 0; i < n; i++) a[n + i] = 0;\n", "for (int i = 0; i < n; i++) a[n + i] = 0;\n"),
    "in front of a reduction": (
        f"{FREE}MPI_Allreduce(MPI_IN_PLACE, b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);\n", "MPI_Allreduce"),
    "in front of another message": (
        f"{FREE}MPI_Send(b, n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD);\n", "MPI_Send(b"),
    "in front of a barrier": (f"{FREE}MPI_Barrier(MPI_COMM_WORLD);\n", "MPI_Barrier"),
    "in front of an unknown function": (f"{FREE}unknown();\n{USE}", "unknown();"),
    "in front of the time": (f"{FREE}b[0] = MPI_Wtime();\n", "b[0] = MPI_Wtime"),
    "in front of return": (f"{FREE}if (n) return;\n{USE}", "if (n) return"),
}  # fmt: skip
# What follows the wait, where nothing can be passed.
STAYS = {
    "the next statement reads what arrives": USE + FREE,
    "the next statement overwrites what is sent": f"for (int i = 0; i < n; i++) a[n + i] = 0;\n{FREE}",
    "the next statement communicates": f"MPI_Send(b, n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD);\n{FREE}",
    "the next statement begins a message": f"MPI_Irecv(c, n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &r[1]);\n{FREE}{WAIT}",
    "the next statement is unknown": f"unknown();\n{FREE}",
    "the next statement takes the time": f"b[0] = MPI_Wtime();\n{FREE}",
    "the next statement changes a pointer": f"c = b;\n{FREE}",
    "the next statement may leave the function": f"if (n) return;\n{FREE}",
    "nothing follows": "",
}


def test_a_constant_number_is_one_variable(tmp_path: Path, arguments: list[str]) -> None:
    """Is a local constant, whose name is also its only one, no reason to refuse?"""
    body = f"const int n = 16;\nMPI_Request r[2];\n{BEGIN}{WAIT}{FREE}{USE}"
    text = f"{HEAD}void step({PARAMETERS.replace('int n, ', '')}) {{\n{body}}}\n"
    assert analyse_c(tmp_path, arguments, text, transformation_names=frozenset({"late-wait"})).patches


def read(tmp_path: Path, arguments: list[str], after: str, wait: str = WAIT, before: str = "") -> list[str]:
    body = f"MPI_Request r[2];\nMPI_Status s[2];\n{BEGIN}{wait}{after}"
    text = f"{HEAD}#include <string.h>\n{before}void unknown(void);\nvoid step({PARAMETERS}) {{\n{body}}}\n"
    found = analyse_c(tmp_path, arguments, text, transformation_names=frozenset({"late-wait"}))
    assert all(patch.expected_gain.message_times is None for patch in found.patches)
    return [patch.rewritten for patch in found.patches]


@pytest.mark.parametrize("name", MOVED)
def test_a_wait_moves_to_the_first_statement_that_needs_it(name: str, tmp_path: Path, arguments: list[str]) -> None:
    """Is the wait directly in front of this statement, and is it the only line that has moved?"""
    after, needs = MOVED[name]
    (text,) = read(tmp_path, arguments, after)
    assert f"{WAIT}{needs}" in text
    assert text.replace(WAIT, "", 1) == f"{text.partition(BEGIN)[0]}{BEGIN}{after}}}\n"


@pytest.mark.parametrize("name", STAYS)
def test_a_wait_stays_where_it_is(name: str, tmp_path: Path, arguments: list[str]) -> None:
    assert not read(tmp_path, arguments, STAYS[name])


def test_no_wait_moves_for_some_sizes_only(tmp_path: Path, arguments: list[str]) -> None:
    """Where an order is legal only if sizes are not degenerate, is there no second copy of the original?"""
    after = (
        f"{FREE}MPI_Waitall(1, r + 1, MPI_STATUSES_IGNORE);\nfor (int i = 0; i < n; i++) b[i] += 1;\n"
        "for (int i = 0; i < n; i++) a[i + n] = 0;\nfor (int i = 0; i < n; i++) c[i] += a[i];\n"
    )
    body = (
        f"MPI_Request r[2];\n{BEGIN.replace('n, MPI_DOUBLE', '1, MPI_DOUBLE')}MPI_Waitall(1, r, MPI_STATUSES_IGNORE);\n"
    )
    text = f"{HEAD}void step({PARAMETERS}) {{\n{body}{after}}}\n"
    texts = [
        one.rewritten
        for one in analyse_c(tmp_path, arguments, text, transformation_names=frozenset({"late-wait"})).patches
    ]
    assert texts and not any("else" in text for text in texts)


# Waits of which it is not known which messages they complete, in front of a loop that reads what arrives, or not.
UNKNOWN = {
    "requests change places": (
        "", "MPI_Request t;\nmemcpy(&t, &r[0], sizeof t); memcpy(&r[0], &r[1], sizeof t);\n"
        "memcpy(&r[1], &t, sizeof t);\nMPI_Wait(&r[1], MPI_STATUS_IGNORE);\n",
        USE + "MPI_Wait(&r[0], MPI_STATUS_IGNORE);\n"),
    "requests are assigned": (
        "", "MPI_Request t = r[0]; r[0] = r[1]; r[1] = t;\nMPI_Wait(&r[1], MPI_STATUS_IGNORE);\n",
        USE + "MPI_Wait(&r[0], MPI_STATUS_IGNORE);\n"),
    "a loop of tests may not be executed": (
        "", f"int f = n & 1;\nwhile (!f) MPI_Test(&r[0], &f, MPI_STATUS_IGNORE);\n{WAIT}", USE),
    "a wait under a condition": ("", f"if (n > 3) MPI_Wait(&r[0], MPI_STATUS_IGNORE);\n{WAIT}", USE),
    "a wait in a block": ("", f"{{ if (n > 3) MPI_Wait(&r[0], MPI_STATUS_IGNORE); }}\n{WAIT}", USE),
    "a function waits": ("static void finish(MPI_Request *q) { MPI_Waitall(2, q, MPI_STATUSES_IGNORE); }\n",
                         "finish(r);\n", FREE + USE),
    "a function may keep the requests": ("void keep(MPI_Request *q);\n", f"keep(r);\n{WAIT}", FREE + USE),
    "the number of requests is computed": ("", "int k = 2;\nMPI_Waitall(k, r, MPI_STATUSES_IGNORE);\n", FREE + USE),
    "a status is read": ("", "MPI_Waitall(2, r, s);\n", f"{FREE}b[0] = s[0].MPI_TAG;\n"),
    "two waits set the same status": (
        "", "MPI_Wait(&r[1], s);\nMPI_Wait(&r[0], s);\n", f"{FREE}b[0] = s[0].MPI_TAG;\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_wait_for_messages_that_are_not_known_stays(name: str, tmp_path: Path, arguments: list[str]) -> None:
    before, wait, after = UNKNOWN[name]
    assert not read(tmp_path, arguments, after, wait, before)


def test_a_status_is_not_read_before_the_wait(tmp_path: Path, arguments: list[str]) -> None:
    """Does a statement that reads the status, or the request, hold the wait?"""
    wait = "MPI_Waitall(2, r, s);\n"
    reads = "for (int i = 0; i < n; i++) b[i] = s[0].MPI_TAG;\n"
    assert not read(tmp_path, arguments, f"{reads}{FREE}", wait)
