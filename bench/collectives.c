/* How long does a collective take inside a node? The program of bench/collectives.py, written as programs outside
 * nearfield are: plain MPI, doubles, buffers from malloc.
 *
 *   mpirun -n 2 collectives OPERATION,... BYTES,... SECONDS
 *
 * Prints "OPERATION BYTES NS" for each operation and size (barrier: once, with 0 bytes). BYTES is the length of the
 * vector; of operations that move a block for each rank (allgather, alltoall, gather, scatter, reduce_scatter_block,
 * alltoallv), the length of one block. NS is the minimum over BATCHES batches of the maximum over ranks of the mean time
 * of a call in that batch. Every call is timed by itself on each rank, and no barrier separates calls: a rank that
 * arrives early measures how long it waits. Before each call, and outside the timed part, each rank rewrites its whole
 * send buffer. A time contains one reading of the clock, which is printed as "clock NS". The batches of one point take
 * about SECONDS, rewriting included. The result of the last call of each point is checked, value by value.
 *
 * Prints "latency begin NS" and "latency end NS", too: the core-to-core latency of a flag between ranks 0 and 1. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 7, ROOT = 0, WARM_UP_CALLS = 4, LATENCY_BATCHES = 50, ROUND_TRIPS = 200, CLOCK_READINGS = 10000 };

/* Ranks that get a result. */
typedef enum { NOBODY, EVERYBODY, THE_ROOT, THE_OTHERS } Receivers;

typedef struct {
  const char* name;
  int sent_blocks, received_blocks; /* 0, 1, or PER_RANK */
  Receivers receivers;
  void (*call)(void);
  double (*expect)(size_t index); /* returns what must lie at this index of the receive buffer */
} Operation;
enum { PER_RANK = -1 };

static int rank, ranks, count;  /* count: doubles of a block */
static double *sent, *received; /* the buffers of the current point */
static int *counts, *offsets;   /* for alltoallv */
static uint64_t number;         /* of the current call; all ranks make the same calls */

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void fail(const char* problem) {
  fprintf(stderr, "collectives: rank %d: %s\n", rank, problem);
  MPI_Abort(MPI_COMM_WORLD, 1);
  exit(1);
}

static void* allocate(size_t bytes) {
  void* const made = malloc(bytes ? bytes : 1);
  if (!made) fail("no memory");
  memset(made, 0, bytes);
  return made;
}

/* Values differ between indices, ranks and 1024 consecutive calls; they and their sums are exact. */
static double first_value(int of_rank) { return (double)(number % 1024) * 0x1p22 + (double)of_rank * 0x1p32; }
static double value(int of_rank, size_t index) { return first_value(of_rank) + (double)index; }

static void rewrite(double* values, size_t length) {
  const double first = first_value(rank);
  for (size_t i = 0; i < length; ++i) values[i] = first + (double)(int)i;
}

static double sum_until(int last_rank, size_t index) {
  double sum = 0;
  for (int i = 0; i <= last_rank; ++i) sum += value(i, index);
  return sum;
}

