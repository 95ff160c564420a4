// Linked to a program by `nearfield rewrite --measure`: each rank writes the seconds between MPI_Init and MPI_Finalize,
// and the part of them that it has spent in calls that send, receive or wait for messages.
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double start_s, message_calls_s;

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int start_timing_after_init(int result) {
  PMPI_Barrier(MPI_COMM_WORLD);
  start_s = now_s();
  return result;
}

int MPI_Init(int* argc, char*** argv) { return start_timing_after_init(PMPI_Init(argc, argv)); }

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return start_timing_after_init(PMPI_Init_thread(argc, argv, required, provided));
}

int MPI_Finalize(void) {
  double total_s = now_s() - start_s;
  const char* folder = getenv("NEARFIELD_MEASURE");
  char path[4096];
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(path, sizeof path, "%s/times.%d", folder ? folder : ".", rank);
  FILE* file = folder ? fopen(path, "we") : NULL;
  if (file) {
    fprintf(file, "%.9f %.9f\n", total_s, message_calls_s);
    fclose(file);
  }
  return PMPI_Finalize();
}

#define NF_TIMED(name, parameters, arguments)  \
  int MPI_##name parameters {                  \
    double call_start_s = now_s();             \
    int result = PMPI_##name arguments;        \
    message_calls_s += now_s() - call_start_s; \
    return result;                             \
  }
#define NF_ENVELOPE const void *data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm

NF_TIMED(Send, (NF_ENVELOPE), (data, count, type, peer, tag, comm))
NF_TIMED(Ssend, (NF_ENVELOPE), (data, count, type, peer, tag, comm))
NF_TIMED(Bsend, (NF_ENVELOPE), (data, count, type, peer, tag, comm))
NF_TIMED(Rsend, (NF_ENVELOPE), (data, count, type, peer, tag, comm))
NF_TIMED(Isend, (NF_ENVELOPE, MPI_Request* request), (data, count, type, peer, tag, comm, request))
NF_TIMED(Issend, (NF_ENVELOPE, MPI_Request* request), (data, count, type, peer, tag, comm, request))
NF_TIMED(Recv, (void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status* status),
         (data, count, type, peer, tag, comm, status))
NF_TIMED(Irecv, (void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request),
         (data, count, type, peer, tag, comm, request))
NF_TIMED(Sendrecv,
         (const void* data, int count, MPI_Datatype type, int peer, int tag, void* to, int to_count,
          MPI_Datatype to_type, int from, int from_tag, MPI_Comm comm, MPI_Status* status),
         (data, count, type, peer, tag, to, to_count, to_type, from, from_tag, comm, status))
NF_TIMED(Sendrecv_replace,
         (void* data, int count, MPI_Datatype type, int peer, int tag, int from, int from_tag, MPI_Comm comm,
          MPI_Status* status),
         (data, count, type, peer, tag, from, from_tag, comm, status))
NF_TIMED(Start, (MPI_Request * request), (request))
NF_TIMED(Startall, (int count, MPI_Request requests[]), (count, requests))
NF_TIMED(Wait, (MPI_Request * request, MPI_Status* status), (request, status))
NF_TIMED(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses))
NF_TIMED(Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status), (count, requests, index, status))
NF_TIMED(Waitsome, (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]),
         (count, requests, done, indices, statuses))
NF_TIMED(Test, (MPI_Request * request, int* flag, MPI_Status* status), (request, flag, status))
NF_TIMED(Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[]),
         (count, requests, flag, statuses))
