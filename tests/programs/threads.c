// Under MPI_THREAD_MULTIPLE two threads of each rank send to the next rank and receive from the one before, each pair
// of threads by its own tag. Prints "threads right" at the end.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { ROUNDS = 20, SIZE = 40000 };
static int rank, n;

static void* talk(void* argument) {
  const int tag = *(int*)argument;
  static _Thread_local char out[SIZE], in[SIZE];
  for (int round = 0; round < ROUNDS; ++round) {
    out[0] = out[SIZE - 1] = (char)(rank + round + tag);
    MPI_Sendrecv(out, SIZE, MPI_CHAR, (rank + 1) % n, tag, in, SIZE, MPI_CHAR, (rank + n - 1) % n, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    const char expected = (char)((rank + n - 1) % n + round + tag);
    if (in[0] != expected || in[SIZE - 1] != expected) MPI_Abort(MPI_COMM_WORLD, 3);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided, tags[2] = {0, 1};
  pthread_t other;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  pthread_create(&other, NULL, talk, &tags[1]);
  talk(&tags[0]);
  pthread_join(other, NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("threads right");
  MPI_Finalize();
  return 0;
}
