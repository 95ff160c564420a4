// A stencil of 7 or 27 points in three dimensions, on two alternating fields that neighbours on a node read in place.
//   build  cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build/examples
//   run    mpirun -n 4 build/examples/stencil3d --size 128 --steps 50 --points 27 [--periodic] [--explain] [--check]
// --explain prints the decomposition and its reasons; --check compares with a serial run, bit for bit, and ends with
// exit code 1 if they differ.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "arguments.h"
#include "kernels.hpp"
#include "nearfield/halo.hpp"

namespace {

using nearfield::Field;
using nearfield::Grid;
using nearfield::View;

struct Options {
  std::int64_t size;
  long steps, points;
  bool periodic, explain, check;
};

constexpr kernels::Weights weights_of_7{0.4, 0.1, 0, 0};
constexpr kernels::Weights weights_of_27{0.26, 0.0625, 0.02, 0.015625};

Options options_of(int argc, char** argv) {
  const char* valued[] = {"--size", "--steps", "--points", nullptr};
  const char* flags[] = {"--periodic", "--explain", "--check", nullptr};
  check_arguments(argc, argv, valued, flags);
  Options options{number_argument(argc, argv, "--size", 64, 1),  number_argument(argc, argv, "--steps", 20, 0),
                  number_argument(argc, argv, "--points", 7, 7), flag_argument(argc, argv, "--periodic") != 0,
                  flag_argument(argc, argv, "--explain") != 0,   flag_argument(argc, argv, "--check") != 0};
  if (options.points != 7 && options.points != 27) {
    std::fprintf(stderr, "error: --points is 7 or 27, not %ld\n", options.points);
    std::exit(2);
  }
  return options;
}

// Initial value of a cell: a number that differs from cell to cell, so that a misplaced cell is detected.
double at_first(std::int64_t i, std::int64_t j, std::int64_t k) {
  return static_cast<double>((i * 7919 + j * 104729 + k * 1299709) % 1000003) / 1000003.0;
}

void update(const Options& options, const double* const rows[9], double* next, std::int64_t cells) {
  if (options.points == 7)
    kernels::seven_points(rows, weights_of_7, next, 0, cells);
  else
    kernels::twenty_seven_points(rows, weights_of_27, next, 0, cells);
}

void sweep(const Options& options, const View<double, 3>& old, const View<double, 3>& next) {
  for (std::int64_t i = 0; i < old.extent(0); ++i)
    for (std::int64_t j = 0; j < old.extent(1); ++j) {
      const double* rows[9];
      for (int r = 0; r < 9; ++r) rows[r] = old.row(i + r / 3 - 1, j + r % 3 - 1);
      update(options, rows, next.row(i, j), old.extent(2));
    }
}

Field<double, 3> simulate(Grid<3>& grid, const Options& options) {
  Field<double, 3> now = grid.field<double>(), next = grid.field<double>();
  const auto first = now.view();
  nearfield::for_each_cell(grid.all(), [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    first(i, j, k) = at_first(grid.first(0) + i, grid.first(1) + j, grid.first(2) + k);
  });
  grid.exchange(now);
  for (long step = 0; step < options.steps; ++step) {
    sweep(options, now.view(), next.view());
    grid.exchange(next);
    std::swap(now, next);
  }
  return now;
}

// Runs the same simulation serially on one array of this process, whose rim is filled before every step.
class Serial {
 public:
  explicit Serial(const Options& options) : size_(options.size), width_(size_ + 2) {
    now_.resize(static_cast<std::size_t>(width_ * width_ * width_));
    std::vector<double> next(now_);
    each(0, size_, [&](auto i, auto j, auto k) { at(i, j, k) = at_first(i, j, k); });
    for (long step = 0; step < options.steps; ++step) {
      if (options.periodic) fill_rim();
      for (std::int64_t i = 0; i < size_; ++i)
        for (std::int64_t j = 0; j < size_; ++j) {
          const double* rows[9];
          for (int r = 0; r < 9; ++r) rows[r] = &at(i + r / 3 - 1, j + r % 3 - 1, 0);
          update(options, rows, &next[place(i, j, 0)], size_);
        }
      now_.swap(next);
    }
  }
  double& at(std::int64_t i, std::int64_t j, std::int64_t k) { return now_[place(i, j, k)]; }

 private:
  std::size_t place(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return static_cast<std::size_t>(((i + 1) * width_ + j + 1) * width_ + k + 1);
  }
  template <class Body>
  void each(std::int64_t from, std::int64_t to, Body&& body) {
    nearfield::for_each_cell(nearfield::Region<3>{{from, from, from}, {to, to, to}}, body);
  }
  void fill_rim() {
    const auto inside = [&](std::int64_t i) { return (i + size_) % size_; };
    each(-1, size_ + 1, [&](auto i, auto j, auto k) { at(i, j, k) = at(inside(i), inside(j), inside(k)); });
  }

  std::int64_t size_, width_;
  std::vector<double> now_;
};

bool is_right(const Grid<3>& grid, const Options& options, const Field<double, 3>& cells) {
  Serial serial(options);
  const auto view = cells.view();
  long wrong = 0;
  nearfield::for_each_cell(grid.all(), [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    wrong += view(i, j, k) != serial.at(grid.first(0) + i, grid.first(1) + j, grid.first(2) + k);
  });
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (grid.info().rank == 0) std::printf("check: %ld cells differ\n", wrong);
  return wrong == 0;
}

bool run(const Options& options) {
  Grid<3> grid(MPI_COMM_WORLD, {.extents = {options.size, options.size, options.size},
                                .halo = 1,
                                .periodic = options.periodic,
                                .corners = options.points == 27});
  if (options.explain && grid.info().rank == 0) std::printf("%s", grid.explain().c_str());
  const auto cells = simulate(grid, options);
  double sum = 0;
  const auto view = cells.view();
  nearfield::for_each_cell(grid.all(), [&](auto i, auto j, auto k) { sum += view(i, j, k); });
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (grid.info().rank == 0)
    std::printf("mean %.12g after %ld steps\n", sum / static_cast<double>(options.size * options.size * options.size),
                options.steps);
  return !options.check || is_right(grid, options, cells);
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
