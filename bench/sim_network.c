/* What bench/sim_network.py runs on SimGrid's SMPI: one operation once, all ranks beginning at the same simulated time,
 * until the last one is done. OPERATION BYTES, as `nearfield simulate` has them. Writes nanoseconds. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void call(const char* operation, int bytes, char* in, char* out) {
  if (!strcmp(operation, "bcast")) {
    MPI_Bcast(in, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  } else if (!strcmp(operation, "scatter")) {
    MPI_Scatter(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  } else if (!strcmp(operation, "allgather")) {
    MPI_Allgather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, MPI_COMM_WORLD);
  } else if (!strcmp(operation, "allreduce")) {
    MPI_Allreduce(in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  } else if (!strcmp(operation, "alltoall")) {
    MPI_Alltoall(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, MPI_COMM_WORLD);
  } else {
    fprintf(stderr, "no operation %s\n", operation);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 1);
  const int bytes = atoi(argv[2]);
  char* const in = calloc((size_t)bytes + 1, (size_t)ranks);
  char* const out = calloc((size_t)bytes + 1, (size_t)ranks);
  call(argv[1], bytes, in, out); /* SMPI looks for ranks on one host at the first call */
  const double begin = 1.0 + ceil(MPI_Wtime());
  double wait = begin - MPI_Wtime();
  const struct timespec sleep = {(time_t)wait, (long)((wait - floor(wait)) * 1e9)};
  nanosleep(&sleep, NULL);
  const double started = MPI_Wtime();
  call(argv[1], bytes, in, out);
  double mine = MPI_Wtime(), last = 0, first = 0;
  MPI_Reduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&started, &first, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.3f\n", (last - first) * 1e9);
  MPI_Finalize();
  return 0;
}
