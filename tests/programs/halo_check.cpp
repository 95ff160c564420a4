// Exchanges random grids by every protocol and compares every ghost cell with what its owner must have sent.
//   halo_check SEED CASES [PROTOCOL]     prints one line per failure and "ok CASES" from rank 0; exit code 1 on failure
// All ranks draw the same random numbers. A cell's value follows from its place in the whole grid, the field and the
// round, so the right content of any ghost cell is known without a second program.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "nearfield/halo.hpp"

namespace {

using nearfield::Grid;
using Cell = std::array<std::int64_t, 3>;

int rank = 0, ranks = 1, failures = 0;

void fail(const std::string& what) {
  if (failures++ < 10) std::printf("rank %d: %s\n", rank, what.c_str());
}

struct Case {
  nf_grid_options options = nf_grid_defaults();
  int fields = 1;
  bool ghosted = false;
  std::string protocol;
  std::string text() const {
    std::string t = protocol + (ghosted ? " ghosted" : "") + " fields " + std::to_string(fields) + " corners " +
                    std::to_string(options.corners);
    for (int d = 0; d < options.dimensions; ++d) {
      t += " [" + std::to_string(options.extents[d]) + " cells, " + std::to_string(options.dims[d]) + " ranks, halo " +
           std::to_string(options.halo[d][0]) + "+" + std::to_string(options.halo[d][1]) + ", periodic " +
           std::to_string(options.periodic[d][0]) + "+" + std::to_string(options.periodic[d][1]) + "]";
    }
    return t;
  }
};

std::int64_t value(const Cell& cell, int field, int round) {
  return ((cell[0] * 131 + cell[1]) * 137 + cell[2]) * 8 + field * 2 + 1 + round * 100000000LL;
}

constexpr std::int64_t untouched = -4242;

// The owner's cell of one that may lie beyond the grid; false if nobody owns it or it is not to be filled.
bool source(const Case& c, Cell cell, const Cell& lo, const Cell& hi, Cell& result) {
  int beyond = 0;
  for (int d = 0; d < c.options.dimensions; ++d) {
    const auto n = c.options.extents[d];
    if (cell[d] < lo[d] || cell[d] >= hi[d]) ++beyond;
    if ((cell[d] < 0 && !c.options.periodic[d][0]) || (cell[d] >= n && !c.options.periodic[d][1])) return false;
    result[d] = ((cell[d] % n) + n) % n;
  }
  return beyond <= 1 || c.options.corners;
}

struct Part {
  Cell lo{}, hi{1, 1, 1};
  int halo[3][2] = {};
};

Part part_of(const Case& c, const nf_grid_info& info) {
  Part part;
  for (int d = 0; d < c.options.dimensions; ++d) {
    part.lo[d] = info.start[d];
    part.hi[d] = info.start[d] + info.count[d];
    for (int s = 0; s < 2; ++s) part.halo[d][s] = c.options.halo[d][s];
  }
  return part;
}

// Visits (cell in the whole grid, address) for own cells, or for ghost cells as well.
template <class Visit>
void visit(const Part& p, std::int64_t* first, const std::array<std::int64_t, 3>& strides, bool ghosts, Visit&& see) {
  for (int d = 0; d < 3; ++d)
    if (p.hi[d] <= p.lo[d]) return;
  Cell a = p.lo, b = p.hi;
  for (int d = 0; d < 3 && ghosts; ++d) {
    a[d] -= p.halo[d][0];
    b[d] += p.halo[d][1];
  }
  for (auto i = a[0]; i < b[0]; ++i)
    for (auto j = a[1]; j < b[1]; ++j)
      for (auto k = a[2]; k < b[2]; ++k) {
        const bool own = i >= p.lo[0] && i < p.hi[0] && j >= p.lo[1] && j < p.hi[1] && k >= p.lo[2] && k < p.hi[2];
        see(Cell{i, j, k}, own,
            *(first + (i - p.lo[0]) * strides[0] + (j - p.lo[1]) * strides[1] + (k - p.lo[2]) * strides[2]));
      }
}

void compare(const Case& c, const Part& p, std::int64_t* first, const std::array<std::int64_t, 3>& strides, int field,
             int round, bool boundary_unchanged) {
  visit(p, first, strides, true, [&](const Cell& cell, bool, std::int64_t found) {
    Cell owner{};
    std::int64_t wanted = untouched;
    if (source(c, cell, p.lo, p.hi, owner)) {
      wanted = value(owner, field, round);
    } else {
      bool inside = true;
      for (int d = 0; d < c.options.dimensions; ++d) inside = inside && cell[d] >= 0 && cell[d] < c.options.extents[d];
      // If corners are not exchanged, a diagonal ghost cell may or may not be a neighbour's, read in place.
      if (inside || !boundary_unchanged || !c.options.corners) return;
    }
    if (found != wanted)
      fail("round " + std::to_string(round) + " field " + std::to_string(field) + " cell " + std::to_string(cell[0]) +
           "," + std::to_string(cell[1]) + "," + std::to_string(cell[2]) + " is " + std::to_string(found) + " not " +
           std::to_string(wanted) + ": " + c.text());
  });
}

void run_fields(const Case& c) {
  nf_grid* grid = nullptr;
  if (nf_grid_create(MPI_COMM_WORLD, &c.options, &grid) != NF_OK) return fail(nf_error_text() + (": " + c.text()));
  nf_grid_info info;
  nf_grid_get_info(grid, &info);
  const Part p = part_of(c, info);
  std::vector<nf_field*> fields(static_cast<std::size_t>(c.fields));
  std::vector<std::array<std::int64_t, 3>> strides(fields.size(), {0, 0, 0});
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (nf_field_create(grid, NF_I64, 1, c.ghosted ? NF_GHOSTED : NF_IN_PLACE, &fields[f]) != NF_OK)
      return fail(nf_error_text() + (": " + c.text()));
    std::int64_t bytes[3] = {};
    nf_field_strides(fields[f], bytes);
    for (int d = 0; d < 3; ++d) strides[f][d] = bytes[d] / 8;
  }
  const auto first = [&](std::size_t f) { return static_cast<std::int64_t*>(nf_field_data(fields[f])); };
  const bool in_place = nf_field_in_place(fields[0]);
  if (in_place && info.ranks_per_node == info.ranks && info.neighbours_in_place != info.neighbours_on_node)
    fail("not all neighbours on the node are read in place: " + c.text());
  for (int round = 0; round < 4; ++round) {
    for (std::size_t f = 0; f < fields.size(); ++f)
      visit(p, first(f), strides[f], false,
            [&](const Cell& cell, bool, std::int64_t& at) { at = value(cell, static_cast<int>(f), round); });
    if (nf_exchange_fields(grid, fields.data(), c.fields) != NF_OK) fail(nf_error_text() + (": " + c.text()));
    for (std::size_t f = 0; f < fields.size(); ++f)
      compare(c, p, first(f), strides[f], static_cast<int>(f), round, false);
    // In place the rule is to read, then a phase, then write; else all may be changed at once.
    if (in_place && nf_exchange_fields(grid, nullptr, 0) != NF_OK) fail(nf_error_text());
  }
  nf_grid_free(&grid);
}

