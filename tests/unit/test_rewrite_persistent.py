"""Do messages of a loop get persistent requests where they are the same in every iteration, and only there?"""

from __future__ import annotations

from pathlib import Path

import pytest
from rewriting import HEAD, analyse_c

from nearfield.rewrite import Analysis

PARAMETERS = "int n, int steps, double *u, double *v, int up, int down, MPI_Comm comm"
SEND = "MPI_Isend(u + n, n, MPI_DOUBLE, up, 0, comm, &r[0]);\n"
RECEIVE = "MPI_Irecv(u, n, MPI_DOUBLE, down, 0, comm, &r[1]);\n"
WAIT = "MPI_Waitall(2, r, MPI_STATUSES_IGNORE);\n"
WORK = "for (int i = 0; i < n; i++) v[i] = u[i];\n"
LOOP = "for (int s = 0; s < steps; s++) {\n"
BODY = f"{SEND}{RECEIVE}{WAIT}{WORK}"
BARRIER = "MPI_Barrier(comm);\n"
PLAIN = f"MPI_Request r[2];\n{LOOP}{BODY}}}\n"


def analyse_body(
    tmp_path: Path, arguments: list[str], body: str, before: str = "", suffix: str = ".c",
    only: frozenset[str] | None = frozenset({"persistent"}),
) -> Analysis:  # fmt: skip
    text = f"{HEAD}#include <stdlib.h>\nvoid unknown(void);\n{before}\nvoid step({PARAMETERS}) {{\n{body}\n}}\n"
    return analyse_c(tmp_path, arguments, text, f"program{suffix}", transformation_names=only)


def new_text(found: Analysis) -> str:
    """Returns the only patched text."""
    (patch,) = found.patches
    return patch.rewritten


def test_requests_are_created_once_and_freed_behind_the_loop(tmp_path: Path, arguments: list[str]) -> None:
    """Is each message created at its first execution, where it was begun, then started, and freed once?"""
    text = new_text(analyse_body(tmp_path, arguments, PLAIN))
    before, _, rest = text.partition(LOOP)
    inside, _, behind = rest.partition("}\nif (r[0] != MPI_REQUEST_NULL)")
    assert "r[0] = MPI_REQUEST_NULL;\nr[1] = MPI_REQUEST_NULL;\n" in before
    assert "if (r[0] == MPI_REQUEST_NULL)\n    MPI_Send_init(u + n, n, MPI_DOUBLE, up, 0, comm, &r[0]);" in inside
    assert "if (r[1] == MPI_REQUEST_NULL)\n    MPI_Recv_init(u, n, MPI_DOUBLE, down, 0, comm, &r[1]);" in inside
    assert inside.index("MPI_Start(&r[0]);") < inside.index("MPI_Start(&r[1]);") < inside.index(WAIT.strip())
    assert "MPI_Isend" not in text and "MPI_Irecv" not in text
    assert behind.count("MPI_Request_free(&r[") == text.count("MPI_Request_free") == 2


def test_the_gain_is_not_made_up(tmp_path: Path, arguments: list[str]) -> None:
    (patch,) = analyse_body(tmp_path, arguments, PLAIN).patches
    assert (
        patch.expected_gain.message_times is None
        and "no scenario of a profile measures" in patch.expected_gain.unknown_reason
    )
    assert not patch.assumptions


def test_requests_are_persistent_only_if_the_user_names_it(tmp_path: Path, arguments: list[str]) -> None:
    """Does a plain analysis leave out patches whose gain nothing says, and reasons why there are none?"""
    found = analyse_body(tmp_path, arguments, PLAIN, only=None)
    assert "persistent" not in {patch.transformation for patch in found.patches}
    assert not any("persistent" in missed.reason for missed in found.missed)


def test_elements_of_an_array_parameter_may_change(tmp_path: Path, arguments: list[str]) -> None:
    """Does a parameter that is written as an array count as a pointer, through which others may write?"""
    body = PLAIN.replace("up,", "peers[1],")
    before = f"void other({PARAMETERS}, int peers[2]) {{\n{body}\n}}\n"
    found = analyse_body(tmp_path, arguments, "", before)
    assert not any("MPI_Send_init" in patch.rewritten for patch in found.patches)
    assert "peers[1] is in memory that may change" in "".join(one.reason for one in found.missed)
    assert "MPI_Send_init" in new_text(analyse_body(tmp_path, arguments, f"int peers[2] = {{up, down}};\n{body}"))


