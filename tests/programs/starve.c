// Rank 0 has more acknowledgements for ranks 2 and up, who look away, than the transport has fragments for, and then
// one for rank 1. They look again only when rank 1 has been served: if its acknowledgement waits for ever, nothing
// ends. Prints "served" at the end. For four ranks or more; messages of 3000 bytes must not be eager. A rank can have
// 512 messages on the way, and as many acknowledgements.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { EACH = 500, MAX_RANKS = 8, SIZE = 3000 };
static char bytes[EACH * MAX_RANKS][SIZE];
static MPI_Request requests[EACH * MAX_RANKS];

static void acknowledge(int n_ranks) {
  int n = 0;
  usleep(200000);
  for (int from = 2; from < n_ranks; ++from)
    for (int i = 0; i < EACH; ++i, ++n) MPI_Irecv(bytes[n], SIZE, MPI_CHAR, from, 0, MPI_COMM_WORLD, &requests[n]);
  MPI_Irecv(bytes[n], SIZE, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[n]);
  MPI_Waitall(n + 1, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < n; ++i)
    if (bytes[i][SIZE - 1] != (char)i) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void flood(int rank) {
  for (int i = 0; i < EACH; ++i) {
    bytes[i][SIZE - 1] = (char)((rank - 2) * EACH + i);
    MPI_Isend(bytes[i], SIZE, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[i]);
  }
  usleep(600000);
  MPI_Recv(bytes[EACH], 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(EACH, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char** argv) {
  int rank, n_ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
  if (n_ranks < 4 || n_ranks > MAX_RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) acknowledge(n_ranks);
  if (rank == 1) {
    usleep(400000);
    MPI_Send(bytes[0], SIZE, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    for (int to = 2; to < n_ranks; ++to) MPI_Send(bytes[0], 1, MPI_CHAR, to, 1, MPI_COMM_WORLD);
  }
  if (rank > 1) flood(rank);
  if (rank == 0) puts("served");
  MPI_Finalize();
  return 0;
}