// Arrays of the caller's, with gaps between rows, and the reverse exchange.
void run_arrays(const Case& c, const std::string& protocol) {
  nf_grid* grid = nullptr;
  if (nf_grid_create(MPI_COMM_WORLD, &c.options, &grid) != NF_OK) return fail(nf_error_text() + (": " + c.text()));
  nf_grid_info info;
  nf_grid_get_info(grid, &info);
  const Part p = part_of(c, info);
  std::array<std::int64_t, 3> extents{1, 1, 1}, strides{};
  for (int d = 0; d < 3; ++d) extents[d] = p.hi[d] - p.lo[d] + p.halo[d][0] + p.halo[d][1];
  strides[2] = 1;
  for (int d = 2; d > 0; --d) strides[d - 1] = strides[d] * (extents[d] + 1);
  std::vector<std::vector<std::int64_t>> memory(static_cast<std::size_t>(c.fields));
  std::vector<nf_array> arrays;
  std::int64_t lead = 0;
  for (int d = 0; d < 3; ++d) lead += p.halo[d][0] * strides[d];
  for (auto& one : memory) {
    one.assign(static_cast<std::size_t>(strides[0] * (extents[0] + 1) + lead + 1), untouched);
    nf_array array{one.data() + lead, {}, NF_I64, 1};
    for (int d = 0; d < c.options.dimensions; ++d) array.strides_bytes[d] = strides[d] * 8;
    arrays.push_back(array);
  }
  nf_exchange* exchange = nullptr;
  if (nf_exchange_create(grid, arrays.data(), c.fields, protocol.c_str(), &exchange) != NF_OK)
    return fail(nf_error_text() + (": " + c.text()));
  for (int round = 0; round < 4; ++round) {
    for (std::size_t f = 0; f < memory.size(); ++f)
      visit(p, memory[f].data() + lead, strides, false,
            [&](const Cell& cell, bool, std::int64_t& at) { at = value(cell, static_cast<int>(f), round); });
    if (nf_exchange_run(exchange) != NF_OK) fail(nf_error_text() + (": " + c.text()));
    // At once: after an exchange of arrays all cells may be changed.
    for (std::size_t f = 0; f < memory.size(); ++f) {
      compare(c, p, memory[f].data() + lead, strides, static_cast<int>(f), round, true);
      visit(p, memory[f].data() + lead, strides, false, [&](const Cell&, bool, std::int64_t& at) { at = -1; });
    }
  }
  // Reverse: every own cell 0, every ghost cell 1; afterwards a cell counts its readers.
  for (auto& one : memory)
    visit(p, one.data() + lead, strides, true, [&](const Cell&, bool own, std::int64_t& at) { at = own ? 0 : 1; });
  if (nf_exchange_accumulate(exchange) != NF_OK) fail(nf_error_text() + (": " + c.text()));
  std::int64_t mine = 0, all = 0, wanted_mine = 0, wanted = 0;
  for (auto& one : memory)
    visit(p, one.data() + lead, strides, true, [&](const Cell& cell, bool own, std::int64_t& at) {
      Cell owner{};
      if (own) mine += at;
      if (!own && source(c, cell, p.lo, p.hi, owner)) ++wanted_mine;
    });
  MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&wanted_mine, &wanted, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (all != wanted) fail("accumulated " + std::to_string(all) + " not " + std::to_string(wanted) + ": " + c.text());
  nf_exchange_free(&exchange);
  nf_grid_free(&grid);
}

