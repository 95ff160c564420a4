/* Algorithm 4 of S1: the same loop over memory of MPI_Win_allocate_shared, each function on lines of its own. */
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
