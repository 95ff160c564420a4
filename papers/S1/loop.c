/* Algorithm 4 of paper S1 (README.md): three variants of a loop over memory from MPI_Win_allocate_shared. The test of
   the compiler's report (live/compiler.py) requires that each function has separate lines. */
double *mem;

void plain(int n) {
  for (int i = 0; i < n; i++) mem[i] = (double)i;
}

void alias(int n) {
  double *mem2 = mem;
  for (int i = 0; i < n; i++) mem2[i] = (double)i;
}

void restricted(int n, double *restrict window) {
  for (int i = 0; i < n; i++) window[i] = (double)i;
}
