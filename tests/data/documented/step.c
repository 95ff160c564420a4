/* Two pointers that may overlap, so that nothing is moved. docs/how-to/rewrite.md */
#include <mpi.h>

void step(double* a, double* b, int n, int up, int down) {
  MPI_Sendrecv(a, n, MPI_DOUBLE, up, 0, a + n, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = a[i] * 2;
}
