#include "sim/run/app/distributed.hpp"

#include <algorithm>
#include <map>

#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 77;
constexpr unsigned word_bytes = 8, index_bytes = 4;  // bytes of a double and of an int

int owner_of_unknown(const std::vector<int>& first, int unknown) {
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), unknown) - first.begin()) - 1;
}

// Returns the rows of one rank. Columns of other ranks' unknowns keep their global numbers.
RankMatrix rows_of_rank(const multigrid::Matrix& matrix, int begin, int end, int own_begin, int own_end) {
  RankMatrix own_part;
  own_part.own_columns.begin = own_part.other_columns.begin = {0};
  for (int i = begin; i < end; ++i) {
    for (int k = matrix.begin[i]; k < matrix.begin[i + 1]; ++k) {
      const int column = matrix.column[k];
      if (own_begin <= column && column < own_end)
        own_part.own_columns.column.push_back(column - own_begin);
      else
        own_part.other_columns.column.push_back(column);
    }
    for (auto* part : {&own_part.own_columns, &own_part.other_columns})
      part->begin.push_back(static_cast<int>(part->column.size()));
  }
  return own_part;
}

void append_entry(std::vector<PeerEntries>& messages, int rank, std::uint64_t offset) {
  if (messages.empty() || messages.back().rank != rank) messages.push_back({rank, offset, 0});
  ++messages.back().count;
}

// Determines which entries of a vector other ranks send to rank `me`: every entry once, in the order of their numbers.
void connect_rank(std::vector<RankMatrix>& ranks, int me, const std::vector<int>& first) {
  RankMatrix& own_part = ranks[me];
  std::map<int, int> place;
  for (const int column : own_part.other_columns.column) place[column] = 0;
  for (auto& [column, at] : place) {
    const int from = owner_of_unknown(first, column);
    RankMatrix& sender = ranks[from];
    append_entry(own_part.receives, from, own_part.num_received);
    append_entry(sender.sends, me, sender.gathered.size());
    sender.gathered.push_back(column - first[from]);
    at = static_cast<int>(own_part.num_received++);
  }
  for (int& column : own_part.other_columns.column) column = place[column];
}

// ---- accesses

Task<> multiply_local(Rank& rank, const LocalMatrix& a, Address x, Address y, bool is_accumulating) {
  AccessBatch batch(rank);
  for (std::uint64_t row = 0; row < a.num_rows(); ++row) {
    access_row(batch, a, row, x, true);
    if (is_accumulating) batch.add_load(y + row * word_bytes);
    batch.add_store(y + row * word_bytes);
    if (batch.is_full()) co_await batch.flush();
  }
  co_await batch.flush();
}

// y[column] += value * x[row]
Task<> multiply_local_transposed(Rank& rank, const LocalMatrix& a, Address x, Address y, std::uint64_t y_count) {
  co_await rank.write(y, y_count * word_bytes);
  AccessBatch batch(rank);
  for (std::uint64_t row = 0; row < a.num_rows(); ++row) {
    batch.add_load(x + row * word_bytes);
    access_row(batch, a, row, y, false);
    for (int k = a.begin[row]; k < a.begin[row + 1]; ++k) {
      batch.add_store(y + static_cast<std::uint64_t>(a.column[static_cast<std::size_t>(k)]) * word_bytes);
      batch.add_independent_flops(1, 4);
    }
    if (batch.is_full()) co_await batch.flush();
  }
  co_await batch.flush();
}

// Copies the unknowns that other ranks need into the send buffer or, with `is_reverse`, adds the entries that other
// ranks returned to these unknowns.
Task<> gather_unknowns(Rank& rank, const RankMatrix& a, Address x, bool is_reverse) {
  AccessBatch batch(rank);
  for (std::size_t i = 0; i < a.gathered.size(); ++i) {
    const Address buffer = a.send_buffer + i * word_bytes,
                  unknown = x + static_cast<std::uint64_t>(a.gathered[i]) * word_bytes;
    batch.add_load(a.gathered_address + i * index_bytes, 1, 0, index_bytes);
    batch.add_load(unknown);
    if (is_reverse) batch.add_load(buffer);
    batch.add_store(is_reverse ? unknown : buffer);
    if (batch.is_full()) co_await batch.flush();
  }
  co_await batch.flush();
}

