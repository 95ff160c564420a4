// Recursive doubling and dissemination: in each step a rank reads from one other rank, and the number of steps is the
// binary logarithm of the number of ranks. The flat algorithms (algorithms.hpp) have one step, in which each rank reads
// from all others.
//
// The data must not be longer than a slot. A rank that has finished knows that all ranks have entered the first step,
// since the data that it has read came, through other ranks, from all.
#pragma once

#include <bit>

#include "collectives/algorithms.hpp"

namespace nearfield::collectives {

// A dissemination barrier: in step k, rank i waits for rank i - 2^k (modulo the number of ranks).
template <class Port>
void barrier_by_dissemination(Exchange<Port>& x) {
  const std::uint64_t first = x.operation_number() + 1;
  for (int distance = 1; distance < x.ranks(); distance *= 2) {
    x.begin_operation();
    x.post_nothing();
    x.await_post((x.rank() - distance + x.ranks()) % x.ranks());
  }
  x.note_all_entered(first);
}

// An allreduce by recursive doubling, also in place (`send` equals `receive`). If the number of ranks is no power of
// two, the first ranks combine in pairs beforehand, and the second rank of each pair receives the result at the end.
// Pairs combine in the order of their ranks, ((r0 + r1) + (r2 + r3)) + ..., so all ranks get the same bits.
template <class Port, class Combine>
void allreduce_by_doubling(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction) {
  const int rank = x.rank(), ranks = x.ranks();
  const int active = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), pairs = ranks - active;
  const bool is_in_pair = rank < 2 * pairs, is_active = !is_in_pair || rank % 2 == 0;
  const int number = is_in_pair ? rank / 2 : rank - pairs;  // index among the active ranks
  const auto rank_of = [pairs](int of) { return of < pairs ? 2 * of : of + pairs; };
  const std::size_t bytes = reduction.bytes();
  const Slice all{0, reduction.count};
  const std::uint64_t first = x.operation_number() + 1;
  const Bytes* own = send;
  const auto combine_with = [&](int other) {
    const int low = std::min(rank, other), high = std::max(rank, other);
    x.await_post(other);
    combine_slice(x, {low, high, high - low}, all, reduction, receive);
    own = receive;
  };
  if (pairs > 0) {
    x.begin_operation();
    x.post_data(send, bytes);
    if (is_in_pair && is_active) combine_with(rank + 1);
  }
  for (int distance = 1; distance < active; distance *= 2) {
    x.begin_operation();
    if (is_active) {
      x.post_data(own, bytes);
      combine_with(rank_of(number ^ distance));
    } else {
      x.post_nothing();
    }
  }
  if (pairs > 0) {
    x.begin_operation();
    if (is_active) {
      x.post_data(own, bytes);
    } else {
      x.post_nothing();
      x.await_post(rank - 1);
      x.fetch_data(rank - 1, 0, receive, bytes);
    }
  }
  x.note_all_entered(first);
}

// A reduce by recursive doubling. `receive` is used on the root only, where it may equal `send`.
template <class Port, class Combine>
void reduce_by_doubling(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction,
                        int root) {
  alignas(line_bytes) Bytes partial[slot_bytes];
  allreduce_by_doubling(x, send, x.rank() == root ? receive : partial, reduction);
}

}  // namespace nearfield::collectives
