/* Red-black Gauss-Seidel for the Poisson equation in two dimensions, in place on ONE field (C interface). Cells are
 * coloured like a chess board, and the update of a cell reads only cells of the other colour. Each sweep over one
 * colour is a phase, so no cell that a neighbour reads is written in that phase: neighbours always read the latest
 * values, without a copy of the field.
 *   build  cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build/examples
 *   run    mpirun -n 4 build/examples/gauss_seidel --rows 256 --columns 256 --sweeps 500 [--check]
 * --check compares with a serial run, bit for bit, and ends with exit code 1 if they differ.
 */
#include <math.h>

#include "arguments.h"
#include "nearfield/halo.h"

typedef struct {
  int64_t rows, columns;
  long sweeps;
} problem;

/* A box of cells in memory; the cell at `first` has the indices `start` in the whole grid. The ghost cells around the
 * box are readable. */
typedef struct {
  double* first;
  int64_t row; /* distance of two rows, in numbers */
  int64_t start[2], count[2];
} part;

static void must(int code) {
  if (code == NF_OK) return;
  fprintf(stderr, "error: %s\n", nf_error_text());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Returns the right-hand side of the equation in a cell: a source and a sink, times the square of the cell width. */
static double force(const problem* p, int64_t i, int64_t j) {
  if (i == p->rows / 4 && j == p->columns / 3) return 1.0;
  return i == p->rows / 2 && j == p->columns / 2 ? -0.5 : 0.0;
}

/* Updates the cells of one colour, row by row. */
static void sweep(const problem* p, const part* at, int colour) {
  for (int64_t i = 0; i < at->count[0]; ++i) {
    double* here = at->first + i * at->row;
    const double *north = here - at->row, *south = here + at->row;
    for (int64_t j = (at->start[0] + i + at->start[1] + colour) & 1; j < at->count[1]; j += 2)
      here[j] = (north[j] + south[j] + here[j - 1] + here[j + 1] + force(p, at->start[0] + i, at->start[1] + j)) * 0.25;
  }
}

/* Returns the squared residual of the equation, summed over the cells. */
static double residual(const problem* p, const part* at) {
  double sum = 0;
  for (int64_t i = 0; i < at->count[0]; ++i) {
    const double *here = at->first + i * at->row, *north = here - at->row, *south = here + at->row;
    for (int64_t j = 0; j < at->count[1]; ++j) {
      const double r =
          north[j] + south[j] + here[j - 1] + here[j + 1] - 4 * here[j] + force(p, at->start[0] + i, at->start[1] + j);
      sum += r * r;
    }
  }
  return sum;
}

static part part_of(const nf_grid* grid, const nf_field* field) {
  part at;
  nf_grid_info info;
  int64_t strides[3];
  must(nf_grid_get_info(grid, &info));
  nf_field_strides(field, strides);
  at.first = nf_field_data(field);
  at.row = strides[0] / (int64_t)sizeof(double);
  for (int d = 0; d < 2; ++d) {
    at.start[d] = info.start[d];
    at.count[d] = info.count[d];
  }
  return at;
}

static void solve(const problem* p, nf_grid* grid, nf_field* field, const part* at) {
  must(nf_exchange_fields(grid, &field, 1));
  for (long s = 0; s < p->sweeps; ++s)
    for (int colour = 0; colour < 2; ++colour) {
      sweep(p, at, colour);
      must(nf_exchange_fields(grid, &field, 1));
    }
}

/* Returns the number of this rank's cells that differ from a serial run. */
static long differences(const problem* p, const part* at) {
  double* memory = calloc((size_t)((p->rows + 2) * (p->columns + 2)), sizeof(double));
  part all = {memory + p->columns + 3, p->columns + 2, {0, 0}, {p->rows, p->columns}};
  long wrong = 0;
  if (!memory) MPI_Abort(MPI_COMM_WORLD, 1);
  for (long s = 0; s < p->sweeps; ++s)
    for (int colour = 0; colour < 2; ++colour) sweep(p, &all, colour);
  for (int64_t i = 0; i < at->count[0]; ++i)
    for (int64_t j = 0; j < at->count[1]; ++j)
      wrong += at->first[i * at->row + j] != all.first[(at->start[0] + i) * all.row + at->start[1] + j];
  free(memory);
  return wrong;
}

static int run(const problem* p, int check) {
  nf_grid_options options = nf_grid_defaults();
  nf_grid* grid = NULL;
  nf_field* field = NULL;
  int rank = 0;
  long wrong = 0;
  options.dimensions = 2;
  options.extents[0] = p->rows;
  options.extents[1] = p->columns;
  for (int d = 0; d < 2; ++d) options.halo[d][0] = options.halo[d][1] = 1;
  options.corners = 0;
  must(nf_grid_create(MPI_COMM_WORLD, &options, &grid));
  must(nf_field_create(grid, NF_F64, 1, NF_IN_PLACE, &field));
  const part at = part_of(grid, field);
  solve(p, grid, field, &at);
  double left = residual(p, &at);
  if (check) wrong = differences(p, &at);
  MPI_Allreduce(MPI_IN_PLACE, &left, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("residual %.6e after %ld sweeps\n", sqrt(left), p->sweeps);
  if (rank == 0 && check) printf("check: %ld cells differ\n", wrong);
  must(nf_grid_free(&grid));
  return wrong != 0;
}

int main(int argc, char** argv) {
  const char* valued[] = {"--rows", "--columns", "--sweeps", NULL};
  const char* flags[] = {"--check", NULL};
  MPI_Init(&argc, &argv);
  check_arguments(argc, argv, valued, flags);
  const problem p = {number_argument(argc, argv, "--rows", 256, 1), number_argument(argc, argv, "--columns", 256, 1),
                     number_argument(argc, argv, "--sweeps", 500, 0)};
  const int code = run(&p, flag_argument(argc, argv, "--check"));
  MPI_Finalize();
  return code;
}