static void call_barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void call_bcast(void) { MPI_Bcast(rank == ROOT ? sent : received, count, MPI_DOUBLE, ROOT, MPI_COMM_WORLD); }
static void call_reduce(void) { MPI_Reduce(sent, received, count, MPI_DOUBLE, MPI_SUM, ROOT, MPI_COMM_WORLD); }
static void call_allreduce(void) { MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void call_allgather(void) {
  MPI_Allgather(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD);
}
static void call_alltoall(void) { MPI_Alltoall(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, MPI_COMM_WORLD); }
static void call_reduce_scatter_block(void) {
  MPI_Reduce_scatter_block(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void call_gather(void) {
  MPI_Gather(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, ROOT, MPI_COMM_WORLD);
}
static void call_scatter(void) {
  MPI_Scatter(sent, count, MPI_DOUBLE, received, count, MPI_DOUBLE, ROOT, MPI_COMM_WORLD);
}
static void call_scan(void) { MPI_Scan(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void call_alltoallv(void) {
  MPI_Alltoallv(sent, counts, offsets, MPI_DOUBLE, received, counts, offsets, MPI_DOUBLE, MPI_COMM_WORLD);
}

static size_t own_block(void) { return (size_t)rank * (size_t)count; }
static double expect_of_root(size_t i) { return value(ROOT, i); }
static double expect_block_of_root(size_t i) { return value(ROOT, own_block() + i); }
static double expect_sum(size_t i) { return sum_until(ranks - 1, i); }
static double expect_partial_sum(size_t i) { return sum_until(rank, i); }
static double expect_block_of_sum(size_t i) { return sum_until(ranks - 1, own_block() + i); }
static double expect_gathered(size_t i) { return value((int)(i / (size_t)count), i % (size_t)count); }
static double expect_exchanged(size_t i) { return value((int)(i / (size_t)count), own_block() + i % (size_t)count); }

static const Operation operations[] = {
    {"barrier", 0, 0, NOBODY, call_barrier, NULL},
    {"bcast", 1, 1, THE_OTHERS, call_bcast, expect_of_root},
    {"reduce", 1, 1, THE_ROOT, call_reduce, expect_sum},
    {"allreduce", 1, 1, EVERYBODY, call_allreduce, expect_sum},
    {"allgather", 1, PER_RANK, EVERYBODY, call_allgather, expect_gathered},
    {"alltoall", PER_RANK, PER_RANK, EVERYBODY, call_alltoall, expect_exchanged},
    {"reduce_scatter_block", PER_RANK, 1, EVERYBODY, call_reduce_scatter_block, expect_block_of_sum},
    {"gather", 1, PER_RANK, THE_ROOT, call_gather, expect_gathered},
    {"scatter", PER_RANK, 1, EVERYBODY, call_scatter, expect_block_of_root},
    {"scan", 1, 1, EVERYBODY, call_scan, expect_partial_sum},
    {"alltoallv", PER_RANK, PER_RANK, EVERYBODY, call_alltoallv, expect_exchanged},
};

static const Operation* find_operation(const char* name) {
  for (size_t i = 0; i < sizeof operations / sizeof *operations; ++i)
    if (!strcmp(operations[i].name, name)) return &operations[i];
  fail("unknown operation");
  return NULL;
}

static size_t doubles_in(int blocks) { return (size_t)(blocks == PER_RANK ? ranks : blocks) * (size_t)count; }

/* Returns the mean time of `calls` calls on this rank, in ns. */
static double time_calls(const Operation* operation, size_t calls) {
  const size_t length = doubles_in(operation->sent_blocks);
  double total = 0;
  for (size_t i = 0; i < calls; ++i) {
    ++number;
    rewrite(sent, length);
    const double begin = now_ns();
    operation->call();
    total += now_ns() - begin;
  }
  return total / (double)calls;
}

/* Returns how many calls take about that long; the same number on all ranks. */
static size_t choose_calls(const Operation* operation, double batch_ns) {
  time_calls(operation, WARM_UP_CALLS);
  for (size_t calls = 1;; calls *= 2) {
    const double begin = now_ns();
    time_calls(operation, calls);
    double passed = now_ns() - begin;
    MPI_Bcast(&passed, 1, MPI_DOUBLE, ROOT, MPI_COMM_WORLD);
    if (passed < batch_ns / 2) continue;
    const double chosen = (double)calls * batch_ns / passed;
    return chosen < 1 ? 1 : (size_t)chosen;
  }
}

static void verify(const Operation* operation) {
  const Receivers who = operation->receivers;
  if (who == NOBODY || (who == THE_ROOT && rank != ROOT) || (who == THE_OTHERS && rank == ROOT)) return;
  for (size_t i = 0; i < doubles_in(operation->received_blocks); ++i) {
    if (received[i] == operation->expect(i)) continue;
    fprintf(stderr, "%s of %d doubles: %.0f at index %zu, not %.0f\n", operation->name, count, received[i], i,
            operation->expect(i));
    fail("wrong result");
  }
}

static void measure(const Operation* operation, size_t bytes, double seconds) {
  count = (int)(bytes / sizeof(double));
  for (int i = 0; i < ranks; ++i) counts[i] = count, offsets[i] = i * count;
  sent = allocate(doubles_in(operation->sent_blocks) * sizeof(double));
  received = allocate(doubles_in(operation->received_blocks) * sizeof(double));
  const size_t calls = choose_calls(operation, seconds * 1e9 / BATCHES);
  double means[BATCHES], slowest[BATCHES];
  for (int batch = 0; batch < BATCHES; ++batch) means[batch] = time_calls(operation, calls);
  verify(operation);
  MPI_Reduce(means, slowest, BATCHES, MPI_DOUBLE, MPI_MAX, ROOT, MPI_COMM_WORLD);
  if (rank == ROOT) {
    double best = slowest[0];
    for (int batch = 1; batch < BATCHES; ++batch) best = slowest[batch] < best ? slowest[batch] : best;
    printf("%s %zu %.1f\n", operation->name, bytes, best);
    fflush(stdout);
  }
  free(sent);
  free(received);
}

typedef struct {
  _Alignas(128) _Atomic uint64_t request; /* 128 bytes: adjacent-line prefetchers must not couple the two */
  _Alignas(128) _Atomic uint64_t reply;
} Flags;

static void await(const _Atomic uint64_t* flag, uint64_t turn) {
  while (atomic_load_explicit(flag, memory_order_acquire) < turn) {
  }
}

/* Returns half of a round trip between ranks 0 and 1 on rank 0, in ns: the minimum over batches of the mean. */
static double exchange_flags(Flags* flags) {
  double best = 1e18;
  uint64_t turn = 0;
  for (int batch = 0; batch < LATENCY_BATCHES; ++batch) {
    const double begin = now_ns();
    for (int i = 0; i < ROUND_TRIPS; ++i) {
      ++turn;
      if (rank == 0) {
        atomic_store_explicit(&flags->request, turn, memory_order_release);
        await(&flags->reply, turn);
      } else {
        await(&flags->request, turn);
        atomic_store_explicit(&flags->reply, turn, memory_order_release);
      }
    }
    const double mean = (now_ns() - begin) / ROUND_TRIPS / 2;
    best = mean < best ? mean : best;
  }
  return best;
}

static void print_latency(const char* when) {
  void* base;
  MPI_Win window;
  MPI_Aint bytes;
  int unit;
  const MPI_Aint own = rank == 0 ? 2 * (MPI_Aint)sizeof(Flags) : 0; /* twice: the base need not be aligned */
  MPI_Win_allocate_shared(own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
  Flags* const flags = (Flags*)(((uintptr_t)base + sizeof(Flags) - 1) / sizeof(Flags) * sizeof(Flags));
  if (rank == 0) {
    atomic_store(&flags->request, 0);
    atomic_store(&flags->reply, 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double latency = rank < 2 ? exchange_flags(flags) : 0;
  if (rank == 0) {
    printf("latency %s %.1f\n", when, latency);
    fflush(stdout);
  }
  MPI_Win_free(&window);
}

static void print_clock(void) {
  const double begin = now_ns();
  double end = begin;
  for (int i = 0; i < CLOCK_READINGS; ++i) end = now_ns();
  if (rank == 0) printf("clock %.1f\n", (end - begin) / CLOCK_READINGS);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2 || argc != 4) fail("usage: at least two ranks of collectives OPERATION,... BYTES,... SECONDS");
  counts = allocate((size_t)ranks * sizeof *counts);
  offsets = allocate((size_t)ranks * sizeof *offsets);
  print_clock();
  print_latency("begin");
  for (const char* name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
    const Operation* const operation = find_operation(name);
    const char* at = argv[2];
    do {
      char* end;
      const size_t bytes = strtoull(at, &end, 10);
      if (end == at || bytes % sizeof(double) || bytes == 0) fail("sizes are positive multiples of 8");
      measure(operation, operation->receivers == NOBODY ? 0 : bytes, atof(argv[3]));
      at = *end ? end + 1 : end;
    } while (*at && operation->receivers != NOBODY);
  }
  print_latency("end");
  free(counts);
  free(offsets);
  MPI_Finalize();
  return 0;
}
