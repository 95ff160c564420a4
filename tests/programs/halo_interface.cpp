// The halo library's interfaces in C++ and C, on any number of ranks: cells of several components, fields without
// cells, first cells, and options of programs that were compiled with another version. "ok" from rank 0.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "nearfield/halo.hpp"

namespace {

int rank = 0, ranks = 1, failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("rank %d: not so: %s\n", rank, what.c_str());
}

using Vector = std::array<float, 3>;  // rows of these are no whole number of cells apart
constexpr std::int64_t columns = 5;

Vector value(std::int64_t i, std::int64_t j) {
  const std::int64_t rows = 2 * ranks;
  const auto first = static_cast<float>((i + rows) % rows * 100 + (j + columns) % columns);
  return {first, -first, first / 2};
}

// Every cell, ghost cells included, and rows and spans of cells, of a field whose cells have three components.
void vectors(nearfield::Grid<2>& grid, const nearfield::Field<Vector, 2>& field) {
  const auto cells = field.view();
  nearfield::for_each_cell(grid.all(), [&](auto i, auto j) { cells(i, j) = value(grid.first(0) + i, j); });
  grid.exchange(field);
  bool alike = true, whole = true;
  for (std::int64_t i = -1; i <= grid.count(0); ++i) {
    for (std::int64_t j = -1; j <= columns; ++j)
      alike = alike && cells(i, j) == value(grid.first(0) + i, j) && &cells(i, j) == cells.row(i) + j;
    const auto own = cells.own(i);
    whole = whole && own.size() == columns && own.back() == value(grid.first(0) + i, columns - 1);
  }
  expect(alike, "cells of three components, and rows of them, are as their owners have them");
  expect(whole, "own() spans this rank's cells of a row, all components");
  expect(cells.data() == field.data() && cells.strides()[1] == 3, "strides count numbers");
}

void sums(nearfield::Grid<2>& grid) {
  const auto field = grid.ghosted_field<std::array<int, 2>>();
  const auto cells = field.view();
  for (std::int64_t j = -1; j <= columns; ++j) cells(-1, j) = {1, 10};
  grid.accumulate(field);
  expect(cells(1, 2)[0] == 1 && cells(1, 2)[1] == 10 && cells(0, 2)[1] == 0, "components are accumulated each");
}

void one_and_three_dimensions() {
  nearfield::Grid<1> line(MPI_COMM_WORLD, {.extents = 3 * ranks, .halo = {{2, 0}}, .periodic = {{true, false}}});
  const auto field = line.field<int>();
  for (int& cell : field.view().own()) cell = rank + 1;
  field.ready();
  field.wait();
  expect(field.view()(-2) == (rank + ranks - 1) % ranks + 1, "one dimension, one side periodic");
  nearfield::Grid<3> box(MPI_COMM_WORLD, {.extents = {2 * ranks, 3, 3}, .halo = {1, 0, {0, 1}}, .dims = {ranks, 1, 1}});
  const auto cells = box.field<std::array<double, 5>>();
  cells.view()(1, 2, 2)[4] = rank + 1;
  box.exchange_width({1, 0, 0}, cells);
  expect(rank == 0 || cells.view()(-1, 2, 2)[4] == rank, "three dimensions, five components");
}

template <class Work>
void refused(int code, const std::string& words, Work&& work) {
  try {
    work();
    expect(false, "an error with the words: " + words);
  } catch (const nearfield::HaloError& error) {
    expect(error.code == code && std::string(error.what()).find(words) != std::string::npos, words + error.what());
  }
}

// Returns what the library makes of another program's nf_grid_options of that many bytes.
void create(const nf_grid_options& options, std::size_t bytes) {
  nf_grid_options changed = options;
  changed.struct_size = bytes;
  nf_grid* grid = nullptr;
  nearfield::halo_detail::check(nf_grid_create(MPI_COMM_WORLD, &changed, &grid));
  nf_grid_info info;
  nf_grid_get_info(grid, &info);
  expect(info.dimensions == 1 && info.ranks == ranks, "a grid of an older program");
  nf_grid_free(&grid);
}

void sizes() {
  constexpr std::size_t all = sizeof(nf_grid_options);
  nf_grid_options options = nf_grid_defaults();
  expect(options.struct_size == all && options.corners && options.extents[2] == 1, "defaults know their size");
  options.extents[0] = 2 * ranks;
  options.costs = "no/such/file";
  create(options, offsetof(nf_grid_options, costs));  // which did not know of costs
  create(options, offsetof(nf_grid_options, halo));
  refused(NF_ARGUMENT, "costs in no/such/file cannot be read", [&] { create(options, all); });
  refused(NF_ARGUMENT, "struct_size of 0, too little for its extents: begin with nf_grid_defaults()",
          [&] { create(options, 0); });
  refused(NF_ARGUMENT, "load a library that is not older than the nearfield/halo.h of the program",
          [&] { create(options, all + 8); });
}

// If a program's struct is smaller, no byte beyond it is written; if it is larger, the rest becomes zeros.
void defaults_of_other_sizes() {
  constexpr std::size_t all = sizeof(nf_grid_options), known = offsetof(nf_grid_options, reorder);
  alignas(nf_grid_options) unsigned char bytes[all + 8];
  const auto* options = reinterpret_cast<const nf_grid_options*>(bytes);
  const auto init = [&](std::size_t size) {
    std::memset(bytes, 0xee, sizeof bytes);
    return nf_grid_options_init(reinterpret_cast<nf_grid_options*>(bytes), size);
  };
  expect(init(known) == NF_OK && options->struct_size == known && options->corners == 1, "an older program's defaults");
  expect(bytes[known] == 0xee, "nothing is written behind an older program's options");
  expect(init(all + 8) == NF_ARGUMENT && options->struct_size == all + 8 && bytes[all] == 0, "a newer program's");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    nearfield::Grid<2> grid(MPI_COMM_WORLD, {.extents = {2 * ranks, columns}, .periodic = true, .dims = {ranks, 1}});
    vectors(grid, grid.field<Vector>());
    vectors(grid, grid.ghosted_field<Vector>());
    sums(grid);
    refused(NF_ARGUMENT, "this field has no cells", [] { nearfield::Field<double, 2>().view(); });
  }
  one_and_three_dimensions();
  sizes();
  defaults_of_other_sizes();
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) std::puts("ok");
  MPI_Finalize();
  return all != 0;
}
