// A matrix cut by rows over ranks, as hypre's ParCSR is: each rank's rows in two parts, with columns whose unknowns it
// has itself and with others', which it gets from their ranks before. And the products with it, as accesses and
// messages of one rank.
#pragma once

#include <vector>

#include "sim/app/heap.hpp"
#include "sim/app/multigrid.hpp"
#include "sim/app/walk.hpp"

namespace nearfield::sim {

// What goes to or comes from one other rank: entries from `offset` on of a buffer.
struct Package {
  int rank = 0;
  std::uint64_t offset = 0, count = 0;
};

// Where the entries lie; columns are counted from the rank's first, or are places in the buffer of what was received.
struct LocalMatrix {
  std::vector<int> begin, column;
  Address begin_at = 0, column_at = 0, value_at = 0;
  std::uint64_t rows() const { return begin.size() - 1; }
};

struct RankMatrix {
  LocalMatrix own, others;
  std::vector<Package> sends, receives;
  std::vector<int> gathered;   // which of the rank's unknowns go out, package by package
  std::uint64_t received = 0;  // entries
  Address gathered_at = 0, out = 0, in = 0;
};

// Of every rank, without addresses. `row_first` and `column_first`: multigrid::Level::first.
std::vector<RankMatrix> cut(const multigrid::Matrix& matrix, const std::vector<int>& row_first,
                            const std::vector<int>& column_first);

// The arrays, written by the rank.
Task<> place(Heap& heap, RankMatrix& matrix);

// The accesses to one row's entries, and to x where their columns are.
void read_row(Walk& walk, const LocalMatrix& a, std::uint64_t row, Address x);
// One rank's part of y = A x (or y += A x): others' entries of x are on their way while own columns are done.
Task<> multiply(Rank& rank, const RankMatrix& a, Address x, Address y, bool adds);
// y = A^T x: what belongs to others is worked out first and is on its way while own columns are done.
Task<> multiply_transposed(Rank& rank, const RankMatrix& a, Address x, Address y, std::uint64_t y_count);
// What others have of x, into `in`.
Task<> exchange(Rank& rank, const RankMatrix& a, Address x);

}  // namespace nearfield::sim
