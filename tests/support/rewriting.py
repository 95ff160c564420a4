"""C programs for `nearfield rewrite`, and the analysis of a text."""

from __future__ import annotations

from pathlib import Path

from nearfield.rewrite import Analysis, analyze

HEAD = "#include <mpi.h>\n#include <stdio.h>\n#include <math.h>\n"


def analyse_c(tmp_path: Path, arguments: list[str], text: str, name: str = "program.c", **more: object) -> Analysis:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return analyze(path, arguments, **more)  # type: ignore[arg-type]


def step(body: str, parameters: str = "int n, int m, double *restrict a, double *restrict b, int up, int down") -> str:
    return f"{HEAD}void step({parameters}) {{\n{body}\n}}\n"


EXCHANGE = (
    "MPI_Sendrecv(&a[m], m, MPI_DOUBLE, up, 0, &a[(n - 1) * m], m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, "
    "MPI_STATUS_IGNORE);\n"
)
SWEEP = "for (int i = 1; i < n - 1; i++)\n for (int j = 0; j < m; j++)\n  "


def names(found: Analysis) -> set[str]:
    return {patch.transformation for patch in found.patches}
