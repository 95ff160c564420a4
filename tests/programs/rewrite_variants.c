// Runs all variants of random programs on the same data and compares every bit with the first variant, the original:
// the arrays, what lies before and behind them, and whether a message was left over. Each array is followed by memory
// that nobody may touch. Variants given as arguments (program.variant) are left out.
//
// Prints "MISMATCH program.variant ..." where bits differ, "FAILED program.variant ..." before it ends because one
// crashed or took NEARFIELD_PATIENCE_S, and "DONE cases" at the end. The lists of programs come from variants.inc.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void region(int rank, int size, int up, int down, int nx, int ny, int nz, MPI_Comm comm, void* a, void* b,
                    void* out, void* in);
enum { SIZES = 7, ARRAYS = 4, GUARD = 256 };
typedef struct {
  int seed, is_int, is_float, variants;
  region* const* variant;
  int sizes[SIZES][3];
} program;

#include "variants.inc"  // defines `program programs[]` and `int program_count`

static char where[128];
void nf_check_memory(const char* place);
void nf_log_unfinished_requests(void);

static void failed(int number) {
  char line[200];
  int length = snprintf(line, sizeof line, "FAILED %s signal %d\n", where, number);
  if (write(STDOUT_FILENO, line, (size_t)length) < 0) _exit(2);
  _exit(1);
}

static size_t element_bytes(const program* p) { return p->is_int || p->is_float ? 4 : 8; }

static void fill(const program* p, unsigned char* memory, size_t elements, int rank, int array) {
  memset(memory, 0xA5, elements * element_bytes(p) + 2 * GUARD);
  for (size_t i = 0; i < elements; ++i) {
    unsigned number = (unsigned)(i * 2654435761u) ^ (unsigned)(rank * 40503 + array * 977 + p->seed * 131);
    double value = (double)(number % 100003) / 997 + 0.001;
    unsigned char* at = memory + GUARD + i * element_bytes(p);
    if (p->is_int) {
      *(int*)at = (int)(number % 1000);
    } else if (p->is_float) {
      *(float*)at = (float)value;
    } else {
      *(double*)at = value;
    }
  }
}

// Cases take turns with two communicators, so that a rank that is ahead sends nothing into the one that others look into.
static MPI_Comm comms[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
static int turn, has_left_message;  // to this rank, since there are these communicators

static void change_comms(void) {
  for (int i = 0; i < 2; ++i) {
    if (comms[i] != MPI_COMM_NULL) MPI_Comm_free(&comms[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  }
  has_left_message = 0;
}

static void change_comms_if_used(void) {
  int is_used;
  MPI_Allreduce(&has_left_message, &is_used, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
  if (is_used) change_comms();
}

static void run(const program* p, int variant, const int* n, int is_ring, unsigned char* memory[ARRAYS]) {
  int rank, size;
  MPI_Comm comm = comms[turn++ % 2];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int up = rank + 1 < size ? rank + 1 : is_ring ? 0 : MPI_PROC_NULL;
  int down = rank > 0 ? rank - 1 : is_ring ? size - 1 : MPI_PROC_NULL;
  for (int i = 0; i < ARRAYS; ++i) fill(p, memory[i], (size_t)n[0] * n[1] * n[2], rank, i);
  alarm((unsigned)atoi(getenv("NEARFIELD_PATIENCE_S")));
  p->variant[variant](rank, size, up, down, n[0], n[1], n[2], comm, memory[0] + GUARD, memory[1] + GUARD,
                      memory[2] + GUARD, memory[3] + GUARD);
  MPI_Barrier(comm);
  alarm(0);
  nf_log_unfinished_requests();
  int is_left;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &is_left, MPI_STATUS_IGNORE);
  if (is_left && !has_left_message) printf("MISMATCH %s rank %d: a message was left over\n", where, rank);
  has_left_message |= is_left;
}

static long compare(const program* p, int number, int argc, char** argv) {
  int rank;
  long cases = 0;
  unsigned char *wanted[ARRAYS], *found[ARRAYS];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  change_comms();
  for (int s = 0; s < 2 * SIZES; ++s) {
    const int* n = p->sizes[s % SIZES];
    size_t bytes = (size_t)n[0] * n[1] * n[2] * element_bytes(p) + 2 * GUARD;
    for (int i = 0; i < ARRAYS; ++i) wanted[i] = malloc(bytes), found[i] = malloc(bytes);
    for (int v = 0; v < p->variants; ++v) {
      char name[32];
      int is_out = 0;
      snprintf(name, sizeof name, "%d.%d", number, v);
      for (int i = 1; i < argc; ++i) is_out |= strcmp(argv[i], name) == 0;
      if (is_out) continue;
      snprintf(where, sizeof where, "%s size %dx%dx%d%s", name, n[0], n[1], n[2], s < SIZES ? " ring" : "");
      nf_check_memory(where);
      run(p, v, n, s < SIZES, v ? found : wanted);
      for (int i = 0; v && i < ARRAYS; ++i)
        if (memcmp(found[i], wanted[i], bytes)) printf("MISMATCH %s rank %d: array %d\n", where, rank, i);
      ++cases;
    }
    for (int i = 0; i < ARRAYS; ++i) free(wanted[i]), free(found[i]);
    change_comms_if_used();
  }
  return cases;
}

int main(int argc, char** argv) {
  int rank;
  long cases = 0;
  const int numbers[] = {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
  MPI_Init(&argc, &argv);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) signal(numbers[i], failed);
  setvbuf(stdout, NULL, _IOLBF, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < program_count; ++i) cases += compare(&programs[i], i, argc, argv);
  if (rank == 0) printf("DONE %ld\n", cases);
  MPI_Finalize();
  return 0;
}
