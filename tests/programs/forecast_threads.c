/* Four threads of each of two ranks exchange messages at the same time, each with its peer on the other rank. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { threads = 4, messages = 500 };
static int rank;

static void* exchanges(void* tag) {
  int mine = rank, theirs = -1;
  for (int i = 0; i < messages; ++i)
    MPI_Sendrecv(&mine, 1, MPI_INT, 1 - rank, *(int*)tag, &theirs, 1, MPI_INT, 1 - rank, *(int*)tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t all[threads];
  int level, tags[threads];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (level < MPI_THREAD_MULTIPLE) {
    printf("no threads\n");
  } else {
    for (int i = 0; i < threads; ++i) tags[i] = i, pthread_create(&all[i], NULL, exchanges, &tags[i]);
    for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
