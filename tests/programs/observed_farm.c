/* A master deals out tasks to whoever asks; a worker's task is to walk through memory, and one worker's walks are long.
   The order in which the master hears from them depends on time. Words choose how it listens; `endless` never ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { length = 1 << 15, tasks = 40, done = 1, stop = 2 };
static double memory[length];
static int rank, ranks;

/* Waits for a message from anybody, and returns from whom it got one. */
static int listens(const char *way, int *result) {
  MPI_Status status;
  MPI_Request request;
  MPI_Message message;
  int flag = 0;
  if (strcmp(way, "probe") == 0) {
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Recv(result, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
  } else if (strcmp(way, "iprobe") == 0) {
    while (!flag) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    MPI_Recv(result, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
  } else if (strcmp(way, "improbe") == 0) {
    while (!flag) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    MPI_Mrecv(result, 1, MPI_INT, &message, &status);
  } else if (strcmp(way, "test") == 0) {
    MPI_Irecv(result, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    while (!flag) MPI_Test(&request, &flag, &status);
  } else if (strcmp(way, "wait") == 0) {
    MPI_Irecv(result, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
  } else {
    MPI_Recv(result, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  }
  return status.MPI_SOURCE;
}

static void deals_out(const char *way) {
  int count[64] = {0}, left = tasks, running = 0, result = 0, none = 0;
  for (int worker = 1; worker < ranks; ++worker, --left, ++running)
    MPI_Send(&left, 1, MPI_INT, worker, done, MPI_COMM_WORLD);
  while (running > 0) {
    const int worker = listens(way, &result);
    if (result != worker) printf("wrong: %d from %d\n", result, worker), MPI_Abort(MPI_COMM_WORLD, 3);
    ++count[worker];
    printf("%d", worker);
    MPI_Send(left > 0 ? &left : &none, 1, MPI_INT, worker, left > 0 ? done : stop, MPI_COMM_WORLD);
    if (left > 0)
      --left;
    else
      --running;
  }
  printf("\n");
  for (int worker = 1; worker < ranks; ++worker) printf("worker %d did %d\n", worker, count[worker]);
}

/* The last worker walks eight times as far, but sleeps less: on the host it is the fastest one. */
static void works(void) {
  MPI_Status status;
  int task = 0;
  const int walks = rank == ranks - 1 ? 8 : 1;
  while (1) {
    MPI_Recv(&task, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (status.MPI_TAG == stop) return;
    for (int walk = 0; walk < walks; ++walk)
      for (int i = 0; i < length; ++i) memory[i] += task;
    if (rank != ranks - 1) usleep(20000);
    MPI_Send(&rank, 1, MPI_INT, 0, done, MPI_COMM_WORLD);
  }
}

/* Sends eight messages of each length to the right, and completes the receives from the left in the given way. */
static void completes(int way) {
  static int out[8][4096], in[8][4096];
  MPI_Request receives[8], sends[8];
  MPI_Status status;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  int flag, index, some, indices[8], left_over = 8;
  for (int i = 0; i < 8; ++i) {
    const int length = i % 2 ? 4096 : 10;
    for (int k = 0; k < length; ++k) out[i][k] = rank + i * k;
    MPI_Irecv(in[i], length, MPI_INT, i % 3 ? MPI_ANY_SOURCE : left, i, MPI_COMM_WORLD, &receives[i]);
  }
  for (int i = 0; i < 8; ++i)
    MPI_Isend(out[i], i % 2 ? 4096 : 10, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]);
  while (left_over > 0) {
    some = flag = 0;
    if (way == 0) MPI_Waitany(8, receives, &index, &status), some = 1;
    if (way == 1) MPI_Testany(8, receives, &index, &some, &status);
    if (way == 2) MPI_Waitsome(8, receives, &some, indices, MPI_STATUSES_IGNORE);
    if (way == 3) MPI_Testsome(8, receives, &some, indices, MPI_STATUSES_IGNORE);
    if (way == 4) MPI_Testall(8, receives, &flag, MPI_STATUSES_IGNORE), some = 8 * flag;
    if (way == 5) MPI_Waitall(8, receives, MPI_STATUSES_IGNORE), some = 8;
    left_over -= some;
  }
  MPI_Waitall(8, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 8; ++i)
    for (int k = 0; k < (i % 2 ? 4096 : 10); ++k)
      if (in[i][k] != left + i * k) printf("wrong: message %d\n", i), MPI_Abort(MPI_COMM_WORLD, 4);
}

/* Rank 1 answers to a message that needs rank 0's help to arrive, while rank 0 waits for that answer from anybody. */
static void helps_while_it_waits(void) {
  enum { length = 1 << 20 };
  static int large[length];
  int answer = 0;
  MPI_Request request;
  if (rank == 0) {
    MPI_Isend(large, length, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    MPI_Recv(&answer, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(large, length, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&answer, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
}

/* Rank 0 has more under way than its layer likes to hold, and rank 1 learns from the simulation which of it comes. */
static void sends_much(void) {
  enum { length = 65 << 18 };
  int *const much = calloc(length, sizeof(int));
  int few[2] = {7, 8};
  MPI_Request requests[2];
  if (rank == 0) {
    much[length - 1] = 6;
    MPI_Isend(much, length, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(few, 2, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[1]);
  } else if (rank == 1) {
    few[0] = 0;
    MPI_Irecv(much, length, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(few, 2, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
  }
  if (rank < 2) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  if (rank == 1 && (much[length - 1] != 6 || few[0] != 7)) printf("wrong: much\n"), MPI_Abort(MPI_COMM_WORLD, 5);
  free(much);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *const way = argc > 1 ? argv[1] : "recv";
  if (strcmp(way, "endless") == 0) {
    if (rank == 0) printf("begun\n"), fflush(stdout);
    while (1) usleep(1000), MPI_Barrier(MPI_COMM_WORLD);
  }
  if (strcmp(way, "deadlock") == 0) {
    int got, flag = 0;
    if (rank == 0) MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!flag) MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
  if (strcmp(way, "complete") == 0) {
    for (int each = 0; each < 6; ++each) completes(each);
    helps_while_it_waits();
    sends_much();
    if (rank == 0) printf("complete\n");
  } else if (rank == 0) {
    deals_out(way);
  } else {
    works();
  }
  MPI_Finalize();
  return 0;
}
