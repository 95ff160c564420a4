/* A ping-pong between two ranks, written as programs outside nearfield are: plain MPI, buffers from posix_memalign.
 *
 *   pingpong FROM TO STEPS MODE...
 *
 * Sizes in bytes from FROM to TO, STEPS powers of two apart. Modes:
 *   same: one buffer is sent and received into, and nobody touches it between.
 *   use:  each rank writes its message, sends it, receives the other's into another buffer and reads that; all of it is
 *         timed.
 * Prints "MODE SIZE NS" for each: half of a round trip, the median of SAMPLES means. What arrives is checked: in `use`
 * every message (its sum, which the program must read anyway), in `same` the buffer at the end of a size. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 15, MAX_TURNS = 500, MIN_TURNS = 2, SAMPLE_BYTES = 4 << 20 };

static int rank;

static void* buffer(size_t size) {
  void* made = NULL;
  if (posix_memalign(&made, 4096, size)) {
    fprintf(stderr, "no memory\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  memset(made, 1, size);
  return made;
}

static void damaged(const char* mode, size_t size) {
  fprintf(stderr, "rank %d: %s of %zu bytes arrived damaged\n", rank, mode, size);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static uint64_t sum_of(const unsigned char* bytes, size_t size) {
  uint64_t sum = 0, word;
  size_t at = 0;
  for (; at + sizeof word <= size; at += sizeof word) {
    memcpy(&word, bytes + at, sizeof word);
    sum += word;
  }
  for (; at < size; ++at) sum += bytes[at];
  return sum;
}

/* What sum_of gives for a buffer in which every byte is `value`. */
static uint64_t sum_wanted(unsigned char value, size_t size) {
  return size / 8 * (value * UINT64_C(0x0101010101010101)) + size % 8 * value;
}

static void send(void* bytes, size_t size) { MPI_Send(bytes, (int)size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD); }

static void receive(void* bytes, size_t size) {
  MPI_Recv(bytes, (int)size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void write_and_send(unsigned char* bytes, size_t size, unsigned char value) {
  memset(bytes, value, size);
  send(bytes, size);
}

static void receive_and_read(unsigned char* bytes, size_t size, unsigned char value) {
  receive(bytes, size);
  if (sum_of(bytes, size) != sum_wanted(value, size)) damaged("use", size);
}

static void same(unsigned char* out, unsigned char* in, size_t size, unsigned number) {
  (void)in, (void)number;
  if (rank == 0) send(out, size), receive(out, size);
  if (rank == 1) receive(out, size), send(out, size);
}

static void use(unsigned char* out, unsigned char* in, size_t size, unsigned number) {
  const unsigned char there = (unsigned char)(2 * number + 1), back = (unsigned char)(there + 1);
  if (rank == 0) write_and_send(out, size, there), receive_and_read(in, size, back);
  if (rank == 1) receive_and_read(in, size, there), write_and_send(out, size, back);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const char* mode, unsigned char* out, unsigned char* in, size_t size) {
  void (*const turn)(unsigned char*, unsigned char*, size_t, unsigned) = strcmp(mode, "use") ? same : use;
  size_t turns = SAMPLE_BYTES / size;
  turns = turns > MAX_TURNS ? MAX_TURNS : turns < MIN_TURNS ? MIN_TURNS : turns;
  double ns[SAMPLES];
  unsigned number = 0;
  memset(out, rank == 0 ? 1 : 2, size);
  turn(out, in, size, number++);
  for (int sample = 0; sample < SAMPLES; ++sample) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (size_t i = 0; i < turns; ++i) turn(out, in, size, number++);
    ns[sample] = (MPI_Wtime() - start) / (double)turns / 2 * 1e9;
  }
  if (turn == same && sum_of(out, size) != sum_wanted(1, size)) damaged(mode, size);
  qsort(ns, SAMPLES, sizeof *ns, ascending);
  if (rank == 0) printf("%s %zu %.1f\n", mode, size, ns[SAMPLES / 2]), fflush(stdout);
}

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || count < 5) {
    fprintf(stderr, "two ranks: pingpong FROM TO STEPS MODE...\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const size_t from = strtoull(words[1], NULL, 10), to = strtoull(words[2], NULL, 10);
  unsigned char *const out = buffer(to), *const in = buffer(to);
  for (int mode = 4; mode < count; ++mode)
    for (size_t size = from; size && size <= to; size <<= atoi(words[3])) measure(words[mode], out, in, size);
  free(out), free(in);
  MPI_Finalize();
  return 0;
}
