"""Do real programs do the same after each transformation, on several numbers of ranks?"""

from __future__ import annotations

from pathlib import Path

import pytest
from rewriting import analyse_c, names

from nearfield import mpi
from nearfield.mpi import Installation
from nearfield.rewrite import analyze
from nearfield.rewrite.check.build import Program
from nearfield.rewrite.check.verify import Verifier
from nearfield.rewrite.model.chunk_sizes import ChunkSizes

pytestmark = pytest.mark.turn(0)

ROWS = Path(__file__).parents[1] / "programs" / "rewrite_rows.c"
PIECES = ChunkSizes(64, 64)  # eight doubles


@pytest.fixture(scope="module")
def inst() -> Installation:
    """Returns MPICH if it is installed, since its ranks start fastest."""
    return next((one for one in mpi.find_usable_mpis() if one.family == "mpich"), mpi.choose_mpi(None))


JACOBI = """\
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void exchange(double *u, int rows, int cols, int up, int down) {
  MPI_Sendrecv(u + cols, cols, MPI_DOUBLE, up, 0, u + (rows - 1) * cols, cols, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Sendrecv(u + (rows - 2) * cols, cols, MPI_DOUBLE, down, 1, u, cols, MPI_DOUBLE, up, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

static void update(const double *from, double *to, int n, int m) {
  int i, down;  // another one than in main
  const double quarter = 0.25;

  for (i = 1; i < n - 1; i++)
    for (down = 1; down < m - 1; down++)
      to[i * m + down] = quarter * (from[(i - 1) * m + down] + from[(i + 1) * m + down]) + down;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int rows = atoi(argv[1]), cols = 5, i;
  int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  double *u = malloc(sizeof(double) * rows * cols), *v = malloc(sizeof(double) * rows * cols);
  for (i = 0; i < rows * cols; i++) u[i] = v[i] = i * 0.37 + rank;
  for (int t = 0; t < 3; t++) {
    exchange(u, rows, cols, up, down);
    update(u, v, rows, cols);
    double *swapped = u;
    u = v;
    v = swapped;
  }
  printf("%d %.17g\\n", rank, u[cols + 1]);
  free(u);
  free(v);
  MPI_Finalize();
  return 0;
}
"""


def test_the_loop_of_a_callee_is_split_and_the_program_does_the_same(
    tmp_path: Path, arguments: list[str], inst: Installation
) -> None:
    """Is the patch one of the file as it is, with the function itself untouched, and the same on 1, 2 and 4 ranks?"""
    found = analyse_c(tmp_path, arguments, JACOBI)
    made = {patch.transformation: patch for patch in found.patches}
    assert set(made) == {"warm-send", "overlap", "late-receive", "reverse"}
    patch = made["overlap"]
    assert patch.original == JACOBI and patch.rewritten.startswith(JACOBI.partition("int main")[0])
    calls = JACOBI.partition("    exchange(")[0].count("\n") + 1
    assert patch.changed_lines == (calls - 1, calls + 1)  # from the block's beginning on, where variables are declared
    new = patch.rewritten.partition("int main")[2]
    assert "int i, down_update;" in new and "const double quarter = 0.25;" in new
    assert "exchange(" not in new and "update(" not in new and new.count("MPI_Irecv") == 2
    assert "the body of exchange and update stands in place of its call" in patch.reason
    program = Program(tmp_path / "program.c", arguments_by_run=(("7",),))
    with Verifier(program, JACOBI, inst, rank_counts=(1, 2, 4)) as verifier:
        verdict = verifier.verify(patch.rewritten)
    assert verdict.is_equivalent, verdict


GUARDED = """#include <mpi.h>
#include <stdlib.h>
static void exchange(double *restrict a, double *restrict b, int n, int rank, int size) {
  for (int step = 0; step < 3; step++) {
    if (rank > 0) {
      MPI_Send(a + 1, 1, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD);
      MPI_Recv(a, 1, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank < size - 1)
      MPI_Sendrecv(a + n - 2, 1, MPI_DOUBLE, rank + 1, 0, a + n - 1, 1, MPI_DOUBLE, rank + 1, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    for (int i = 1; i < n - 1; i++) {
      if (a[i] > 0.5) {
        b[i] = a[i - 1] + a[i + 1];
      }
    }
  }
}
int main(int argc, char **argv) {
  int rank, size, n = atoi(argv[1]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *a = malloc(n * sizeof *a), *b = calloc(n, sizeof *b);
  for (int i = 0; i < n; i++) a[i] = rank + 0.1 * i;
  exchange(a, b, n, rank, size);
  MPI_Finalize();
}
"""


def test_it_does_the_same_at_the_end_of_a_block(tmp_path: Path, arguments: list[str], inst: Installation) -> None:
    """Is a region under a guard that ends its block verified: is memory compared at the same place in both programs?"""
    analysis = analyse_c(tmp_path, arguments, GUARDED)
    assert "overlap" in names(analysis)
    overlapped = next(one.rewritten for one in analysis.patches if one.transformation == "overlap")
    assert "{ MPI_Irecv(a + n - 1" in overlapped
    program = Program(tmp_path / "program.c", arguments_by_run=(("7",), ("40",)))
    with Verifier(program, GUARDED, inst, rank_counts=(1, 3)) as made:
        verdict = made.verify(overlapped)
    assert verdict.is_equivalent, verdict


def test_cut_messages_are_verified(arguments: list[str], inst: Installation) -> None:
    """Does the program do the same with cut messages: with few columns, with a short last piece, on an odd number of
    ranks?"""
    found = analyze(
        ROWS,
        arguments,
        transformation_names=frozenset({"cut", "strip-mine"}),
        chunk_sizes=PIECES,
        assume_uniform=("cols", "rows"),
    )
    assert {one.transformation for one in found.patches} == {"cut", "strip-mine"}
    runs = (("4", "9"), ("7", "41"))
    with Verifier(Program(ROWS, arguments_by_run=runs), ROWS.read_text(), inst, rank_counts=(1, 2, 3)) as verifier:
        for patch in found.patches:
            verdict = verifier.verify(patch.rewritten)
            assert verdict.is_equivalent, verdict
