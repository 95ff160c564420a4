/* Polls for the counts of `nearfield forecast`, on two ranks. Polls of rank 0 fail, as rank 1 sends nothing before it
   gets a token; then it polls until the message is there. It prints how often it polled, and for how long. */
#include <mpi.h>
#include <stdio.h>

enum { in_vain = 10000 };
static char data[1024];
static MPI_Request requests[2];

static int test(void) {
  int flag;
  MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
  return flag;
}

static int test_any(void) {
  int index, flag;
  MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
  return flag;
}

static int test_some(void) {
  int count, indices[2];
  MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
  return count;
}

static int probe(void) {
  int flag;
  MPI_Iprobe(1, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  return flag;
}

static void poll_for_message(const char* name, int (*poll)(void)) {
  int polls = 0;
  const double begun = MPI_Wtime();
  for (; polls < in_vain; ++polls)
    if (poll()) MPI_Abort(MPI_COMM_WORLD, 1);
  const double middle = MPI_Wtime();
  MPI_Send(data, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  const double sent = MPI_Wtime();
  do ++polls;
  while (!poll());
  printf("%s %d %.9f\n", name, polls, MPI_Wtime() - sent + middle - begun);
}

static void poll_in_all_ways(void) {
  int (*const polls[])(void) = {test, test_any, test_some, probe};
  const char* const names[] = {"MPI_Test", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe"};
  for (int i = 0; i < 4; ++i) {
    requests[0] = requests[1] = MPI_REQUEST_NULL;
    if (polls[i] != probe) MPI_Irecv(data, sizeof data, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[0]);
    poll_for_message(names[i], polls[i]);
    if (polls[i] == probe) MPI_Recv(data, sizeof data, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void send_on_token(void) {
  for (int i = 0; i < 4; ++i) {
    char token;
    MPI_Recv(&token, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(data, sizeof data, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) poll_in_all_ways();
  if (rank == 1) send_on_token();
  MPI_Finalize();
  return 0;
}