// `periodic` in C++ as pairs: which ghost cells beyond the grid's edges are filled, low and high of each dimension.
void run_periodic(const nearfield::Periodic<2>& periodic, const bool (&wanted)[2][2]) {
  const std::int64_t rows = 2 * ranks, columns = 3;
  Grid<2> grid(MPI_COMM_WORLD,
               {.extents = {rows, columns}, .periodic = periodic, .corners = false, .dims = {ranks, 1}});
  auto field = grid.field<double>();
  const auto cells = field.view();
  nearfield::for_each_cell(grid.all(), [&](auto i, auto j) { cells(i, j) = 1; });
  grid.exchange(field);
  const bool first = grid.first(0) == 0, last = grid.first(0) + 2 == rows;
  const bool found[2][2] = {{cells(-1, 0) == 1, cells(2, 0) == 1}, {cells(0, -1) == 1, cells(0, columns) == 1}};
  for (int d = 0; d < 2; ++d)
    for (int side = 0; side < 2; ++side) {
      const bool inside = d == 0 && !(side == 0 ? first : last);
      if (found[d][side] != (inside || wanted[d][side]))
        fail("dimension " + std::to_string(d) + " side " + std::to_string(side) + " of a periodic in C++");
    }
}

Case draw(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Case c;
  c.options.dimensions = 1 + below(3);
  c.options.corners = below(4) > 0;
  c.options.reorder = below(4) > 0;
  c.fields = 1 + below(3);
  for (int d = 0; d < c.options.dimensions; ++d) {
    c.options.extents[d] = below(6) == 0 ? 1 + below(3) : 1 + below(20);  // parts may be empty
    const int both = below(4);
    c.options.halo[d][0] = both;
    c.options.halo[d][1] = below(3) == 0 ? below(4) : both;
    c.options.periodic[d][0] = below(2);
    c.options.periodic[d][1] = below(5) == 0 ? below(2) : c.options.periodic[d][0];
  }
  int left = ranks;  // a random split of the ranks
  for (int d = 0; d < c.options.dimensions; ++d) {
    int n = d == c.options.dimensions - 1 ? left : 1 + below(left);
    while (left % n) --n;
    c.options.dims[d] = n;
    left /= n;
  }
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::mt19937 random(static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 1));
  const int cases = argc > 2 ? std::atoi(argv[2]) : 20;
  for (int i = 0; i < cases; ++i) {
    Case c = draw(random);
    for (int number = 0; const char* name = nf_protocol_name(number); ++number) {
      if (argc > 3 && std::strcmp(argv[3], name) != 0) continue;
      c.protocol = name;
      c.options.protocol = c.protocol.c_str();
      c.ghosted = false;
      run_fields(c);
      const bool in_place = c.protocol == "in-place" || c.protocol == "window";
      if (in_place) {
        c.ghosted = true;
        run_fields(c);
        run_arrays(c, "auto");
        run_arrays(c, "staged");
        run_arrays(c, "single-copy");
        run_arrays(c, "measured");
      } else if (c.protocol != "direct") {
        run_arrays(c, "auto");
        run_arrays(c, c.protocol);
      }
    }
  }
  run_periodic(true, {{true, true}, {true, true}});
  run_periodic({false, true}, {{false, false}, {true, true}});
  run_periodic({{true, false}, false}, {{true, false}, {false, false}});
  run_periodic({true, {false, true}}, {{true, true}, {false, true}});
  int all = 0;
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) std::printf("ok %d\n", cases);
  MPI_Finalize();
  return all != 0;
}
