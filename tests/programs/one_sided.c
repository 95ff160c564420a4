// Every kind of window, and every way to use one; each result is checked. Prints "one-sided right" at the end.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 4096 };
static int rank, n;

static void check(int ok, const char* what) {
  if (ok) return;
  printf("rank %d: wrong after %s\n", rank, what);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void fences(MPI_Win win, int* memory, const char* kind) {
  static int mine[N], theirs[N];
  const int right = (rank + 1) % n, left = (rank + n - 1) % n;
  for (int i = 0; i < N; ++i) mine[i] = rank * N + i, memory[i] = -1;
  MPI_Win_fence(0, win);
  MPI_Put(mine, N, MPI_INT, right, 0, N, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < N; ++i) check(memory[i] == left * N + i, kind);
  MPI_Win_fence(0, win);
  MPI_Get(theirs, N, MPI_INT, right, 0, N, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < N; ++i) check(theirs[i] == mine[i], kind);
  for (int i = 0; i < N; ++i) memory[i] = 0;
  MPI_Win_fence(0, win);
  for (int r = 0; r < n; ++r) MPI_Accumulate(mine, N, MPI_INT, r, 0, N, MPI_INT, MPI_SUM, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < N; ++i) check(memory[i] == n * (n - 1) / 2 * N + n * i, kind);
}

static void locks(MPI_Win win, int* memory, const char* kind) {
  memory[0] = memory[1] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  int one = 1, before, expected = 0, swapped = 7;
  for (int i = 0; i < 50; ++i) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win);
    MPI_Win_unlock(0, win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int total = -1;
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Get(&total, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
  MPI_Win_unlock(0, win);
  check(total == 100 * n, kind);
  MPI_Win_lock_all(0, win);
  MPI_Compare_and_swap(&swapped, &expected, &before, MPI_INT, 0, 1, win);
  MPI_Win_flush(0, win);
  MPI_Win_unlock_all(win);
  int winners = before == 0, all = 0;
  MPI_Allreduce(&winners, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(all == 1, kind);
}

static void shared_window(void) {
  int *mine, *left, unit;
  MPI_Aint size;
  MPI_Win win;
  MPI_Win_allocate_shared(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < N; ++i) mine[i] = rank * N + i;
  MPI_Win_fence(0, win);
  MPI_Win_shared_query(win, (rank + n - 1) % n, &size, &unit, &left);
  for (int i = 0; i < N; ++i) check(left[i] == (rank + n - 1) % n * N + i, "Win_allocate_shared");
  MPI_Win_fence(0, win);
  fences(win, mine, "Win_allocate_shared");
  MPI_Win_free(&win);
}

static void dynamic_window(void) {
  int *memory = calloc(N, sizeof *memory), value = rank + 1;
  MPI_Aint mine, *all = malloc((size_t)n * sizeof *all);
  MPI_Win win;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_attach(win, memory, N * sizeof(int));
  MPI_Get_address(memory, &mine);
  MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
  const int right = (rank + 1) % n;
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_INT, right, all[right], 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  check(memory[0] == (rank + n - 1) % n + 1, "Win_create_dynamic");
  MPI_Win_detach(win, memory);
  MPI_Win_free(&win);
  free(memory);
  free(all);
}

int main(int argc, char** argv) {
  int* memory;
  MPI_Win win;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  memory = malloc(N * sizeof *memory);
  MPI_Win_create(memory, N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  fences(win, memory, "Win_create, fence");
  locks(win, memory, "Win_create, lock");
  MPI_Win_free(&win);
  free(memory);
  MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  fences(win, memory, "Win_allocate, fence");
  locks(win, memory, "Win_allocate, lock");
  MPI_Win_free(&win);
  shared_window();
  dynamic_window();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("one-sided right");
  MPI_Finalize();
  return 0;
}
