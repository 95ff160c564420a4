// A matrix distributed by rows over ranks, as hypre's ParCSR: each rank's rows have two parts, with the columns of its
// own unknowns and with those of other ranks, which it receives beforehand. The products are the accesses and messages
// of one rank.
#pragma once

#include <vector>

#include "sim/run/app/access_batch.hpp"
#include "sim/run/app/heap.hpp"
#include "sim/run/app/multigrid.hpp"

namespace nearfield::sim {

// The entries that are sent to or received from one other rank: `count` entries at `offset` of a buffer.
struct Package {
  int rank = 0;
  std::uint64_t offset = 0, count = 0;
};

// The sparsity pattern (CSR) of a part; columns are relative to the rank's first, or indices into the receive buffer.
struct LocalMatrix {
  std::vector<int> begin, column;
  Address begin_at = 0, column_at = 0, value_at = 0;
  std::uint64_t rows() const { return begin.size() - 1; }
};

struct RankMatrix {
  LocalMatrix own, others;
  std::vector<Package> sends, receives;
  std::vector<int> gathered;   // the rank's unknowns to send, package by package
  std::uint64_t received = 0;  // number of entries
  Address gathered_at = 0, out = 0, in = 0;
};

// Returns the matrix of every rank, not yet allocated. `row_first` and `column_first`: multigrid::Level::first.
std::vector<RankMatrix> cut(const multigrid::Matrix& matrix, const std::vector<int>& row_first,
                            const std::vector<int>& column_first);

// Allocates the arrays, and writes them.
Task<> place(Heap& heap, RankMatrix& matrix);

// Accesses one row's entries, and x at their columns; `sums`: the products are accumulated in one sum.
void read_row(AccessBatch& batch, const LocalMatrix& a, std::uint64_t row, Address x, bool sums);
// Does one rank's part of y = A x (or y += A x). The exchange of x overlaps with the products of own columns.
Task<> multiply(Rank& rank, const RankMatrix& a, Address x, Address y, bool adds);
// Does one rank's part of y = A^T x. Entries for other ranks are computed first; their exchange overlaps with own
// columns.
Task<> multiply_transposed(Rank& rank, const RankMatrix& a, Address x, Address y, std::uint64_t y_count);
// Exchanges x: receives other ranks' entries into `in`.
Task<> exchange(Rank& rank, const RankMatrix& a, Address x);

}  // namespace nearfield::sim
