// A program all of whose messages have the same arguments in every iteration of its loop.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int n = 100;
  int steps = argc > 1 ? atoi(argv[1]) : 10;
  int up = (rank + 1) % size, down = (rank + size - 1) % size;
  double *u = calloc(n * n, sizeof *u), *v = calloc(n * n, sizeof *v);
  double line[100];
  MPI_Request requests[2];
  for (int i = 0; i < n * n; i++) u[i] = i + rank;
  for (int step = 0; step < steps; step++) {
    MPI_Irecv(u, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(u + n, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank > 0)
      MPI_Send(&u[2 * n], n, MPI_DOUBLE, rank - 1, 1, MPI_COMM_WORLD);
    if (rank < size - 1) {
      MPI_Recv(line, n, MPI_DOUBLE, rank + 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Sendrecv(u, n, MPI_DOUBLE, up, 2, v, n, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Request own;
    MPI_Irecv(line, n, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &own);
    MPI_Send(&v[n], 1, MPI_DOUBLE, up, 3, MPI_COMM_WORLD);
    MPI_Wait(&own, MPI_STATUS_IGNORE);
    u[n] += line[0];
    for (int i = 1; i < n - 1; i++)
      for (int j = 0; j < n; j++) v[i * n + j] = 0.5 * (u[(i - 1) * n + j] + u[(i + 1) * n + j]);
    for (int i = 1; i < n - 1; i++)
      for (int j = 0; j < n; j++) u[i * n + j] = v[i * n + j];
  }  // steps
  printf("%g\n", u[n + 1]);
  MPI_Finalize();
  return 0;
}
