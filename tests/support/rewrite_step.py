"""A function with an exchange and three arrays, for tests of what `nearfield rewrite` understands."""

from __future__ import annotations

from pathlib import Path

from nearfield.rewrite import Analysis, analyze

EXCHANGE = "MPI_Sendrecv(u + n, 1, MPI_DOUBLE, up, 0, u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n"
SWEEP = "for (int i = 1; i <= n; i++) v[i] = 0.5 * w[i];\n"
PLAIN = EXCHANGE + SWEEP + "for (int i = 1; i <= n; i++) w[i] = u[i - 1];"
SIDES = (
    "MPI_Irecv(u, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &r[0]);\n"
    "MPI_Isend(u + n, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r[1]);\n"
)


def read(folder: Path, arguments: list[str], body: str, before: str = "", suffix: str = ".c") -> Analysis:
    """Returns the analysis of a function with three arrays of its own, and what `body` does with them."""
    path = folder / f"step{suffix}"
    path.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        f"{before}void step(int n, int up, int down, int steps) {{\n"
        "double *u = (double *)malloc((n + 2) * 8), *v = (double *)malloc((n + 2) * 8);\n"
        "double *w = (double *)malloc((n + 2) * 8);\n"
        f"{body}\n}}\n"
    )
    return analyze(path, [*arguments, *(["-std=c++20"] if suffix == ".cpp" else [])])
