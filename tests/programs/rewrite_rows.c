/* A stencil whose border row is long: it is made, exchanged, and used by the row beside it. Arguments: rows, columns and
   steps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void step(int rows, int cols, double *restrict u, double *restrict v, int up, int down) {
  for (int j = 0; j < cols; j++) u[cols + j] = 0.5 * v[cols + j] + 0.25 * v[2 * cols + j];
  MPI_Sendrecv(&u[cols], cols, MPI_DOUBLE, up, 0, &u[(rows - 1) * cols], cols, MPI_DOUBLE, down, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int j = 1; j < cols; j++)
    v[(rows - 2) * cols + j] = 0.5 * u[(rows - 1) * cols + j] + 0.125 * u[(rows - 1) * cols + j - 1];
}

int main(int argc, char** argv) {
  int rank, size, rows = argc > 1 ? atoi(argv[1]) : 5, cols = argc > 2 ? atoi(argv[2]) : 40;
  int steps = argc > 3 ? atoi(argv[3]) : 3;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double *u = malloc((size_t)rows * cols * sizeof *u), *v = malloc((size_t)rows * cols * sizeof *v);
  for (int i = 0; i < rows * cols; i++) u[i] = 1.0 / (1 + i + rank), v[i] = 0.5 * i + rank;
  for (int t = 0; t < steps; t++) step(rows, cols, u, v, (rank + size - 1) % size, (rank + 1) % size);
  double sum = 0;
  for (int i = 0; i < rows * cols; i++) sum += u[i] + v[i];
  printf("rank %d: %.17g\n", rank, sum);
  free(u);
  free(v);
  MPI_Finalize();
  return 0;
}
