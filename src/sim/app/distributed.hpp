// A matrix cut by rows over ranks, as hypre's ParCSR is: each rank's rows have two parts, with the columns of its own
// unknowns and with those of others, which it receives before. Products with the matrix are the accesses and messages
// of one rank.
#pragma once

#include <vector>

#include "sim/app/heap.hpp"
#include "sim/app/multigrid.hpp"
#include "sim/app/walk.hpp"

namespace nearfield::sim {

// The entries that go to or come from one other rank: those from `offset` on of a buffer.
struct Package {
  int rank = 0;
  std::uint64_t offset = 0, count = 0;
};

// The places of the entries; columns count from the rank's first, or are places in the buffer of received entries.
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

// Returns the matrix of every rank, without addresses. `row_first` and `column_first`: multigrid::Level::first.
std::vector<RankMatrix> cut(const multigrid::Matrix& matrix, const std::vector<int>& row_first,
                            const std::vector<int>& column_first);

// Allocates the arrays, which the rank writes.
Task<> place(Heap& heap, RankMatrix& matrix);

// Accesses one row's entries, and x at their columns; `sums`: their products are added to one number.
void read_row(Walk& walk, const LocalMatrix& a, std::uint64_t row, Address x, bool sums);
// Does one rank's part of y = A x (or y += A x): others' entries of x are on their way while own columns are done.
Task<> multiply(Rank& rank, const RankMatrix& a, Address x, Address y, bool adds);
// Does y = A^T x: entries of others are worked out first and are on their way while own columns are done.
Task<> multiply_transposed(Rank& rank, const RankMatrix& a, Address x, Address y, std::uint64_t y_count);
// Receives others' entries of x into `in`.
Task<> exchange(Rank& rank, const RankMatrix& a, Address x);

}  // namespace nearfield::sim
