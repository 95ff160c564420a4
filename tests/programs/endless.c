/* Two ranks exchange messages until they are ended; each leaves a file in the folder of its argument when it begins. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  char name[4096], mine = 0, theirs;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "%s/rank-%d", argv[1], rank);
  fclose(fopen(name, "w"));
  for (;;)
    MPI_Sendrecv(&mine, 1, MPI_CHAR, 1 - rank, 0, &theirs, 1, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