def test_an_array_of_statuses_may_be_filled(tmp_path: Path, arguments: list[str]) -> None:
    """Are statuses that nothing reads no reason to refuse, and those that something reads one?"""
    body = f"MPI_Status all[2];\n{PLAIN}".replace("MPI_STATUSES_IGNORE", "all")
    assert analyse_body(tmp_path, arguments, body).patches
    assert not analyse_body(tmp_path, arguments, f"{body}steps = all[0].MPI_TAG;\n").patches


def test_each_loop_gets_an_array_of_requests(tmp_path: Path, arguments: list[str]) -> None:
    """Are the new requests of each loop counted from 0, in an array that is long enough?"""
    body = f"{LOOP}MPI_Send(u, n, MPI_INT, up, 0, comm);\n}}\n"
    patches = analyse_body(tmp_path, arguments, body + body).patches
    texts = [patch.rewritten for patch in patches]
    assert len(texts) == 2 and all("MPI_Request nearfield_requests" in one and "[1] = MPI" not in one for one in texts)
    assert "nearfield_requests2[0] = MPI_REQUEST_NULL" in texts[1]


GUARDED = f"MPI_Request r[2];\n{LOOP}if (up > 0) {{\n{BODY}}}\n}}\n"
ALLOWED = {
    "a condition that never changes": (GUARDED, "if (up > 0) {"),
    "a wait behind a condition": (
        f"MPI_Request r[2];\n{LOOP}if (s % 2) {{ {SEND} }}\n{WORK}MPI_Wait(&r[0], MPI_STATUS_IGNORE);\n}}",
        "MPI_Send_init",
    ),
    "a branch without braces": (
        f"{LOOP}if (up > 0)\n    MPI_Send(u, n, MPI_INT, up, 0, comm);\n}}", "MPI_Start(&nearfield_requests[0]);"),
    "a blocking receive from any rank": (
        f"MPI_Status status;\n{LOOP}MPI_Recv(u, n, MPI_DOUBLE, MPI_ANY_SOURCE, 0, comm, &status);\n}}",
        "MPI_Wait(&nearfield_requests[0], MPI_STATUS_IGNORE);"),
    "a condition that depends on the step": (
        f"MPI_Request r[2];\n{LOOP}if (s > 2) {{\n{BODY}}}\n}}", "MPI_Start(&r[1])"),
    "a value that only some paths set": (
        f"int to;\nif (n > 3) to = up;\n{PLAIN.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, to')}", "to, 0"),
    "an unknown function, and MPI is used behind the loop": (
        PLAIN.replace(WORK, f"{WORK}unknown();\n") + "MPI_Barrier(comm);\n", "MPI_Start(&r[1])"),
    "break in an inner loop": (
        PLAIN.replace(WAIT, f"for (int k = 0; k < 3; k++) {{ if (v[k] > 1) continue; break; }}\n{WAIT}"),
        "MPI_Start(&r[1])"),
    "an exchange": (
        f"{LOOP}MPI_Sendrecv(u, n, MPI_DOUBLE, up, 0, v, n, MPI_DOUBLE, down, 0, comm, MPI_STATUS_IGNORE);\n}}",
        "MPI_Startall(2, &nearfield_requests[0]);"),
    "requests that the loop declares": (f"{LOOP}MPI_Request r[2];\n{BODY}}}", "MPI_Start(&r[1])"),
    "break between iterations": (PLAIN.replace(WORK, f"{WORK}if (v[0] > 1) break;\n"), "MPI_Start(&r[1])"),
    "a loop inside a loop": (f"MPI_Request r[2];\n{LOOP}for (int k = 0; k < 3; k++) {{\n{BODY}}}\n}}", "MPI_Start"),
    "an array of neighbours": (
        f"int to[2]; to[0] = up;\n{PLAIN.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, to[0]')}", "to[0], 0, comm"),
    "a rank that MPI gives": (
        f"int me;\nMPI_Comm_rank(comm, &me);\n{PLAIN.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, me + 1')}", "me + 1"),
    "a value of either branch": (
        f"int to;\nif (n > 3) to = up; else to = down;\n{PLAIN.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, to')}", "to, 0"),
    "the loop of a while": (PLAIN.replace(LOOP, "int s = 0;\nwhile (s++ < steps) {\n"), "MPI_Start"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_messages_that_stay_the_same_are_started(name: str, tmp_path: Path, arguments: list[str]) -> None:
    body, wanted = ALLOWED[name]
    assert wanted in new_text(analyse_body(tmp_path, arguments, body))


def changed(old: str, new: str) -> str:
    """Returns the plain loop with a part replaced."""
    assert old in PLAIN, old
    return PLAIN.replace(old, new)


TO = changed("MPI_DOUBLE, up", "MPI_DOUBLE, to").replace("MPI_DOUBLE, down", "MPI_DOUBLE, to")
U = changed(RECEIVE, "").replace("Waitall(2, r, MPI_STATUSES_IGNORE)", "Wait(&r[0], MPI_STATUS_IGNORE)")
# Loops whose messages must keep their requests: what stands before the function, its body, and a part of the reason.
TRAPS = {
    "pointers are swapped": ("", U.replace(WORK, f"{WORK}double *t = u; u = v; v = t;\n"), "u changes"),
    "pointers are swapped by a call": (
        "void swap(double **a, double **b) { double *t = *a; *a = *b; *b = t; }",
        U.replace(WORK, f"{WORK}swap(&u, &v);\n"), "u may change"),
    "memory is allocated anew": ("", U.replace(WORK, "u = realloc(u, n);\n"), "u changes"),
    "the count changes": ("", U.replace(WORK, f"{WORK}n--;\n"), "n changes"),
    "the tag is the step": ("", U.replace("up, 0", "up, s"), "s is declared in the loop"),
    "the tag is the step of a while": (
        "", U.replace(LOOP, "int s = 0;\nwhile (s < steps) {\ns++;\n").replace("up, 0", "up, s"), "s changes"),
    "the buffer depends on the step": ("", U.replace("u + n,", "s % 2 ? u : v,"), "s is declared in the loop"),
    "the buffer is declared in the loop": ("", U.replace(SEND, f"double w[4];\n{SEND.replace('u + n', 'w')}"),
                                           "w is declared in the loop"),
    "the peer has its value in the loop": ("", f"int to;\n{U.replace(SEND, 'to = up;' + SEND.replace('up', 'to'))}",
                                           "to changes"),
    "the peer is written through a pointer": ("", f"int to = up; int *p = &to;\n{TO.replace(WORK, '*p = 3;')}",
                                              "to may change after"),
    "the peer is received": ("", f"int to = up;\n{TO.replace(WORK, 'MPI_Bcast(&to, 1, MPI_INT, 0, comm);')}",
                             "to may change"),
    "the peer is an element that changes": (
        "", f"int to[2] = {{0}};\n{U.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, to[0]').replace(WORK, 'to[0]++;')}",
        "to[0] may change"),
    "the peer is behind a pointer": (
        "", f"int *to = malloc(8);\n{U.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, to[0]')}", "memory that may change"),
    "a global variable that a function changes": (
        "static int peer; static void next(void) { peer++; }",
        U.replace("MPI_DOUBLE, up", "MPI_DOUBLE, peer").replace(WORK, "next();\n"), "peer is no local number"),
    "a global variable of another file": (
        "extern int peer;", U.replace("MPI_DOUBLE, up", "MPI_DOUBLE, peer"), "peer is no local number"),
    "a global variable and an unknown function": (
        "static int peer; void next(void);",
        U.replace("MPI_DOUBLE, up", "MPI_DOUBLE, peer").replace(WORK, "next();\n") + BARRIER,
        "peer is no local number"),
    "a communicator that changes": ("", U.replace(WORK, "MPI_Comm_dup(comm, &comm);\n"), "comm may change"),
    "a datatype that is freed": (
        "", "MPI_Datatype t; MPI_Type_contiguous(2, MPI_INT, &t); MPI_Type_commit(&t);\n"
        + U.replace("MPI_DOUBLE", "t").replace(WORK, "MPI_Type_free(&t);\n"), "t may change"),
    "a function computes the peer": (
        "static int calls; int next(void) { return calls++; }", U.replace("MPI_DOUBLE, up", "MPI_DOUBLE, next()"),
        "next() may have another value"),
    "return leaves the loop": ("", U.replace(WORK, f"{WORK}if (v[0] > 1) return;\n"), "the loop contains return"),
    "goto leaves the loop": ("", U.replace(WORK, f"{WORK}if (v[0] > 1) goto end;\n") + "end: v[0] = 1;",
                             "goto or a label"),
    "break skips the wait": ("", changed(WAIT, f"if (v[0] > 1) break;\n{WAIT}"), "no MPI_Wait or MPI_Waitall surely"),
    "continue skips the wait": ("", changed(WAIT, f"if (v[0] > 1) continue;\n{WAIT}"), "no MPI_Wait or MPI_Waitall"),
    "the wait is in the next iteration": (
        "", f"MPI_Request r[2] = {{MPI_REQUEST_NULL, MPI_REQUEST_NULL}};\n{LOOP}{WAIT}{SEND}{RECEIVE}}}\n{WAIT}",
        "no MPI_Wait or MPI_Waitall surely"),
    "the wait is behind the loop": ("", f"MPI_Request r[2];\n{LOOP}{SEND}{WORK}}}\n{WAIT}", "no MPI_Wait"),
    "the wait is under another condition": (
        "", changed(WAIT, f"if (down > 0) {{ {WAIT} }}"), "no MPI_Wait or MPI_Waitall surely"),
    "the wait is for fewer requests": (
        "", f"MPI_Request r[2];\n{LOOP}{RECEIVE}MPI_Waitall(1, r, MPI_STATUSES_IGNORE);\n}}", "no MPI_Wait"),
    "the wait tests": ("", changed(WAIT, "int f = 0; while (!f) MPI_Testall(2, r, &f, MPI_STATUSES_IGNORE);"),
                       "the request is used at line"),
    "two messages share a request": (
        "", f"MPI_Request r[2];\n{LOOP}{SEND}{WAIT}{SEND}{WAIT}}}",
        "the request is also used"),
    "the request is active before the loop": (
        "", f"MPI_Request r[2];\nMPI_Irecv(v, 1, MPI_INT, up, 1, comm, &r[0]);\n{LOOP}{SEND}"
        "MPI_Wait(r, MPI_STATUS_IGNORE);\n}\n", "also used at line"),
    "the request is cancelled": ("", changed(WAIT, f"MPI_Cancel(&r[0]);\n{WAIT}"), "the request is used at line"),
    "the request is compared": ("", changed(WAIT, f"{WAIT}if (r[0] != MPI_REQUEST_NULL) v[0] = 1;\n"),
                                "the request is used at line"),
    "the request is copied": ("", changed(WAIT, f"MPI_Request c = r[0];\n{WAIT}"), "the request is used at line"),
    "the request is one of many": ("", U.replace("&r[0]", "&r[n]"), "which request"),
    "the request is behind a pointer": ("", U.replace("MPI_Request r[2];", "MPI_Request *r = malloc(16);"),
                                        "which request"),
    "the request is static": ("", PLAIN.replace("MPI_Request r", "static MPI_Request r"),
                              "r is no variable of this function"),
    "the result is used": ("", U.replace("MPI_Isend", "int rc = MPI_Isend"), "its result is used"),
    "a macro hides the call": ("#define SHIFT(p) MPI_Isend(p, n, MPI_DOUBLE, up, 0, comm, &r[0])",
                               U.replace(SEND, "SHIFT(u);\n"), "a macro hides the call"),
    "the status of an exchange is read": (
        "", f"MPI_Status s1;\n{LOOP}MPI_Sendrecv(u, n, MPI_INT, up, 0, v, n, MPI_INT, down, 0, comm, &s1);\n"
        "v[0] = s1.MPI_TAG;\n}", "its status is read"),
    "a directive decides": ("", U.replace(SEND, f"#ifndef QUIET\n{SEND}#endif\n"), "a directive of the preprocessor"),
    "a macro changes in the loop": ("#define W 3\n", U.replace(WORK, "#undef W\n#define W 4\n"), "stands in the loop"),
    "threads": ("", f"#pragma omp parallel\n{{\n{U}}}\n", "a pragma stands above it"),
    "the loop is a branch": ("", f"MPI_Request r[2];\nif (up > 0)\n{U[len('MPI_Request r[2];'):]}", "in a block"),
    "a condition around the wait": (
        "", f"MPI_Request r[2];\n{LOOP}if (up > 0) {{ {SEND} }}\nif (up > 0) MPI_Wait(&r[0], MPI_STATUS_IGNORE);\n}}",
        "no MPI_Wait or MPI_Waitall surely"),
    "continue in a switch skips the wait": (
        "", changed(WAIT, f"switch (n) {{ case 3: if (v[0] > 1) continue; }}\n{WAIT}"), "no MPI_Wait or MPI_Waitall"),
    "the peer is behind a pointer to it": ("", f"int *to = malloc(8);\n{TO.replace('to, 0', '*to, 0')}",
                                           "*to may have another value"),
    "the peer arrives while the loop is executed": (
        "", f"int to = up; MPI_Request q;\nMPI_Irecv(&to, 1, MPI_INT, down, 1, comm, &q);\n"
        f"{TO.replace(WORK, 'MPI_Wait(&q, MPI_STATUS_IGNORE);')}", "to may change after"),
    "an element arrives while the loop is executed": (
        "", "int to[2] = {up, up}; MPI_Request q;\nMPI_Irecv(to, 1, MPI_INT, down, 1, comm, &q);\n"
        f"{TO.replace('to, 0', 'to[0], 0').replace(WORK, 'MPI_Wait(&q, MPI_STATUS_IGNORE);')}",
        "to[0] may change after"),
    "a function keeps the address of the peer": (
        "static int *at; void keep(int *p) { at = p; } void next(void) { ++*at; }",
        f"int to = up;\nkeep(&to);\n{TO.replace(WORK, 'next();')}", "to may change after"),
    "the count is volatile": ("", f"volatile int k = n;\n{U.replace('u + n, n', 'u, k')}", "k is volatile"),
    "a member of a structure that a function fills": (
        "struct peers { int up; }; void fill(struct peers *p);",
        f"struct peers p;\nfill(&p);\n{U.replace('MPI_DOUBLE, up', 'MPI_DOUBLE, p.up')}", "p.up may change after"),
    "the status of a wait is read": (
        "", U.replace("MPI_Request r[2];", "MPI_Request r[2]; MPI_Status t;").replace("MPI_STATUS_IGNORE", "&t")
        .replace(WORK, "v[0] = t.MPI_SOURCE;\n"), "the status is read"),
    "the status of a receive is read": (
        "", f"MPI_Status t;\n{LOOP}MPI_Recv(u, n, MPI_INT, up, 0, comm, &t);\nv[0] = t.MPI_SOURCE;\n}}",
        "its status is read"),
    "the request decides how many are waited for": (
        "", changed("MPI_Waitall(2,", "MPI_Waitall(r[0] == MPI_REQUEST_NULL ? 1 : 2,"), "the request is used at line"),
    "a name in the loop that the declaration would hide": (
        "static int r;", f"{LOOP}v[0] += r;\nMPI_Request r[2];\n{BODY}}}", "its name occurs elsewhere"),
    "a name behind the loop that the declaration would hide": (
        "static int r;", f"{LOOP}MPI_Request r[2];\n{BODY}}}\nv[0] += r;", "its name occurs elsewhere"),
    "a declaration with requests that are set anew": (
        "", f"{LOOP}MPI_Request r[2] = {{MPI_REQUEST_NULL, MPI_REQUEST_NULL}};\n"
        f"{SEND}if (s == 0) MPI_Irecv(v, n, MPI_DOUBLE, s, 0, comm, &r[1]);\n{WAIT}}}", "could not be proved"),
    "a macro of two arguments": (
        "#define TO up, 0\n",
        f"{LOOP}MPI_Sendrecv(u, n, MPI_INT, TO, v, n, MPI_INT, down, 0, comm, MPI_STATUS_IGNORE);\n}}",
        "hides its arguments"),
    "a macro of two arguments, and a comma in a comment": (
        "#define TO up, 0\n",
        f"{LOOP}MPI_Sendrecv(u, n /* of n, */, MPI_INT, TO, v, n, MPI_INT, down, 0, comm, MPI_STATUS_IGNORE);\n}}",
        "hides its arguments"),
    "a request with a cleanup": (
        "void end(MPI_Request *r);", f"{LOOP}MPI_Request r __attribute__((cleanup(end)));\n"
        f"{SEND.replace('[0]', '')}MPI_Wait(&r, MPI_STATUS_IGNORE);\n}}", "or no request"),
    "threads behind a comment": ("", f"#pragma omp parallel\n// each thread\n{{\n{U}}}\n", "a pragma stands above it"),
    "threads on two lines": (
        "", f"#pragma omp parallel \\\n  default(shared)\n{{\n{U}}}\n", "a pragma stands above it"),
    "a loop in a switch": ("", f"MPI_Request r[2];\nswitch (n) {{ case 3: {{\n{PLAIN}}} }}", "of the kind case"),
    "MPI ends in the loop": (
        "", U.replace(WORK, f"{WORK}if (v[0] > 1) {{ MPI_Finalize(); break; }}\n"), "the loop calls MPI_Finalize"),
    "MPI ends in a function": (
        "static void end(int k) { if (k) MPI_Finalize(); else exit(1); }",
        U.replace(WORK, f"{WORK}if (v[0] > 1) {{ end(1); break; }}\n"), "the loop calls MPI_Finalize"),
    "MPI may end in an unknown function": (
        "void end(void);", U.replace(WORK, f"{WORK}if (v[0] > 1) {{ end(); break; }}\n"), "may end the use of MPI"),
    "MPI may end before a return": (
        "void end(void);", U.replace(WORK, f"{WORK}if (v[0] > 1) {{ end(); break; }}\n")
        + "if (v[0] > 1) return;\nMPI_Barrier(comm);\n", "may end the use of MPI"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_messages_that_may_differ_keep_their_requests(name: str, tmp_path: Path, arguments: list[str]) -> None:
    before, body, said = TRAPS[name]
    found = analyse_body(tmp_path, arguments, body, before)
    assert not found.patches, found.patches[0].rewritten
    assert any(said in one.reason for one in found.missed), found.missed


def test_a_reference_may_be_another_variable(tmp_path: Path, arguments: list[str]) -> None:
    found = analyse_body(tmp_path, arguments, f"int &to = up;\n{TO}", suffix=".cpp")
    assert not found.patches and any("to is a reference" in one.reason for one in found.missed)


IN_CPLUSPLUS = {
    "a lambda keeps a reference": (
        f"int to = up;\nauto next = [&] {{ to++; }};\n{TO.replace(WORK, 'next();')}{BARRIER}", "to may change after"),
    "a lambda stores an element": (
        f"int to[2] = {{up, up}};\nauto next = [&] {{ to[0]++; }};\n"
        f"{TO.replace('to, 0', 'to[0], 0').replace(WORK, 'next();')}{BARRIER}", "to[0] may change after"),
    "a reference to an element": (
        f"int to[2] = {{up, up}}; int &t = to[0];\n{TO.replace('to, 0', 'to[0], 0').replace(WORK, 't++;')}",
        "to[0] may change after"),
    "the request is a reference": (
        "MPI_Request q; MPI_Request &r = q;\n"
        f"{LOOP}{SEND.replace('[0]', '')}MPI_Wait(&r, MPI_STATUS_IGNORE);\n}}", "no request"),
    "an exception leaves the loop": (U.replace(WORK, f"{WORK}if (v[0] > 1) throw 1;\n"), "the loop contains throw"),
    "an exception of a function leaves the loop": (
        U.replace(WORK, f"{WORK}check(n);\n"), "may throw an exception"),
    "an exception of an unknown function leaves the loop": (
        U.replace(WORK, f"{WORK}unknown();\n") + BARRIER, "unknown, which may throw"),
    "an exception of a container leaves the loop": (
        f"std::vector<double> x(n);\n{U.replace(WORK, 'v[0] = x.at(n);')}", "at, which may throw"),
    "a loop in a lambda": (
        f"static double g[4];\nauto run = [&] {{\n{LOOP}MPI_Send(g, 1, MPI_INT, 0, 0, MPI_COMM_SELF);\n}}\n}};\nrun();",
        "of the kind lambda"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_CPLUSPLUS)
def test_messages_of_cplusplus_that_may_differ_keep_their_requests(
    name: str, tmp_path: Path, arguments: list[str]
) -> None:
    body, said = IN_CPLUSPLUS[name]
    before = "#include <vector>\nvoid check(int k) { if (k > 7) throw k; }"
    found = analyse_body(tmp_path, arguments, body, before, suffix=".cpp")
    assert not found.patches, found.patches[0].rewritten
    assert any(said in one.reason for one in found.missed), found.missed


def test_functions_of_cplusplus_that_throw_nothing_may_stand_in_the_loop(tmp_path: Path, arguments: list[str]) -> None:
    work = 'twice(n); for (int i = 0; i < n; i++) x[i] = std::sqrt(u[i]) + x.size(); printf("%g", x[0]);\n'
    before = "#include <cmath>\n#include <vector>\nstatic int twice(int k) { return 2 * k; }"
    body = f"std::vector<double> x(n);\n{PLAIN.replace(WORK, work)}"
    assert "MPI_Start(&r[1])" in new_text(analyse_body(tmp_path, arguments, body, before, suffix=".cpp"))
