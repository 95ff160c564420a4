/* Two ranks exchange messages until they are ended; each leaves a file in the folder of its argument when it begins. A
   second argument is the pause after each message, in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char name[4096], mine = 0, theirs;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "%s/rank-%d", argv[1], rank);
  fclose(fopen(name, "w"));
  for (const int pause = argc > 2 ? atoi(argv[2]) : 0;; pause ? usleep(pause) : 0)
    MPI_Sendrecv(&mine, 1, MPI_CHAR, 1 - rank, 0, &theirs, 1, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
