/* An exchange of a message that is longer than the caches: made, sent, received and used. docs/how-to/rewrite.md */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int m = argc > 1 ? atoi(argv[1]) : 1000;
  const int up = (rank + 1) % size, down = (rank + size - 1) % size;
  double *a = calloc(m, sizeof *a), *out = calloc(m, sizeof *out), *in = calloc(m, sizeof *in), *b = calloc(m, sizeof *b);
  for (int i = 0; i < m; i++) out[i] = a[i] * 2;
  MPI_Sendrecv(out, m, MPI_DOUBLE, up, 0, in, m, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 1; i < m; i++) b[i] = in[i] + in[i - 1];
  printf("%g\n", b[m - 1]);
  MPI_Finalize();
  return 0;
}
