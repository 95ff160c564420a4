/* Each rank writes a message, sends it round a ring, and adds what it got; then all reduce the sum. */
#include <mpi.h>
#include <stdio.h>

enum { n = 4096 };
static double mine[n], theirs[n];

__attribute__((noipa)) static double my_MPI_Allreduce(double mine_alone) {
  double all = 0;
  MPI_Allreduce(&mine_alone, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char **argv) {
  int rank, ranks;
  double sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < n; ++i) mine[i] = rank + i;
  MPI_Sendrecv(mine, n, MPI_DOUBLE, (rank + 1) % ranks, 5, theirs, n, MPI_DOUBLE, (rank + ranks - 1) % ranks, 5,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Pcontrol(1);
  for (int i = 0; i < n; ++i) sum += theirs[i];
  MPI_Pcontrol(0);
  const double all = my_MPI_Allreduce(sum);
  if (rank == 0) printf("sum %.17g\n", all);
  MPI_Finalize();
  return 0;
}
