/* S0's listing 1: a 3-point stencil that exchanges its border row first. The first row goes to the neighbour above, whose
   last row it is. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 32
#define COLS 128
#define MAX_ITERS 100

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int top = (rank + size - 1) % size, bottom = (rank + 1) % size;
  double(*A)[COLS] = malloc(ROWS * sizeof *A);
  double(*tmp)[COLS] = malloc(ROWS * sizeof *tmp);
  for (unsigned i = 0; i < ROWS; ++i)
    for (unsigned j = 0; j < COLS; ++j) A[i][j] = tmp[i][j] = rank + 0.5 * i + 0.25 * j;

  for (unsigned iter = 0; iter < MAX_ITERS; ++iter) {
    MPI_Sendrecv(&A[0][0], COLS, MPI_DOUBLE, top, 0,
                 &A[ROWS-1][0], COLS, MPI_DOUBLE, bottom, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    for (unsigned i = 0; i < ROWS-1; ++i)
      for (unsigned j = 0; j < COLS-1; ++j)
        tmp[i][j] = A[i][j] + (A[i+1][j] + A[i][j+1]) / 4;

    double(*swapped)[COLS] = A; A = tmp; tmp = swapped;
  }

  double sum = 0;
  for (unsigned i = 0; i < ROWS; ++i)
    for (unsigned j = 0; j < COLS; ++j) sum += A[i][j];
  printf("rank %d: %.17g\n", rank, sum);
  free(A);
  free(tmp);
  MPI_Finalize();
}