// ---- messages

// Posts all receives, then all sends. Returns the requests.
std::vector<Request> start_exchange(Rank& rank, const std::vector<PeerEntries>& receives, Address into,
                                    const std::vector<PeerEntries>& sends, Address from) {
  std::vector<Request> requests;
  for (const auto& one : receives)
    requests.push_back(rank.receive(one.rank, Buffer(into + one.offset * word_bytes, one.count * word_bytes), tag));
  for (const auto& one : sends)
    requests.push_back(rank.send(one.rank, Buffer(from + one.offset * word_bytes, one.count * word_bytes), tag));
  return requests;
}

}  // namespace

void access_row(AccessBatch& batch, const LocalMatrix& a, std::uint64_t row, Address x, bool is_accumulating) {
  const auto begin = static_cast<std::uint64_t>(a.begin[row]),
             count = static_cast<std::uint64_t>(a.begin[row + 1]) - begin;
  batch.add_load(a.begin_address + (row + 1) * index_bytes, 1, 0, index_bytes);
  batch.add_index_load(a.column_address + begin * index_bytes, count, index_bytes, index_bytes);
  batch.add_load(a.value_address + begin * word_bytes, count, word_bytes, word_bytes);
  for (auto k = begin; k < begin + count; ++k) {
    batch.add_gather(x + static_cast<std::uint64_t>(a.column[k]) * word_bytes);
    if (is_accumulating)
      batch.add_dependent_flops(1, 3);  // loads of column[k], value[k] and x: sum += value[k] * x[column[k]]
  }
}

std::vector<RankMatrix> partition_by_rows(const multigrid::Matrix& matrix, const std::vector<int>& row_first,
                                          const std::vector<int>& column_first) {
  std::vector<RankMatrix> ranks;
  for (std::size_t r = 0; r + 1 < row_first.size(); ++r)
    ranks.push_back(rows_of_rank(matrix, row_first[r], row_first[r + 1], column_first[r], column_first[r + 1]));
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) connect_rank(ranks, r, column_first);
  return ranks;
}

Task<> allocate_matrix(RankHeap& heap, RankMatrix& matrix) {
  for (LocalMatrix* part : {&matrix.own_columns, &matrix.other_columns}) {
    co_await heap.allocate(part->begin_address, part->begin.size() * index_bytes);
    co_await heap.allocate(part->column_address, part->column.size() * index_bytes);
    co_await heap.allocate(part->value_address, part->column.size() * word_bytes);
  }
  co_await heap.allocate(matrix.gathered_address, matrix.gathered.size() * index_bytes);
  matrix.send_buffer = heap.allocate(matrix.gathered.size() * word_bytes);
  matrix.receive_buffer = heap.allocate(matrix.num_received * word_bytes);
}

Task<> multiply(Rank& rank, const RankMatrix& a, Address x, Address y, bool is_accumulating) {
  co_await gather_unknowns(rank, a, x, false);
  const auto requests = start_exchange(rank, a.receives, a.receive_buffer, a.sends, a.send_buffer);
  co_await multiply_local(rank, a.own_columns, x, y, is_accumulating);
  co_await rank.wait_all(requests);
  if (a.num_received > 0) co_await multiply_local(rank, a.other_columns, a.receive_buffer, y, true);
}

Task<> multiply_transposed(Rank& rank, const RankMatrix& a, Address x, Address y, std::uint64_t y_count) {
  if (a.num_received > 0)
    co_await multiply_local_transposed(rank, a.other_columns, x, a.receive_buffer, a.num_received);
  const auto requests = start_exchange(rank, a.sends, a.send_buffer, a.receives, a.receive_buffer);
  co_await multiply_local_transposed(rank, a.own_columns, x, y, y_count);
  co_await rank.wait_all(requests);
  co_await gather_unknowns(rank, a, y, true);
}

Task<> exchange_unknowns(Rank& rank, const RankMatrix& a, Address x) {
  co_await gather_unknowns(rank, a, x, false);
  const auto requests = start_exchange(rank, a.receives, a.receive_buffer, a.sends, a.send_buffer);
  co_await rank.wait_all(requests);
}

}  // namespace nearfield::sim
