// A stencil that tests rewrite by hand, right and wrong. Its arrays lie on the heap, on the stack and among static
// variables; it prints, writes a file and reads a clock.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 20
static double w[N * N];

static void keep(const double* u, int rank) {
  char name[32];
  snprintf(name, sizeof name, "rank-%d", rank);
  FILE* file = fopen(name, "w");
  fwrite(u, sizeof(double), N * N, file);
  fclose(file);
}

int main(int argc, char** argv) {
  int rank, size, n = N, steps = argc > 1 ? atoi(argv[1]) : 10;
  double v[N][N];
  MPI_Init(&argc, &argv);
  double begin = MPI_Wtime();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int up = (rank + 1) % size, down = (rank + size - 1) % size;
  double* u = malloc(sizeof(double) * n * n);
  for (int i = 0; i < n * n; i++) u[i] = i * 0.37 + rank;
  for (int t = 0; t < steps; t++) {
    MPI_Sendrecv(u + n, n, MPI_DOUBLE, up, 0, u, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++) v[i][j] = 0.25 * (u[(i - 1) * n + j] + u[(i + 1) * n + j] + u[i * n + j - 1]);
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++) w[i * n + j] += v[i][j] * t;
    if (t % 2)
      for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) u[i * n + j] = v[i][j];
  }
  if (!rank) printf("%s: %.3g after %g s\n", argv[0], u[n + 1], MPI_Wtime() - begin);
  keep(u, rank);
  free(u);
  MPI_Finalize();
  return 0;
}
