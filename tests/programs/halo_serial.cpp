// A box stencil on 2 x 2 ranks of two nodes, against the same on one: after every exchange each own cell and each
// ghost cell, those in corners too. Ranks of a node share one array, so that a ghost cell in a corner may be two ranks'
// at once, and both receive it from the other node. Prints "ok" from rank 0; exit code 1 on failure.
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "nearfield/halo.hpp"

namespace {

constexpr std::int64_t rows = 13, columns = 18;
constexpr int halo = 2, steps = 6;

std::int64_t wrapped(std::int64_t i, std::int64_t n) { return ((i % n) + n) % n; }

struct Whole {
  std::vector<std::uint64_t> cells = std::vector<std::uint64_t>(rows * columns);
  std::uint64_t& operator()(std::int64_t i, std::int64_t j) {
    return cells[static_cast<std::size_t>(wrapped(i, rows) * columns + wrapped(j, columns))];
  }
};

// Each of the 25 cells with another weight, so that none can stand for another.
template <class Cells>
std::uint64_t next_of(Cells& cells, std::int64_t i, std::int64_t j) {
  std::uint64_t sum = 0;
  for (int a = -halo; a <= halo; ++a)
    for (int b = -halo; b <= halo; ++b) sum += static_cast<std::uint64_t>(7 * a + b + 100) * cells(i + a, j + b);
  return sum;
}

int wrong_cells(const nearfield::Grid<2>& grid, const nearfield::View<std::uint64_t, 2>& mine, Whole& whole) {
  int wrong = 0;
  for (std::int64_t i = -halo; i < mine.extent(0) + halo; ++i)
    for (std::int64_t j = -halo; j < mine.extent(1) + halo; ++j)
      wrong += mine(i, j) != whole(grid.first(0) + i, grid.first(1) + j);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    nearfield::Grid<2> grid(MPI_COMM_WORLD,
                            {.extents = {rows, columns}, .halo = halo, .periodic = true, .dims = {2, 2}});
    if (grid.info().ranks_per_node != 2 || grid.info().neighbours_in_place != 1) {
      std::printf("rank %d is not one of two on a node that read each other in place\n%s", rank,
                  grid.explain().c_str());
      wrong = 1;
    }
    auto now = grid.field<std::uint64_t>(), next = grid.field<std::uint64_t>();
    Whole whole, then;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) whole(i, j) = static_cast<std::uint64_t>(i * columns + j + 1);
    nearfield::for_each_cell(grid.all(), [&, cells = now.view()](auto i, auto j) {
      cells(i, j) = whole(grid.first(0) + i, grid.first(1) + j);
    });
    for (int step = 0; step < steps; ++step) {
      grid.exchange(now);
      auto cells = now.view(), results = next.view();
      if (const int found = wrong_cells(grid, cells, whole)) {
        std::printf("rank %d: %d cells are wrong after step %d\n", rank, found, step);
        wrong += found;
      }
      nearfield::for_each_cell(grid.all(), [&](auto i, auto j) { results(i, j) = next_of(cells, i, j); });
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) then(i, j) = next_of(whole, i, j);
      std::swap(whole, then);
      std::swap(now, next);
    }
  }
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) std::puts("ok");
  MPI_Finalize();
  return all != 0;
}
