#include "sim/run/app/distributed.hpp"

#include <algorithm>
#include <map>

#include "machine/machine.hpp"

namespace nearfield::sim {
namespace {

constexpr int tag = 77;
constexpr unsigned word = 8, index = 4;  // bytes of a double and of an int

int owner_of_unknown(const std::vector<int>& first, int unknown) {
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), unknown) - first.begin()) - 1;
}

// Returns the rows of one rank. Columns of other ranks' unknowns keep their global numbers.
RankMatrix rows_of_rank(const multigrid::Matrix& matrix, int begin, int end, int own_begin, int own_end) {
  RankMatrix mine;
  mine.own.begin = mine.others.begin = {0};
  for (int i = begin; i < end; ++i) {
    for (int k = matrix.begin[i]; k < matrix.begin[i + 1]; ++k) {
      const int column = matrix.column[k];
      if (own_begin <= column && column < own_end)
        mine.own.column.push_back(column - own_begin);
      else
        mine.others.column.push_back(column);
    }
    for (auto* part : {&mine.own, &mine.others}) part->begin.push_back(static_cast<int>(part->column.size()));
  }
  return mine;
}

void append_entry(std::vector<PeerEntries>& packages, int rank, std::uint64_t offset) {
  if (packages.empty() || packages.back().rank != rank) packages.push_back({rank, offset, 0});
  ++packages.back().count;
}

// Determines which ranks send which entries of a vector to rank `me`: every entry once, in the order of their numbers.
void connect_rank(std::vector<RankMatrix>& ranks, int me, const std::vector<int>& first) {
  RankMatrix& mine = ranks[me];
  std::map<int, int> place;
  for (const int column : mine.others.column) place[column] = 0;
  for (auto& [column, at] : place) {
    const int from = owner_of_unknown(first, column);
    RankMatrix& sender = ranks[from];
    append_entry(mine.receives, from, mine.received);
    append_entry(sender.sends, me, sender.gathered.size());
    sender.gathered.push_back(column - first[from]);
    at = static_cast<int>(mine.received++);
  }
  for (int& column : mine.others.column) column = place[column];
}

// ---- accesses

Task<> multiply_local(Rank& rank, const LocalMatrix& a, Address x, Address y, bool adds) {
  AccessBatch batch(rank);
  for (std::uint64_t row = 0; row < a.row_count(); ++row) {
    access_row(batch, a, row, x, true);
    if (adds) batch.load(y + row * word);
    batch.store(y + row * word);
    if (batch.is_full()) co_await batch.flush();
  }
  co_await batch.flush();
}

// y[column] += value * x[row]
Task<> multiply_local_transposed(Rank& rank, const LocalMatrix& a, Address x, Address y, std::uint64_t y_count) {
  co_await rank.write(y, y_count * word);
  AccessBatch batch(rank);
  for (std::uint64_t row = 0; row < a.row_count(); ++row) {
    batch.load(x + row * word);
    access_row(batch, a, row, y, false);
    for (int k = a.begin[row]; k < a.begin[row + 1]; ++k) {
      batch.store(y + static_cast<std::uint64_t>(a.column[static_cast<std::size_t>(k)]) * word);
      batch.add_independent_flops(1, 4);
    }
    if (batch.is_full()) co_await batch.flush();
  }
  co_await batch.flush();
}

// Copies the unknowns that other ranks need into the send buffer or, with `back`, adds the entries that other ranks
// returned to these unknowns.
Task<> gather_unknowns(Rank& rank, const RankMatrix& a, Address x, bool back) {
  AccessBatch batch(rank);
  for (std::size_t i = 0; i < a.gathered.size(); ++i) {
    const Address buffer = a.out + i * word, unknown = x + static_cast<std::uint64_t>(a.gathered[i]) * word;
    batch.load(a.gathered_at + i * index, 1, 0, index);
    batch.load(unknown);
    if (back) batch.load(buffer);
    batch.store(back ? unknown : buffer);
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
    requests.push_back(rank.receive(one.rank, Buffer(into + one.offset * word, one.count * word), tag));
  for (const auto& one : sends)
    requests.push_back(rank.send(one.rank, Buffer(from + one.offset * word, one.count * word), tag));
  return requests;
}

}  // namespace

void access_row(AccessBatch& batch, const LocalMatrix& a, std::uint64_t row, Address x, bool sums) {
  const auto begin = static_cast<std::uint64_t>(a.begin[row]),
             count = static_cast<std::uint64_t>(a.begin[row + 1]) - begin;
  batch.load(a.begin_at + (row + 1) * index, 1, 0, index);
  batch.load_indices(a.column_at + begin * index, count, index, index);
  batch.load(a.value_at + begin * word, count, word, word);
  for (auto k = begin; k < begin + count; ++k) {
    batch.gather_word(x + static_cast<std::uint64_t>(a.column[k]) * word);
    if (sums) batch.add_dependent_flops(1, 3);  // loads of column[k], value[k] and x: sum += value[k] * x[column[k]]
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
  for (LocalMatrix* part : {&matrix.own, &matrix.others}) {
    co_await heap.allocate(part->begin_at, part->begin.size() * index);
    co_await heap.allocate(part->column_at, part->column.size() * index);
    co_await heap.allocate(part->value_at, part->column.size() * word);
  }
  co_await heap.allocate(matrix.gathered_at, matrix.gathered.size() * index);
  matrix.out = heap.allocate(matrix.gathered.size() * word);
  matrix.in = heap.allocate(matrix.received * word);
}

Task<> multiply(Rank& rank, const RankMatrix& a, Address x, Address y, bool adds) {
  co_await gather_unknowns(rank, a, x, false);
  const auto requests = start_exchange(rank, a.receives, a.in, a.sends, a.out);
  co_await multiply_local(rank, a.own, x, y, adds);
  co_await rank.wait_all(requests);
  if (a.received > 0) co_await multiply_local(rank, a.others, a.in, y, true);
}

Task<> multiply_transposed(Rank& rank, const RankMatrix& a, Address x, Address y, std::uint64_t y_count) {
  if (a.received > 0) co_await multiply_local_transposed(rank, a.others, x, a.in, a.received);
  const auto requests = start_exchange(rank, a.sends, a.out, a.receives, a.in);
  co_await multiply_local_transposed(rank, a.own, x, y, y_count);
  co_await rank.wait_all(requests);
  co_await gather_unknowns(rank, a, y, true);
}

Task<> exchange_unknowns(Rank& rank, const RankMatrix& a, Address x) {
  co_await gather_unknowns(rank, a, x, false);
  const auto requests = start_exchange(rank, a.receives, a.in, a.sends, a.out);
  co_await rank.wait_all(requests);
}

}  // namespace nearfield::sim
