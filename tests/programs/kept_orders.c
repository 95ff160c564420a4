// Functions in which no order of messages and loops but their own gives the same results, each for a reason that is not
// seen where the loop stands. tests/unit/test_rewrite_front.py expects that `nearfield rewrite` leaves all as they are.
#include "kept_orders.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

double shared;
int limit, position;
struct value {
  double it;
  double several[8];
};
struct grid {
  double* data;
};
union view {
  double numbers[4], others[4];
};
MPI_Comm next_communicator(double*);

// ---- what is received into one name is read by another one

void pointer_to_a_variable(int n, double* restrict a, double* restrict b, int up) {
  double x = 0, *p = &x;
  MPI_Recv(&x, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = *p * a[i];
}

void pointer_to_a_global_variable(int n, double* restrict a, double* restrict b, double* p, int up) {
  MPI_Recv(&shared, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = p[0] * a[i];
}

void bound_behind_a_pointer(double* restrict a, double* restrict b, int* f, int up, int down) {
  MPI_Sendrecv(a + 1, 1, MPI_DOUBLE, up, 0, a, 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 1; i < limit; i++) {
    b[i] = a[i];
    f[i] = 3;
  }
}

void members_of_a_union(double* restrict a, double* restrict b, int up, int down) {
  union view u;
  MPI_Sendrecv(u.numbers, 4, MPI_DOUBLE, up, 0, a, 4, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 4; i < 40; i++) b[i] = a[i];
  for (int i = 0; i < 4; i++) u.others[i] = 1;
}

void member_reached_in_two_ways(double* restrict b, struct value* restrict p, int up) {
  MPI_Recv(p->several, 8, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 8; i++) b[i] = p[0].several[i];
}

void array_of_pointers(int n, double* restrict a, double* restrict b, int up) {
  double* both[2] = {a, b};
  MPI_Recv(a, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = both[0][i];
}

void rows_of_another_array(int n, int m, int up) {
  double *data = malloc(sizeof *data * n * m), **rows = malloc(sizeof *rows * n), *c = malloc(sizeof *c * n * m);
  for (int i = 0; i < n; i++) rows[i] = data + i * m;
  MPI_Recv(data + m, m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) c[i * m + j] = rows[i][j];
}

static void update(struct grid g) {
  for (int i = 0; i < 4; i++) g.data[i] += 1;
}

void structure_with_a_pointer(int n, double* restrict a, double* restrict b, struct grid g, int up) {
  MPI_Recv(a, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  update(g);
  for (int i = 0; i < n; i++) b[i] = 1;
}

// ---- casts and conversions

void bytes_are_counted(int n, int m, double* restrict a, double* restrict b, int up) {
  MPI_Recv((char*)a + 8 * m, 8 * m, MPI_BYTE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 1; i < n - 1; i++)
    for (int j = 0; j < m; j++) b[i * m + j] = a[i * m + j];
}

void other_elements(int n, double* restrict a, double* restrict b, int up) {
  MPI_Recv(&a[3], 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = ((int*)a)[i];
}

void index_that_is_cut(int n, double* restrict a, double* restrict b, int up) {
  MPI_Send(b, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);
  for (int i = 9; i < n; i++) b[(unsigned char)i] = 1;
}

static unsigned char lowest(int k) { return k; }

void result_that_is_cut(int n, double* restrict a, double* restrict b, int up) {
  MPI_Send(b, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD);
  for (int i = 9; i < n; i++) b[lowest(i)] = 1;
}

void comparison_without_sign(double* restrict a, double* restrict b, int up) {
  MPI_Recv(a, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (unsigned i = 0; i < 100; i++) {
    if (i - 1 >= 20)
      b[i] = a[0];
    else
      b[i] = a[i];
  }
}

void loop_that_is_never_executed(unsigned n, double* restrict a, double* restrict b, int up, int down) {
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = -1; i < n; i++) b[i + 1] = a[i + 1];
}

void index_that_wraps(double* restrict a, double* restrict b, int up) {
  MPI_Recv(a, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (unsigned i = 1; i < 100; i++) b[i] = a[i + 4294967295u];
}

// ---- loops that end otherwise than they seem to

void second_condition(int n, double* restrict a, double* restrict b, int up, int down) {
  int done = b[0] > 3;
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n && !done; i++) b[i] = a[i];
}

static void skip(int* k) { *k += 1; }

void counter_changed_by_a_function(int n, double* restrict a, double* restrict b, int up, int down) {
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) {
    b[i] = a[i];
    skip(&i);
  }
}

static void again(double* x, int k) {
  for (int i = 0; i < k; i++) again(x, k - 1);
  x[0] = 1;
}

void recursion(int n, double* restrict a, double* restrict b, int up, int down) {
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  again(b, 3);
}

void value_of_another_case(int n, double* restrict a, double* restrict b, int up) {
  int x = 3;
  MPI_Recv(a, 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) {
    for (int once = 0; once < 1; once++) switch ((int)b[i]) {
        case 0:
          b[i] = 1;
          x = i + 4;
          break;
        case 1:
          b[i] = x + a[i];
      }
  }
}

// ---- what calls are given

static int next(void) {
  position++;
  return position;
}

void buffer_from_a_function(int n, double* restrict a, double* restrict b, int up) {
  MPI_Recv(a + next(), 4, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = position;
}

void communicator_from_a_function(int n, double* restrict a, double* restrict b, int up) {
  MPI_Recv(a, 1, MPI_DOUBLE, up, 0, next_communicator(b), MPI_STATUS_IGNORE);
  for (int i = 1; i < n; i++) b[i] = a[i];
}

void function_of_a_header(int n, double* restrict a, double* restrict b, int up) {
  MPI_Recv(a + n, 1, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = norm(i);
}

void row_length_that_has_changed(int n, int m, int up) {
  double a[n][m], b[n][m];
  m += 1;
  MPI_Recv(&a[1][0], 2 * m, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 1; i < n; i++)
    for (int j = 0; j < m - 1; j++) b[i][j] = a[i][j];
}

void persistent_count_that_has_changed(double* restrict a, double* restrict b, int up) {
  struct {
    int count;
  } s = {3};
  MPI_Request r;
  MPI_Send_init(a, s.count, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &r);
  s.count = 1;
  MPI_Start(&r);
  for (int i = 0; i < 3; i++) b[i] = 2;
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  for (int i = 0; i < 3; i++) a[i] = b[i + 4];
}

MPI_Datatype column;
void make_column(int m) { MPI_Type_contiguous(m, MPI_DOUBLE, &column); }

void length_from_another_function(int n, int m, double* restrict a, double* restrict b, int up, int down) {
  MPI_Sendrecv(&a[8], 1, column, up, 0, &a[n - 9], 1, column, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < n; i++) b[i] = a[i];
}

// ---- directives

void pragma_above_a_blank_line(int n, double* restrict a, double* restrict b, int up, int down) {
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#pragma omp barrier

  for (int i = 1; i < n - 1; i++) b[i] = a[i] + a[i + 1];
}

void code_of_another_configuration(int n, double* restrict a, double* restrict b, int up, int down) {
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#ifdef TRACE
  trace(a);
#endif
  for (int i = 1; i < n - 1; i++) b[i] = a[i] + a[i + 1];
}

void sum_of_several_threads(int n, int m, double* restrict a, double* restrict b, int up, int down) {
  double s = 0;
  MPI_Sendrecv(&a[1], 1, MPI_DOUBLE, up, 0, &a[n - 1], 1, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#pragma omp parallel for reduction(+ : s)
  for (int i = 1; i < n; i++) s += a[i];
  b[0] = s;
}
