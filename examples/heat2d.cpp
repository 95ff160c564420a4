// Heat in two dimensions: the five-point update of Zhu et al., CCGrid 2015, algorithm 1, with the sum of all cells over
// all steps, on two alternating fields. Each step first updates the cells that neighbours read, then starts the
// exchange, and overlaps it with the update of the other cells.
//   build  cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build/examples
//   run    mpirun -n 4 build/examples/heat2d --rows 512 --columns 768 --steps 200 --frame heat.png [--check]
// --frame writes the temperatures as a picture (.png or .pgm); --check compares with a serial run: cells bit for bit,
// the sum to 1e-12, and ends with exit code 1 if they differ.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "arguments.h"
#include "kernels.hpp"
#include "nearfield/halo.hpp"
#include "picture.hpp"

namespace {

using nearfield::Field;
using nearfield::Grid;
using nearfield::Region;
using nearfield::View;

struct Options {
  std::int64_t rows, columns;
  long steps;
  std::string frame;
  bool check;
};

Options options_of(int argc, char** argv) {
  const char* valued[] = {"--rows", "--columns", "--steps", "--frame", nullptr};
  const char* flags[] = {"--check", nullptr};
  check_arguments(argc, argv, valued, flags);
  return {number_argument(argc, argv, "--rows", 512, 1), number_argument(argc, argv, "--columns", 512, 1),
          number_argument(argc, argv, "--steps", 200, 0), text_argument(argc, argv, "--frame", ""),
          flag_argument(argc, argv, "--check") != 0};
}

// Initial temperature: two hot discs on a cold plate. Beyond the rim of the plate the temperature is always 0.
double at_first(const Options& options, std::int64_t i, std::int64_t j) {
  const auto y = (static_cast<double>(i) + 0.5) / static_cast<double>(options.rows);
  const auto x = (static_cast<double>(j) + 0.5) / static_cast<double>(options.columns);
  if (std::hypot(x - 0.35, y - 0.4) < 0.2) return 1.0;
  return std::hypot(x - 0.75, y - 0.7) < 0.1 ? 0.7 : 0.0;
}

double sweep(const View<double, 2>& old, const View<double, 2>& next, const Region<2>& cells) {
  double sum = 0;
  for (auto i = cells.lo[0]; i < cells.hi[0]; ++i)
    sum += kernels::heat(old.row(i - 1), old.row(i), old.row(i + 1), next.row(i), cells.lo[1], cells.hi[1]);
  return sum;
}

struct Result {
  Field<double, 2> cells;
  double heat;
};

Result simulate(Grid<2>& grid, const Options& options) {
  Field<double, 2> fields[] = {grid.field<double>(), grid.field<double>()};
  const View<double, 2> views[] = {fields[0].view(), fields[1].view()};
  const auto boundary = grid.boundary();
  const auto interior = grid.interior();
  nearfield::for_each_cell(grid.all(), [&](std::int64_t i, std::int64_t j) {
    views[0](i, j) = views[1](i, j) = at_first(options, grid.first(0) + i, grid.first(1) + j);
  });
  double heat = 0;
  int now = 0;
  grid.start(fields[now]);
  for (long step = 0; step < options.steps; ++step) {
    grid.finish();
    const auto &old = views[now], &next = views[1 - now];
    for (const auto& strip : boundary) heat += sweep(old, next, strip);
    now = 1 - now;
    grid.start(fields[now]);
    heat += sweep(old, next, interior);
  }
  grid.finish();
  MPI_Allreduce(MPI_IN_PLACE, &heat, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return {std::move(fields[now]), heat};
}

// Runs the same simulation serially on one array of this process, with a rim of zeros.
struct Serial {
  explicit Serial(const Options& options) : width(options.columns + 2) {
    for (auto& cells : memory) cells.resize(static_cast<std::size_t>((options.rows + 2) * width));
    for (std::int64_t i = 0; i < options.rows; ++i)
      for (std::int64_t j = 0; j < options.columns; ++j) *at(0, i, j) = *at(1, i, j) = at_first(options, i, j);
    for (long step = 0; step < options.steps; ++step, now = 1 - now)
      for (std::int64_t i = 0; i < options.rows; ++i)
        heat +=
            kernels::heat(at(now, i - 1, 0), at(now, i, 0), at(now, i + 1, 0), at(1 - now, i, 0), 0, options.columns);
  }
  double* at(int which, std::int64_t i, std::int64_t j) { return &memory[which][(i + 1) * width + j + 1]; }

  std::int64_t width;
  std::vector<double> memory[2];
  double heat = 0;
  int now = 0;
};

bool is_right(const Grid<2>& grid, const Options& options, const Result& result) {
  Serial serial(options);
  const auto view = result.cells.view();
  long wrong = 0;
  nearfield::for_each_cell(grid.all(), [&](std::int64_t i, std::int64_t j) {
    wrong += view(i, j) != *serial.at(serial.now, grid.first(0) + i, grid.first(1) + j);
  });
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  const double off = std::abs(result.heat - serial.heat) / std::max(1.0, std::abs(serial.heat));
  if (grid.info().rank == 0) std::printf("check: %ld cells differ, the sum by %.1e\n", wrong, off);
  return wrong == 0 && off <= 1e-12;
}

// Every rank writes its cells into a picture that is 0 otherwise, and MPI_BOR combines the pictures. MPI_MAX is not
// used: MPICH 4.0 compares bytes as signed numbers.
bool write_frame(const Grid<2>& grid, const Options& options, const Field<double, 2>& cells) {
  picture::Bytes levels(static_cast<std::size_t>(options.rows * options.columns));
  const auto view = cells.view();
  nearfield::for_each_cell(grid.all(), [&](std::int64_t i, std::int64_t j) {
    levels[(grid.first(0) + i) * options.columns + grid.first(1) + j] =
        static_cast<std::uint8_t>(std::lround(255 * std::min(1.0, view(i, j))));
  });
  picture::Bytes whole(levels.size());
  MPI_Reduce(levels.data(), whole.data(), static_cast<int>(levels.size()), MPI_UNSIGNED_CHAR, MPI_BOR, 0,
             MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank != 0 || picture::write(options.frame, static_cast<std::uint32_t>(options.columns),
                                     static_cast<std::uint32_t>(options.rows), whole);
}

bool run(const Options& options) {
  Grid<2> grid(MPI_COMM_WORLD, {.extents = {options.rows, options.columns}, .halo = 1, .corners = false});
  const auto result = simulate(grid, options);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("heat %.15g after %ld steps\n", result.heat, options.steps);
  if (!options.frame.empty() && !write_frame(grid, options, result.cells)) {
    std::fprintf(stderr, "error: cannot write %s\n", options.frame.c_str());
    return false;
  }
  return !options.check || is_right(grid, options, result);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool good = false;
  try {
    good = run(options_of(argc, argv));
  } catch (const nearfield::HaloError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return good ? 0 : 1;
}
