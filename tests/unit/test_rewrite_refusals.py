"""Is each condition refused under which an order could be wrong? Each case breaks one of them only.

tests/injected_bugs/rewrite_refusals.toml takes each condition away, and names the case that then fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewrite_step import EXCHANGE, SIDES, SWEEP, read

USE = "for (int i = 1; i <= n; i++) w[i] = u[i - 1];\n"
RECEIVE = "MPI_Irecv(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, {});\n"
WAIT = "MPI_Wait({}, MPI_STATUS_IGNORE);\n"
WAITALL = "MPI_Waitall({}, {}, MPI_STATUSES_IGNORE);\n"
INIT = "MPI_Recv_init(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r);\n"
NUMBER = "MPI_Recv(&{}, 1, MPI_LONG, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
READ = "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];\n"

# By name: the suffix of the file, what stands before the function, its body, and a part of the reason.
MESSAGES = {
    "a loop of tests with another end": (
        ".c", "", f"MPI_Request r; int f = 0, g = 0;\n{RECEIVE.format('&r')}{SWEEP}"
        f"while (!f) MPI_Test(&r, &g, MPI_STATUS_IGNORE);\n{USE}", "it tests messages in a loop with another end"),
    "an argument that changes a variable": (
        ".c", "", f"int tag = 0;\nMPI_Send(u + n, 1, MPI_DOUBLE, up, tag++, MPI_COMM_WORLD);\n{SWEEP}{USE}",
        "an argument of its call changes something"),
    "persistent requests of another function": (
        ".c", "", f"MPI_Request r = MPI_REQUEST_NULL;\nMPI_Start(&r);\n{WAIT.format('&r')}{SWEEP}{USE}",
        "it starts requests that were made elsewhere"),
    "a persistent request for a container": (
        ".cpp", "#include <vector>\n", "std::vector<double> x(n + 2); MPI_Request r;\n"
        f"{INIT.replace('u, 1', 'x.data(), 1')}x.resize(n * 9);\nMPI_Start(&r);\n{WAIT.format('&r')}"
        "for (int i = 1; i <= n; i++) v[i] = w[i];\nfor (int i = 1; i <= n; i++) w[i] = x[i - 1];",
        "x may have changed since"),
    "a persistent request whose count changes": (
        ".c", "", "struct { int count; } s = {1}, *p = &s; MPI_Request r;\n"
        f"{INIT.replace('u, 1', 'u, p->count')}p->count = 3;\nMPI_Start(&r);\n{WAIT.format('&r')}{SWEEP}{USE}",
        "count may have changed since"),
    "a message of another block": (
        ".c", "", f"MPI_Request r;\n{RECEIVE.format('&r')}if (n > 3) return;\n{SWEEP}{WAIT.format('&r')}{USE}",
        "it completes messages that were begun elsewhere"),
    "a wait for a request at an unknown index": (
        ".c", "", f"MPI_Request r[2];\n{SIDES}{WAIT.format('&r[n % 2]')}{SWEEP}{USE}",
        "which messages it completes is known only when it runs"),
    "a wait for one of the requests at unknown indices": (
        ".c", "", f"MPI_Request r[2] = {{MPI_REQUEST_NULL, MPI_REQUEST_NULL}};\n{RECEIVE.format('&r[n % 2]')}"
        f"{WAIT.format('&r[0]')}{SWEEP}{USE}", "which messages it completes is known only when it runs"),
    "a wait for a part of the requests": (
        ".c", "", f"MPI_Request r[2] = {{MPI_REQUEST_NULL, MPI_REQUEST_NULL}};\n{RECEIVE.format('&r[n % 2]')}"
        f"{WAITALL.format(1, 'r')}{SWEEP}{USE}", "it may complete only some of the messages of its requests"),
    "requests of the whole file": (
        ".c", "static MPI_Request r[3];\n", f"{SIDES}{WAITALL.format(3, 'r')}{SWEEP}{USE}",
        "r is no variable of this function"),
    "requests that outlive the function": (
        ".c", "", f"static MPI_Request r[3];\n{SIDES}{WAITALL.format(3, 'r')}{SWEEP}{USE}",
        "r is no variable of this function"),
    "requests behind a pointer": (
        ".c", "", f"MPI_Request all[3], *r = all;\n{SIDES}{WAITALL.format(3, 'r')}{SWEEP}{USE}",
        "what else r stands for is not known"),
    "requests in a structure": (
        ".c", "", "struct { MPI_Request r[3]; } s;\n" + (SIDES + WAITALL.format(3, "r")).replace("r[", "s.r[")
        .replace("3, r", "3, s.r") + SWEEP + USE, "what else s.r stands for is not known"),
}  # fmt: skip

# Memory that is received into, and read by another name.
POINTERS = {
    "a structure and its member": (
        ".c", "struct pair { double x[4], y; };\n", "struct pair a[2] = {0}, b;\n"
        f"{EXCHANGE.replace('u, 1', 'a[0].x, 1')}b = a[0];\nfor (int i = 1; i <= n; i++) v[i] = w[i] + b.x[0];", ""),
    "two members that are pointers": (
        ".c", "", f"struct {{ double *p, *q; }} s = {{v, v}};\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) s.p[i] = u[i - 1] + s.q[i - 1];", "s.q and s.p may overlap"),
    "a member behind a pointer and an array": (
        ".c", "struct one { double x; };\n", "struct one *p = (struct one *)u;\n"
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p->x;", "u and p->x may overlap"),
    "the same member behind two pointers": (
        ".c", "struct pair { long x, y; };\n", f"struct pair a = {{1, 2}}, *p = &a, *q = &a;\n{NUMBER.format('p->x')}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + q->x;", "p->x and q->x may overlap"),
    "a member and the same one behind a pointer": (
        ".c", "struct pair { long x, y; };\n", f"struct pair a = {{1, 2}}, *p = &a;\n{NUMBER.format('a.x')}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p->x;", "a.x and p->x may overlap"),
    "a pointer of unknown origin into a global array": (
        ".c", "double g[64]; double *get(void);\n", f"double *p = get();\n{EXCHANGE.replace('u, 1', 'g, 1')}{READ}",
        "g and p may overlap"),
    "a pointer of unknown origin to a global variable": (
        ".c", "double g; double *get(void);\n", f"double *p = get();\n{EXCHANGE.replace('u, 1', '&g, 1')}{READ}",
        "g and p may overlap"),
    "a pointer to the same array": (".c", "", f"double *p = u;\n{EXCHANGE}{READ}", "u and p may overlap"),
    "an array whose address is stored": (
        ".c", "double *get(void); void keep(double *);\n", f"keep(u);\ndouble *p = get();\n{EXCHANGE}{READ}",
        "u and p may overlap"),
    "a variable whose address is stored": (
        ".c", "", f"double x = 0, *p = &x;\n{EXCHANGE.replace('u, 1', '&x, 1')}{READ}", "x and p may overlap"),
    "two parameters": (
        ".c", "static void half(double *x, double *y, int up, int n) {\n"
        "MPI_Recv(x, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) y[i] = 0.5 * x[i - 1];\n}\n", "half(u, u, up, n);", "x and y may overlap"),
    "a parameter and a global array": (
        ".c", "double g[64];\nstatic void half(double *x, int up, int n) {\n"
        "MPI_Recv(g, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) x[i] = 0.5 * g[i - 1];\n}\n", "half(g, up, n);", "g and x may overlap"),
    "a number without sign and one with sign": (
        ".c", "", "unsigned long x = 0; long *p = (long *)&x;\n"
        f"{EXCHANGE.replace('u, 1, MPI_DOUBLE', '&x, 1, MPI_UNSIGNED_LONG')}{READ}", "x and p may overlap"),
    "a number and its bytes": (
        ".c", "", f"double x = 0; char *p = (char *)&x;\n{EXCHANGE.replace('u, 1', '&x, 1')}{READ}",
        "x and p may overlap"),
    "a complex number and its parts": (
        ".c", "", "double _Complex x = 0; double *p = (double *)&x;\n"
        f"{EXCHANGE.replace('u, 1, MPI_DOUBLE', '&x, 1, MPI_C_DOUBLE_COMPLEX')}{READ}", "x and p may overlap"),
    "a pointer that gets its value later": (
        ".c", "", f"double *p = w;\nif (n > 3) p = u;\n{EXCHANGE}{READ}", "u and p may overlap"),
    "a pointer that is set through a pointer to it": (
        ".c", "", f"double *p = w, **q = &p;\n*q = u;\n{EXCHANGE}{READ}", "u and p may overlap"),
    "a pointer that a reference sets": (
        ".cpp", "static void set(double *&p, double *x) { p = x; }\n",
        f"double *p = w;\nset(p, u);\n{EXCHANGE}{READ}", "u and p may overlap"),
    "arrays in structures behind two pointers": (
        ".c", "struct one { double x[8]; };\n", "struct one a = {0}, *p = &a, *q = &a;\n"
        f"{EXCHANGE.replace('u, 1', 'p->x, 1')}for (int i = 1; i <= n; i++) v[i] = w[i] + q->x[i - 1];",
        "p->x and q->x may overlap"),
    "the result of memcpy": (
        ".c", "", f"double *p = memcpy(u, w, 8);\n{EXCHANGE}{READ}", "u and p may overlap"),
    "an address that a function passes on": (
        ".c", "double *get(void); void keep(double *);\nstatic void pass(double *x) { keep(x); }\n",
        f"pass(u);\ndouble *p = get();\n{EXCHANGE}{READ}", "u and p may overlap"),
    "a container that another one gets": (
        ".cpp", "#include <vector>\n",
        "std::vector<double> x(n + 2), y(n + 2); double *p = x.data(); std::swap(x, y);\n"
        f"{EXCHANGE.replace('u, 1', 'y.data(), 1')}{READ}", "overlap"),
}  # fmt: skip

VARIABLES = {
    "an iterator that a message's statement sets": (
        ".c", "", "int i;\ni = MPI_Recv(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (i = 1; i <= n; i++) v[i] = w[i];\n", "i, which a loop counts, is given a value"),
    "an iterator that is read after its loop": (
        ".c", "", f"int i;\n{EXCHANGE}for (i = 1; i <= n; i++) v[i] = w[i] + u[0];\nprintf(\"%d\", i);",
        "is read after the loop"),
    "an iterator that an outer loop reads": (
        ".c", "", f"int i;\nfor (i = 0; i < n; i++) {{\n{EXCHANGE}for (i = 1; i <= n; i++) v[i] = w[i];\n{USE}}}",
        "is read after the loop"),
    "an iterator that is set before the region": (
        ".c", "", f"int i = 7;\nif (n > 3) {{\n{EXCHANGE}for (i = 1; i <= n; i++) v[i] = w[i];\n{USE}}}\nv[0] = i;",
        "is read after the loop"),
    "a variable that the next iteration reads": (
        ".c", "", f"double t = 0;\n{EXCHANGE}for (int i = 1; i <= n; i++) {{ v[i] = t + u[i - 1]; t = w[i]; }}",
        "reads u"),
    "a variable behind a pointer": (
        ".c", "", f"double t = 0; double *p = &t;\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) { v[i] = p[0] + u[i - 1]; t = w[i]; }", "t and p may overlap"),
    "a variable that a jump leaves as it was": (
        ".c", "", f"double t = 0;\n{EXCHANGE}for (int i = 1; i <= n; i++) "
        "switch (i % 2) { default:; t = w[i]; case 1: v[i] = t + u[i - 1]; }", "reads u"),
}  # fmt: skip


REFUSED = {**MESSAGES, **POINTERS, **VARIABLES}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_be_wrong_is_refused(name: str, tmp_path: Path, arguments: list[str]) -> None:
    suffix, before, body, said = REFUSED[name]
    found = read(tmp_path, arguments, body, before, suffix)
    assert not [patch.rewritten for patch in found.patches if patch.transformation != "persistent"]
    assert said in "\n".join(one.reason for one in found.missed)
