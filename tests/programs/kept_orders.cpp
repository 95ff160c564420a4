// As kept_orders.c, in C++.
#include "kept_orders.h"

#include <mpi.h>

#include <complex>

struct Logged {
  int level;
  ~Logged();
};
struct Linked {
  double& value;
};

void method_of_an_element(int up, int down) {
  std::complex<double> a[100];
  double b[100];
  MPI_Sendrecv(&a[1], 1, MPI_C_DOUBLE_COMPLEX, up, 0, &a[99], 1, MPI_C_DOUBLE_COMPLEX, down, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < 100; i++) b[i] = a[i].real();
}

void method_of_an_object(int n, double* __restrict a, double* __restrict b, Vector& v, int up, int down) {
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 1; i < n - 1; i++) b[i] = v.norm();
}

void destructor(int n, double* __restrict a, double* __restrict b, int up) {
  MPI_Recv(a, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) {
    Logged logged{};
    b[i] = 1;
  }
}

void reference_in_a_structure(int n, double* __restrict a, double* __restrict b, int up, Linked s) {
  MPI_Recv(a, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = s.value;
}

void memory_that_is_given_back(int n, int m, double* __restrict a, double* __restrict b, int up) {
  double* buffer = new double[m];
  for (int j = 0; j < m; j++) buffer[j] = j;
  MPI_Send(buffer, m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);
  delete[] buffer;
  for (int i = 0; i < n; i++) b[i] = a[i];
}
