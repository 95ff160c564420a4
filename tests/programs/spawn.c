// Two jobs: the ranks that were launched start two more, talk with them and among themselves, part and go on talking.
// Prints "spawned right" at the end.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const int sizes[] = {8, 3000, 20000, 300000};

// Everyone with everyone.
static void talk(MPI_Comm comm) {
  int rank, n;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &n);
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const int size = sizes[s];
    char *out = malloc((size_t)size), *in = malloc((size_t)size);
    for (int step = 1; step < n; ++step) {
      const int to = (rank + step) % n, from = (rank + n - step) % n;
      for (int i = 0; i < size; ++i) out[i] = (char)(rank + i), in[i] = 0;
      MPI_Sendrecv(out, size, MPI_CHAR, to, 0, in, size, MPI_CHAR, from, 0, comm, MPI_STATUS_IGNORE);
      for (int i = 0; i < size; ++i)
        if (in[i] != (char)(from + i)) MPI_Abort(MPI_COMM_WORLD, 3);
    }
    free(out);
    free(in);
  }
}

int main(int argc, char** argv) {
  MPI_Comm parent, between, all;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  talk(MPI_COMM_WORLD);
  const int child = parent != MPI_COMM_NULL;
  if (child)
    between = parent;
  else
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(between, child, &all);
  talk(all);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&between);
  talk(MPI_COMM_WORLD);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && !child) puts("spawned right");
  MPI_Finalize();
  return 0;
}
