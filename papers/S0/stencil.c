/* The loops of listings 1 to 3 of paper S0 (README.md) without their messages: the control measurement of claim S0.9. A
   gain by another order of rows is due to how the compiler places the loops in the code, and not to messages. For each
   shape of the grid, prints a line with the number of rows, the bytes of a row, and the fractions of the time of
   listing 1 that OPT1 and OPT2 save, from the fastest of many batches. Listing 3 has 1.0 / 4 instead of the paper's
   1/4, which is 0 in C. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 150

static double **A, **tmp;
static unsigned ROWS, COLS;

__attribute__((noinline)) static void listing_1(void) {
  for (unsigned i = 0; i < ROWS - 1; ++i)
    for (unsigned j = 0; j < COLS - 1; ++j) tmp[i][j] = A[i][j] + (A[i + 1][j] + A[i][j + 1]) / 4;
}

__attribute__((noinline)) static void opt1(void) {
  for (unsigned j = 0; j < COLS - 1; ++j) tmp[0][j] = A[0][j] + (A[1][j] + A[0][j + 1]) / 4;
  for (unsigned i = 1; i < ROWS - 1; ++i)
    for (unsigned j = 0; j < COLS - 1; ++j) tmp[i][j] = A[i][j] + (A[i + 1][j] + A[i][j + 1]) / 4;
}

__attribute__((noinline)) static void opt2(void) {
  for (long i = (long)ROWS - 3; i >= 0; --i)
    for (long j = (long)COLS - 2; j >= 0; --j) tmp[i][j] = A[i][j] + 1.0 / 4 * (A[i + 1][j] + A[i][j + 1]);
  for (unsigned j = 0; j < COLS - 1; ++j)
    tmp[ROWS - 2][j] = A[ROWS - 2][j] + (A[ROWS - 1][j] + A[ROWS - 2][j + 1]) / 4;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double **matrix(void) {
  double **rows = malloc(ROWS * sizeof *rows);
  for (unsigned i = 0; i < ROWS; ++i) {
    rows[i] = malloc(COLS * sizeof **rows);
    for (unsigned j = 0; j < COLS; ++j) rows[i][j] = i + j;
  }
  return rows;
}

static void measure(unsigned rows, unsigned bytes) {
  void (*const listings[])(void) = {listing_1, opt1, opt2};
  double best[] = {1e9, 1e9, 1e9};
  ROWS = rows, COLS = bytes / sizeof(double);
  A = matrix(), tmp = matrix();
  const unsigned repeats = 200000 / (ROWS * COLS) + 1;
  for (int batch = 0; batch < BATCHES; ++batch)
    for (int n = 0; n < 3; ++n) {
      const double start = seconds();
      for (unsigned i = 0; i < repeats; ++i) listings[n]();
      const double took = seconds() - start;
      if (took < best[n]) best[n] = took;
    }
  printf("%u %u %.4f %.4f\n", rows, bytes, 1 - best[1] / best[0], 1 - best[2] / best[0]);
}

int main(void) {
  measure(32, 256);
  measure(4, 4096);
  return 0;
}
