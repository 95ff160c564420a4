/* Two programs for bench/forecast_overhead.py, on two ranks: `messages` exchanges messages of 8 bytes and does nothing
 * else; `compute` works for about half a millisecond between two halo exchanges and a reduction, as stencils do. Prints
 * the median of the ns that a round takes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 51, HALO = 4096, CELLS = 1 << 15, SWEEPS = 20 };

static double cells[CELLS], halo[HALO / sizeof(double)];

static void exchange(int rank) {
  char mine[8] = "", theirs[8];
  if (rank == 0) MPI_Send(mine, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
  MPI_Recv(theirs, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(mine, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
}

static void step(int rank) {
  double mine = 0, sum;
  for (int sweep = 0; sweep < SWEEPS; ++sweep)
    for (int i = 1; i < CELLS - 1; ++i) cells[i] = 0.25 * (cells[i - 1] + 2 * cells[i] + cells[i + 1]);
  MPI_Sendrecv(cells, HALO, MPI_BYTE, 1 - rank, 1, halo, HALO, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  mine = cells[CELLS / 2] + halo[0];
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static int in_order(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  static double samples[SAMPLES];
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int computes = argc > 1 && strcmp(argv[1], "compute") == 0, rounds = computes ? 5 : 1000;
  for (int s = 0; s < SAMPLES; ++s) {
    const double begun = MPI_Wtime();
    for (int i = 0; i < rounds; ++i) computes ? step(rank) : exchange(rank);
    samples[s] = (MPI_Wtime() - begun) / rounds * 1e9;
  }
  qsort(samples, SAMPLES, sizeof *samples, in_order);
  if (rank == 0) printf("ns %.3f\n", samples[SAMPLES / 2]);
  MPI_Finalize();
  return 0;
}
