/* Calls of known sizes for the counts of `nearfield forecast`, on two ranks. `forecast_sizes exit` ends before
   MPI_Finalize, `forecast_sizes kill` by a signal. */
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static char out[1 << 16], in[1 << 16];

static void nonblocking(int peer) {
  for (int i = 0; i < 3; ++i) {
    MPI_Request requests[2];
    MPI_Irecv(in, 8192, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 8192, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
}

static void persistent(int peer) {
  MPI_Request requests[2];
  MPI_Recv_init(in, 256, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(out, 256, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 2; ++i) {
    MPI_Startall(2, requests);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static void blocking(int rank, int peer) {
  MPI_Sendrecv(out, 64, MPI_BYTE, peer, 2, in, sizeof in, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Send(out, 40, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(in, sizeof in, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void collectives(void) {
  MPI_Request request;
  MPI_Iallreduce(out, in, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Alltoall(out, 100, MPI_INT, in, 100, MPI_INT, MPI_COMM_WORLD);
}

static void one_sided(int peer) {
  MPI_Win window;
  MPI_Win_create(in, sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(out, 256, MPI_BYTE, peer, 0, 256, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  int rank;
  double mine = 1, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 5; ++i) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (argc > 1 && strcmp(argv[1], "exit") == 0) return 0;
  if (argc > 1) kill(getpid(), SIGKILL);
  nonblocking(1 - rank);
  persistent(1 - rank);
  blocking(rank, 1 - rank);
  collectives();
  one_sided(1 - rank);
  MPI_Finalize();
  return 0;
}
