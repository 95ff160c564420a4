"""Is whatever `nearfield rewrite` does not understand refused, in a region and around it?

Each program here once got a wrong patch, or is a sibling of one that did."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewrite_step import EXCHANGE, PLAIN, SIDES, SWEEP, read

from nearfield.rewrite.frontend.language import file_refusal_reason, may_move_loop, may_split_loop

# Functions that must be refused, by name: the suffix of the file, what stands before the function, its body, and a part
# of the reason.
REFUSED = {
    "a counter that the next step reads": (
        ".c", "", f"int i; i = 7; int k = 0;\nfor (int s = 0; s < steps; s++) {{ k += i;\n{EXCHANGE}"
        "for (i = 1; i <= n; i++) v[i] = u[i] + u[i - 1];\n}\nprintf(\"%d\", k);", "is read after the loop"),
    "a pointer in braces": (
        ".cpp", "", f"double *p{{u}};\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = p[i - 1];", "overlap"),
    "a pointer in parentheses": (
        ".cpp", "", f"double *p(u);\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = p[i - 1];", "overlap"),
    "a pointer that a condition selects": (
        ".cpp", "", f"double *p = w, *q = w;\n(n > 3 ? p : q) = u;\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) v[i] = p[0];", "overlap"),
    "a pointer that assembly sets": (
        ".c", "", f'double *p = w;\n__asm__("" : "=r"(p) : "0"(u));\n{EXCHANGE}'
        "for (int i = 1; i <= n; i++) v[i] = p[0];", "overlap"),
    "an atomic load": (
        ".c", "static long g;\n", f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = __atomic_load_n(&g, 0);",
        "it is not known what"),
    "a bound that compares what arrives": (
        ".c", "", f"{EXCHANGE}for (int i = 1; i <= n - (u[0] > 5); i++) v[i] = w[i];\n{SWEEP}", "reads u"),
    "a bound that a completed request decides": (
        ".c", "", f"MPI_Request r[2];\n{SIDES}MPI_Waitall(2, r, MPI_STATUSES_IGNORE);\n"
        "for (int i = 1; i <= n - (r[0] == r[1]); i++) v[i] = w[i];", ""),
    "a thread of the C++ library": (
        ".cpp", "#include <thread>\n", f"std::thread t([] {{}});\n{EXCHANGE}{SWEEP}t.join();", "includes <thread>"),
    "cleanup code": (
        ".c", "static double g;\nstatic void end(int *x) { g += *x; }\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) {{ __attribute__((cleanup(end))) int k = i; v[i] = w[i]; }}",
        "an attribute that is not understood"),
    "a destructor of a member": (
        ".cpp", "static double g;\nstruct A { ~A() { g += 1; } };\nstruct B { A a; };\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) {{ B b; v[i] = w[i]; }}", "runs code"),
    "a default argument": (
        ".cpp", "static double g;\nstatic double next(double x = g++) { return x; }\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = next();", "parameter x is not understood"),
    "an rvalue reference": (
        ".cpp", "", f"{EXCHANGE}for (int i = 1; i <= n; i++) {{ double &&r = (double &&)u[0]; v[i] = r; }}",
        "the type of r is not understood"),
    "a request that was begun elsewhere": (
        ".c", "void begin(MPI_Request *);\n",
        f"MPI_Request r[3];\nbegin(&r[2]);\n{SIDES}{SWEEP}MPI_Waitall(3, r, MPI_STATUSES_IGNORE);\n{SWEEP}",
        "it may complete messages that were begun elsewhere"),
    "a datatype that reaches other variables": (
        ".c", "", "MPI_Datatype t; int one[1] = {1}; MPI_Aint at[1]; MPI_Datatype of[1] = {MPI_DOUBLE};\n"
        "MPI_Get_address(v, at); MPI_Type_create_struct(1, one, at, of, &t); MPI_Type_commit(&t);\n"
        f"MPI_Recv(MPI_BOTTOM, 1, t, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n{SWEEP}",
        "its buffer is MPI_BOTTOM"),
    "a datatype of displacements": (
        ".c", "", "MPI_Datatype t; int one[1] = {1}; MPI_Aint at[1] = {64};\n"
        "MPI_Type_create_hindexed(1, one, at, MPI_DOUBLE, &t); MPI_Type_commit(&t);\n"
        f"MPI_Recv(u, 1, t, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n{SWEEP}", "the layout of t is not known"),
    "a message over the members of structures": (
        ".c", "static struct { double x, y; } a[64];\n",
        "MPI_Recv(&a[0].x, 8, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) v[i] = a[i].y;", "several members of a structure"),
    "a return code that is none": (
        ".c", "", f"int bad = n % 2;\n{EXCHANGE}if (bad != MPI_SUCCESS) u[n] = 1;\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + u[n];", "reads u, which the statement"),
    "a function of the same name as one of the library": (
        ".c", "static double *g;\nstatic void *mem_register(void *p) { g = p; return p; }\n",
        f"mem_register(u);\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = g[0];", "overlap"),
    "a call of MPI that returns no code": (
        ".c", "", f"int c = MPI_Comm_c2f(MPI_COMM_WORLD);\n{EXCHANGE}if (c != MPI_SUCCESS) u[n] = 1;\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + u[n];", "reads u, which the statement"),
    "a bound that may be huge": (
        ".c", "", f"int a = n - 5; size_t b = n;\n{EXCHANGE}"
        "for (size_t i = 0; i < a && i < b; i++) v[i] = w[i] + u[0];\nfor (int i = 1; i <= n; i++) w[i] = u[i - 1];",
        "the index i is not affine"),
    "an address of an element by at()": (
        ".cpp", "#include <vector>\n", "std::vector<double> x(n + 2); double *p = &x.at(0);\n"
        f"{EXCHANGE.replace('u, 1', 'x.data(), 1')}for (int i = 1; i <= n; i++) v[i] = p[0];", "overlap"),
    "containers that exchange their memory": (
        ".cpp", "#include <vector>\n", "std::vector<double> x(n + 2), y(n + 2); double *p = x.data(); x.swap(y);\n"
        f"{EXCHANGE.replace('u, 1', 'y.data(), 1')}for (int i = 1; i <= n; i++) v[i] = p[0];", "overlap"),
    "a reference that a function writes to": (
        ".cpp", "static void set(double a, double &f) { f = a; }\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) {{ set(w[i], u[0]); v[i] = w[i]; }}", "writes u"),
    "a datatype that a condition selects": (
        ".c", "", "MPI_Datatype t = n > 3 ? MPI_DOUBLE : MPI_INT;\n"
        f"{EXCHANGE.replace('u, 1, MPI_DOUBLE', 'u, 1, MPI_DOUBLE == t ? MPI_DOUBLE : t')}{SWEEP}",
        "the layout of MPI_DOUBLE == t"),
    "code for one compiler": (
        ".c", "#ifdef __clang__\n#define AT 1\n#else\n#define AT 0\n#endif\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + u[AT];", "another compiler may read other code"),
    "an if with an initialisation": (
        ".cpp", "", f"double x = 0;\n{EXCHANGE}for (int i = 1; i <= n; i++) {{ if (x = w[i]; x < -5) v[i] = 1; "
        "else v[i] = u[0]; }", "an `if` has an initialisation"),
    "an array that is declared twice": (
        ".c", "static double g[8];\nstatic double get(void) { return g[0]; }\nstatic double g[8];\n",
        f"{EXCHANGE.replace('u, 1', 'g, 1')}for (int i = 1; i <= n; i++) v[i] = w[i] + get();", "reads g"),
    "a pointer from an array of pointers": (
        ".c", "", f"double *all[2] = {{u, w}}; double *p = all[0];\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "overlap"),
    "an object in other memory": (
        ".cpp", "#include <new>\n", f"double *p = new (u) double;\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "overlap"),
    "a static variable's first value": (
        ".cpp", "", f"static int m = n;\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + u[1 + m - n];",
        "reads u, which the MPI_Sendrecv"),
    "requests of two steps in turn": (
        ".c", "", "double b[2][8]; MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; int k = 0;\n"
        "for (int s = 0; s < steps; s++) {\nMPI_Irecv(b[k], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r[k]);\n"
        "MPI_Wait(&r[1 - k], MPI_STATUS_IGNORE);\nfor (int i = 1; i <= n; i++) v[i] = w[i] + b[1 - k][0];\n"
        "k = 1 - k;\n}",
        "which messages it completes is known only when it runs"),
    "an address that a function returns": (
        ".c", "static double *same(double *p) { return p; }\n",
        f"double *p = same(u);\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "overlap"),
    "a reference that a function returns": (
        ".cpp", "static double &same(double &x) { return x; }\n",
        f"double x = 0; double &r = same(x); double *p = &r;\n{EXCHANGE.replace('u, 1', 'p, 1')}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + x;", "may overlap"),
    "an address that assembly takes": (
        ".c", "static double *kept;\n",
        f'__asm__("mov %1, %0" : "=m"(kept) : "r"(u));\ndouble *p = kept;\n{EXCHANGE}'
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "overlap"),
    "output into memory": (
        ".c", "#define _GNU_SOURCE\n", f'char m[64] = "a"; FILE *f = fmemopen(m, sizeof m, "w");\n{EXCHANGE}'
        'fprintf(f, "%d", 7); fflush(f);\nfor (int i = 1; i <= n; i++) v[i] = w[i] + m[0];', "fmemopen"),
    "an array that a block declares again": (
        ".c", "static double g[8];\nstatic double get(void) { extern double g[8]; return g[0]; }\n",
        f"{EXCHANGE.replace('u, 1', 'g, 1')}for (int i = 1; i <= n; i++) v[i] = w[i] + get();", "g is extern"),
    "a name of two variables": (
        ".c", "", f"const int m = n;\n{EXCHANGE}for (int n = 1; n <= m; n++) v[n] = w[n] + u[n - 1];",
        "two variables are named n"),
    "arguments with side effects": (
        ".c", "", f"MPI_Comm comms[2] = {{MPI_COMM_WORLD, MPI_COMM_SELF}}; int k = 0;\n"
        f"{EXCHANGE.replace('MPI_COMM_WORLD', 'comms[k++]')}{SWEEP}", "an argument of its call changes something"),
    "an assembly label": (
        ".c", 'static double g[4] __asm__("other"); double h[4] __asm__("other2");\n',
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = h[0];", "an attribute that is not understood"),
    "a jump by longjmp": (".c", "#include <setjmp.h>\nstatic jmp_buf j;\n", f"setjmp(j);\n{EXCHANGE}{SWEEP}", "setjmp"),
    "a line number": (".c", "", f"{EXCHANGE}{SWEEP}v[0] = __LINE__;", "__LINE__"),
    "an address that a function of the library returns": (
        ".c", "", f"double *p = (double *)memcpy(u, w, 8);\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];",
        "u and p may overlap"),
    "an address that strtol stores": (
        ".c", "", "char text[40] = \"1\"; char *p; strtol(text, &p, 10);\n"
        "MPI_Recv(text, 4, MPI_CHAR, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "text and p may overlap"),
    "the value of an increment": (
        ".c", "", f"double *p = u++; u--;\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];",
        "u and p may overlap"),
    "the value of an assignment": (
        ".c", "", f"double *x; double *p = (x = (double *)malloc(n * 8));\n{EXCHANGE.replace('u, 1', 'x, 1')}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "x and p may overlap"),
    "a pointer that two others are swapped with": (
        ".c", "", f"double *x = u, *y = w;\n{{ double *t = x; x = y; y = t; }}\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) v[i] = y[i];", "u and y may overlap"),
    "exceptions at the end of the file": (
        ".cpp", "", f"{EXCHANGE}try {{ {SWEEP} }} catch (int) {{ v[1] = 2; }} catch (...) {{}}", "may not be passed"),
    "the value of a compound assignment": (
        ".c", "", f"double *p = (u += 1) - 1; u -= 1;\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];",
        "u and p may overlap"),
    "an address that is printed by a macro": (
        ".c", "#define ADDRESS \"%p\"\n", "char text[40]; void *x; snprintf(text, 40, ADDRESS, (void *)u);\n"
        f"sscanf(text, ADDRESS, &x); double *p = (double *)x;\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "u and p may overlap"),
    "a print that counts": (
        ".c", "", f'long k = 0;\n{EXCHANGE}printf("%d%ln", n, &k);\nfor (int i = 1; i <= n; i++) v[i] = w[i] + k;',
        "what printf writes"),
    "a print that counts, by a macro": (
        ".c", '#define COUNT "%d%n"\n',
        f"int k = 0;\n{EXCHANGE}printf(COUNT, n, &k);\nfor (int i = 1; i <= n; i++) v[i] = w[i] + k;",
        "what printf writes"),
    "an enumeration of bytes": (
        ".cpp", "enum byte_ : unsigned char { first };\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + u[(byte_)(i + 255)];", "is cut to a shorter number"),
    "a byte that wraps around before a break": (
        ".c", "", f"{EXCHANGE}{{ int k = 0; for (unsigned char i = 1; i < n + 500; i++) "
        "{ v[i] = w[i] + u[i]; if (++k > 255) break; } }", "reads u"),
    "a step that is longer than the loop's variable": (
        ".c", "", f"{EXCHANGE}for (int i = 2; i <= n; i += 4294967297L) v[i] = u[n + 2 - i];\n", "reads u"),
    "a loop that a switch enters": (
        ".c", "", f"int i = 0;\n{EXCHANGE}switch (n > 3) {{ case 0: for (i = 1; i <= n; i++) "
        "{ case 1: v[i] = w[i] + u[i]; } }", "a switch may enter its loop"),
    "bytes that are added to an address as a number": (
        ".c", "static long a[64];\n", "MPI_Recv(a + 1, 1, MPI_LONG, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + *(long *)((long)a + 8);", "a cast counts other elements"),
    "a datatype with a first value": (
        ".c", "", "MPI_Datatype four, t; MPI_Type_contiguous(4, MPI_DOUBLE, &four); MPI_Type_commit(&four);\n"
        "MPI_Datatype kind = four; if (n > 9) { MPI_Type_contiguous(1, MPI_DOUBLE, &kind); MPI_Type_commit(&kind); }\n"
        "MPI_Recv(u, 1, kind, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + u[3];", "the layout of kind is not known"),
    "a copy over several members": (
        ".c", "", f"struct {{ double x, y; }} c = {{1, 2}};\n{EXCHANGE}memcpy(&c.x, u, 16);\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + c.y;", "may be several members"),
    "a comparison of a number that loses its lack of sign": (
        ".c", "", f"{EXCHANGE}{{ const unsigned x = n - 1000; for (unsigned i = 1; i < x; i++) "
        "{ if ((int)x < 0) v[i] = w[i] + u[0]; if (i >= (unsigned)n) break; } }", "reads u"),
    "a function that is called like a method of containers": (
        ".c", "static double *g;\nstatic double *data(double *p) { g = p; return p; }\n",
        f"data(u);\ndouble *p = g;\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "u and p may overlap"),
    "an index that its operator stores": (
        ".cpp", "struct S { double *k; int operator[](double *p) { k = p; return 0; } };\n",
        f"S s; s[u];\ndouble *p = s.k;\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];",
        "u and p may overlap"),
    "an address made by arithmetic on numbers": (
        ".c", "", "unsigned long a = (unsigned long)w, b = (unsigned long)u; a ^= b; b ^= a; a ^= b;\n"
        f"double *p = (double *)a;\n{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "u and p may overlap"),
    "an address that a number is added to": (
        ".c", "", f"double *p = (double *)((unsigned long)u + 0);\n{EXCHANGE}"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];", "u and p may overlap"),
    "a type that may alias all others": (
        ".c", "typedef double __attribute__((may_alias)) any;\n", "long x = 7; any *p = (any *)&x;\n"
        f"{EXCHANGE.replace('u, 1, MPI_DOUBLE', '&x, 1, MPI_LONG')}for (int i = 1; i <= n; i++) v[i] = w[i] + p[0];",
        "uses may_alias"),
    "a persistent request that is copied": (
        ".c", "", "MPI_Request r, q; MPI_Recv_init(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &q);\n"
        "MPI_Recv_init(v, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r); MPI_Request t = r; r = q; q = t;\n"
        "MPI_Start(&r);\nMPI_Wait(&r, MPI_STATUS_IGNORE);\nfor (int i = 1; i <= n; i++) w[i] += u[i - 1];",
        "it may start another request"),
    "a persistent request that a function makes again": (
        ".c", "static void again(MPI_Request *r, double *u) "
        "{ MPI_Recv_init(u, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, r); }\n",
        "MPI_Request r; MPI_Recv_init(v, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r); again(&r, u);\n"
        "MPI_Start(&r);\nMPI_Wait(&r, MPI_STATUS_IGNORE);\nfor (int i = 1; i <= n; i++) w[i] += u[i - 1];",
        "it may start another request"),
    "a persistent request of an earlier call": (
        ".c", "", "static MPI_Request r; if (n) MPI_Recv_init(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r);\n"
        "MPI_Start(&r);\nMPI_Wait(&r, MPI_STATUS_IGNORE);\nfor (int i = 1; i <= n; i++) w[i] += v[i - 1];",
        "it may start another request"),
    "a request that is freed under way": (
        ".c", "", "int ack; MPI_Request r; MPI_Isend(u + n, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r);\n"
        "MPI_Request_free(&r);\nMPI_Recv(&ack, 1, MPI_INT, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) u[i] = w[i];", "may free the request of a message that is under way"),
    "bits of an integer": (
        ".c", "", f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + u[(unsigned _BitInt(8))(i + 255)];",
        "is cut to a shorter number"),
    "a sum without sign of large numbers": (
        ".c", "", f"unsigned m = 2147483651u + n * 0;\n{EXCHANGE}for (unsigned i = 2147483647; i < m; i++) "
        "if (i >= m - 2) v[1] = u[i + 2147483647u];", "reads u"),
    "a bound that is a negative number": (
        ".c", "", f"{EXCHANGE.replace('u + n', 'v + n')}{{ const unsigned x = n - 1000; "
        "for (unsigned i = 1; i < x; i++) { v[i] = w[i]; if (i >= (unsigned)n) break; } }", "writes v"),
    "a bound that an assignment makes negative": (
        ".c", "static void sweep(double *v, double *w, unsigned n) "
        "{ unsigned x; x = n - 1000; for (unsigned i = 1; i < x; i++) { v[i] = w[i]; if (i >= n) break; } }\n",
        f"{EXCHANGE.replace('u + n', 'v + n')}sweep(v, w, n);", "writes v"),
    "a bound that an argument makes negative": (
        ".c", "static void sweep(double *v, double *w, unsigned n, unsigned x) "
        "{ for (unsigned i = 1; i < x; i++) { v[i] = w[i]; if (i >= n) break; } }\n",
        f"{EXCHANGE.replace('u + n', 'v + n')}sweep(v, w, n, n - 1000);", "writes v"),
    "a member of a union": (
        ".c", "", "union { double a; long b; } q = {1};\n"
        f"{EXCHANGE.replace('u, 1', '&q.a, 1')}for (int i = 1; i <= n; i++) v[i] = w[i] + q.b;", "a member of a union"),
    "an element at the stride of a datatype": (
        ".c", "", "MPI_Datatype t; MPI_Type_vector(2, 1, 3, MPI_DOUBLE, &t); MPI_Type_commit(&t);\n"
        "MPI_Recv(u, 1, t, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) v[i] = w[i] + u[3];", "reads u"),
    "a directive between statements": (
        ".c", "#define K 2\n",
        f"{EXCHANGE}#undef K\n#define K 3\nfor (int i = 1; i <= n; i++) v[i] = w[i] * K;",
        "a directive of the preprocessor"),
    "a directive behind a comment": (
        ".c", "#define K 2\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] * K;\n/**/#undef K\n/**/#define K 3\n"
        "for (int i = 1; i <= n; i++) w[i] = v[i] * K + u[i - 1];", "does not begin with a plain #"),
    "a directive of digraphs": (
        ".c", "#define K 2\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] * K;\n%:undef K\n%:define K 3\n"
        "for (int i = 1; i <= n; i++) w[i] = v[i] * K + u[i - 1];", "does not begin with a plain #"),
    "a directive in two lines": (
        ".c", "#define K 2\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] * K;\n#\\\nundef K\n#\\\ndefine K 3\n"
        "for (int i = 1; i <= n; i++) w[i] = v[i] * K + u[i - 1];", "does not begin with a plain #"),
    "a function that a pragma makes weak": (
        ".c", "#pragma weak get\ndouble get(int i) { return i; }\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) v[i] = w[i] + get(i);",
        "a pragma whose effect is not known: weak get"),
    "a task inside a loop, which copies arrays": (
        ".c", "",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) {{\n#pragma omp task firstprivate(i)\nv[i] = w[i] + u[i - 1];\n}}",
        "the pragma in it is not known to allow it: #pragma omp task firstprivate(i)"),
    "a pragma in a function that the loop calls": (
        ".c", "static void put(double *v, int i) {\n#pragma omp \\\n  critical\n  v[i] += 1;\n}\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) put(v, i);", "it calls put, and the pragma there"),
    "parameters that are written as arrays": (
        ".c", "static void half(double x[], double y[static 2], int up, int down, int n) {\n"
        "MPI_Sendrecv(x + n, 1, MPI_DOUBLE, up, 0, x, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) y[i] = 0.5 * x[i - 1];\n}\n", "half(u, u, up, down, n);", "x and y may overlap"),
    "parameters that are written as arrays of rows": (
        ".c", "static void half(int n, double x[n + 2][n], double y[][n], int up, int down) {\n"
        "MPI_Sendrecv(x[n], n, MPI_DOUBLE, up, 0, x[0], n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) for (int j = 0; j < n; j++) y[i][j] = 0.5 * x[i - 1][j];\n}\n",
        "half(n, (double (*)[n])u, (double (*)[n])u, up, down);", "x and y may overlap"),
    "an array parameter and a global array": (
        ".c", "double all[64];\nstatic void half(double y[64], int up, int down, int n) {\n"
        "MPI_Sendrecv(all + n, 1, MPI_DOUBLE, up, 0, all, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) y[i] = 0.5 * all[i - 1];\n}\n", "half(all, up, down, n);",
        "all and y may overlap"),
    "references to arrays": (
        ".cpp", "static void half(double (&x)[64], double (&y)[64], int up, int down, int n) {\n"
        "MPI_Sendrecv(x + n, 1, MPI_DOUBLE, up, 0, x, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
        "for (int i = 1; i <= n; i++) y[i] = 0.5 * x[i - 1];\n}\n", "", "not known where x points"),
    "a name that a macro pastes together": (
        ".c", "#define CAT(a, b) a##b\n#include <unistd.h>\n", f"CAT(fo, rk)();\n{EXCHANGE}{SWEEP}",
        "the file calls fork"),
    "a word between numbers with apostrophes": (
        ".cpp", "#include <unistd.h>\n", f"int a = 1'000; fork(); int b = 2'000;\n{EXCHANGE}{SWEEP}", "uses fork"),
    "a word behind a raw string": (
        ".cpp", "#include <unistd.h>\n", f'puts(R"(a " b)"); fork(); puts("b");\n{EXCHANGE}{SWEEP}', "uses fork"),
    "a function with a name of MPI": (
        ".c", "int MPI_Pcontrol(const int level, ...) { return level; }\n", f"{EXCHANGE}{SWEEP}", "belongs to MPI"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused(name: str, tmp_path: Path, arguments: list[str]) -> None:
    suffix, before, body, said = REFUSED[name]
    found = read(tmp_path, arguments, body, before, suffix)
    reasons = "\n".join(one.reason for one in found.missed)
    moved = [patch.rewritten for patch in found.patches if patch.transformation != "persistent"]
    assert not moved, moved[0]
    assert said in reasons


# Functions that must get a patch: they use the same arrays, in C and C++ as people write them.
UNDERSTOOD = {
    "plain": (".c", "", PLAIN),
    "a reference that a function assigns to": (
        ".cpp", "static void half(double a, double &f) { f = 0.5 * a; }\n",
        f"{EXCHANGE}for (int i = 1; i <= n; i++) half(w[i], v[i]);\nfor (int i = 1; i <= n; i++) w[i] = u[i - 1];"),
    "a return code": (
        ".c", "", f"int rc = 0;\nrc = {EXCHANGE}if (rc != MPI_SUCCESS) exit(1);\n{SWEEP}"
        "for (int i = 1; i <= n; i++) w[i] = u[i - 1];"),
    "sizes without sign": (
        ".c", "", f"size_t m = n;\n{EXCHANGE}for (size_t i = 1; i < m - 1; i++) v[i] = w[i];\n"
        "for (int i = 1; i <= n; i++) w[i] = u[i - 1];"),
    "vectors": (
        ".cpp", "#include <vector>\n", "std::vector<double> x(n + 2);\n"
        f"{EXCHANGE.replace('u + n, 1', 'x.data() + n, 1').replace('u, 1', 'x.data(), 1')}{SWEEP}"
        "for (int i = 1; i <= n; i++) w[i] = x[i - 1];"),
    "persistent requests": (
        ".c", "", "MPI_Request r[2]; MPI_Recv_init(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r[0]);\n"
        "MPI_Send_init(u + n, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r[1]);\nfor (int s = 0; s < steps; s++) {\n"
        f"MPI_Startall(2, r);\nMPI_Waitall(2, r, MPI_STATUSES_IGNORE);\n{SWEEP}"
        "for (int i = 1; i <= n; i++) w[i] = u[i - 1];\n}\nMPI_Request_free(&r[0]); MPI_Request_free(&r[1]);"),
    "numbers with apostrophes": (
        ".cpp", "", f"{EXCHANGE}{SWEEP}for (int i = 1; i <= n; i++) w[i] = u[i - 1] + 1'000;"),
    "requests of its own": (
        ".c", "", f"MPI_Request r[2];\n{SIDES}MPI_Waitall(2, r, MPI_STATUSES_IGNORE);\n{SWEEP}"
        "for (int i = 1; i <= n; i++) w[i] = u[i - 1];"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_what_people_write_is_understood(name: str, tmp_path: Path, arguments: list[str]) -> None:
    suffix, before, body = UNDERSTOOD[name]
    found = read(tmp_path, arguments, body, before, suffix)
    assert found.patches, found.missed


def test_pragmas_are_allowed_by_their_clauses() -> None:
    """May a loop be split, moved as a whole, or neither, as its clauses say?"""
    assert may_split_loop("#pragma omp parallel for schedule(static, 4) private(x)")
    assert may_split_loop("#pragma omp simd safelen(8)")
    assert may_split_loop("#pragma GCC ivdep")
    for clauses in ("firstprivate(k)", "reduction(+ : s)", "lastprivate(k)", "collapse(2)"):
        assert not may_split_loop(f"#pragma omp parallel for {clauses}")
        assert may_move_loop(f"#pragma omp parallel for {clauses}")
    for other in (
        "omp for",
        "omp parallel for num_threads(k = 2)",
        "omp parallel for if (f())",
        "omp critical",
        "acc loop",
    ):
        assert not may_move_loop(f"#pragma {other}")


def test_a_pragma_stays_in_front_of_the_loop(tmp_path: Path, arguments: list[str]) -> None:
    """Does a loop follow each pragma, also where the loop is the first statement of what is rewritten?"""
    body = f"  #pragma omp parallel for\nfor (int i = 1; i <= n; i++) v[i] = w[i] + u[i];\n{EXCHANGE}".replace(
        "u + n", "v + n"
    )
    found = read(tmp_path, arguments, body)
    assert any(patch.rewritten.count("#pragma") > 2 for patch in found.patches)
    for patch in found.patches:
        lines = [line.strip() for line in patch.rewritten.splitlines()]
        assert all(
            after.startswith("for") for line, after in zip(lines, lines[1:], strict=False) if line.startswith("#pragma")
        )


def test_comments_and_strings_forbid_nothing() -> None:
    assert file_refusal_reason('/* mmap */ puts("fork __LINE__"); // longjmp\n') == ("", 0)
    assert file_refusal_reason("int x;\nvoid *p = mmap(0);\n")[1] == 2
