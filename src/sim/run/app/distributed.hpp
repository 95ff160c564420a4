// A matrix that is distributed by rows over ranks, like hypre's ParCSR. Each rank's rows have two parts: the columns of
// the rank's own unknowns, and those of other ranks' unknowns, which the rank must receive first. The functions
// simulate the accesses and messages of one rank.
#pragma once

#include <vector>

#include "sim/run/app/access_batch.hpp"
#include "sim/run/app/heap.hpp"
#include "sim/run/app/multigrid.hpp"

namespace nearfield::sim {

// The entries that are sent to or received from one other rank: `count` entries at `offset` of a buffer.
struct PeerEntries {
  int rank = 0;
  std::uint64_t offset = 0, count = 0;
};

// The sparsity pattern (CSR) of one part of a rank's rows. Columns are relative to the rank's first unknown, or indices
// in the receive buffer.
struct LocalMatrix {
  std::vector<int> begin, column;
  Address begin_address = 0, column_address = 0, value_address = 0;
  std::uint64_t num_rows() const { return begin.size() - 1; }
};

struct RankMatrix {
  LocalMatrix own_columns, other_columns;
  std::vector<PeerEntries> sends, receives;
  std::vector<int> gathered;       // this rank's unknowns to send, peer by peer
  std::uint64_t num_received = 0;  // number of entries received from other ranks
  Address gathered_address = 0, send_buffer = 0, receive_buffer = 0;
};

// Partitions a matrix by rows. Returns the part of every rank, whose arrays are not allocated yet. `row_first` and
// `column_first`: first row and first column of each rank (multigrid::MultigridLevel::first).
std::vector<RankMatrix> partition_by_rows(const multigrid::Matrix& matrix, const std::vector<int>& row_first,
                                          const std::vector<int>& column_first);

// Allocates the arrays of a matrix, and writes all except the send and receive buffers.
Task<> allocate_matrix(RankHeap& heap, RankMatrix& matrix);

// Loads the entries of one row, and x at their columns. `is_accumulating`: the products are accumulated in one sum.
void access_row(AccessBatch& batch, const LocalMatrix& a, std::uint64_t row, Address x, bool is_accumulating);
// Does one rank's part of y = A x, or of y += A x with `is_accumulating`. The exchange of x overlaps with the products
// of own columns.
Task<> multiply(Rank& rank, const RankMatrix& a, Address x, Address y, bool is_accumulating);
// Does one rank's part of y = A^T x. The entries of y for other ranks are computed first; their exchange overlaps with
// the products of own columns.
Task<> multiply_transposed(Rank& rank, const RankMatrix& a, Address x, Address y, std::uint64_t y_count);
// Exchanges x: receives other ranks' entries into `in`.
Task<> exchange_unknowns(Rank& rank, const RankMatrix& a, Address x);

}  // namespace nearfield::sim
