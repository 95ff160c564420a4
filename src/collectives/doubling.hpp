// Recursive doubling and dissemination: in each step a rank reads from one other rank, and the number of steps is the
// binary logarithm of the number of ranks. The flat algorithms (algorithms.hpp) have one step, in which each rank reads
// from all others.
//
// The data must not be longer than a slot. When a rank finishes, it knows that all ranks have entered the first step,
// since it has received data, directly or through other ranks, from all of them.
#pragma once

#include <bit>

#include "collectives/algorithms.hpp"

namespace nearfield::collectives {

// A dissemination barrier: in step k, rank i waits for rank i - 2^k (modulo the number of ranks).
template <class Port>
void barrier_by_dissemination(Exchange<Port>& exchange) {
  const std::uint64_t first_operation = exchange.operation_number() + 1;
  for (int distance = 1; distance < exchange.ranks(); distance *= 2) {
    exchange.begin_operation();
    exchange.post_nothing();
    exchange.await_post((exchange.rank() - distance + exchange.ranks()) % exchange.ranks());
  }
  exchange.record_all_entered(first_operation);
}

// An allreduce by recursive doubling, also in place (`send` equals `receive`). If the number of ranks is no power of
// two, the first ranks combine in pairs beforehand, and the second rank of each pair receives the result at the end.
// Pairs combine in the order of their ranks, ((r0 + r1) + (r2 + r3)) + ..., so all ranks get the same bits.
template <class Port, class Combine>
void allreduce_by_doubling(Exchange<Port>& exchange, const Bytes* send, Bytes* receive,
                           const Reduction<Combine>& reduction) {
  const int rank = exchange.rank(), ranks = exchange.ranks();
  const int num_active = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), num_pairs = ranks - num_active;
  const bool is_in_pair = rank < 2 * num_pairs, is_active = !is_in_pair || rank % 2 == 0;
  const int active_index = is_in_pair ? rank / 2 : rank - num_pairs;  // index among the active ranks
  const auto rank_of_active = [num_pairs](int index) { return index < num_pairs ? 2 * index : index + num_pairs; };
  const std::size_t bytes = reduction.bytes();
  const Slice all_elements{0, reduction.count};
  const std::uint64_t first_operation = exchange.operation_number() + 1;
  const Bytes* own_vector = send;
  const auto combine_with = [&](int other) {
    const int low = std::min(rank, other), high = std::max(rank, other);
    exchange.await_post(other);
    combine_slice(exchange, {low, high, high - low}, all_elements, reduction, receive);
    own_vector = receive;
  };
  if (num_pairs > 0) {
    exchange.begin_operation();
    exchange.post_data(send, bytes);
    if (is_in_pair && is_active) combine_with(rank + 1);
  }
  for (int distance = 1; distance < num_active; distance *= 2) {
    exchange.begin_operation();
    if (is_active) {
      exchange.post_data(own_vector, bytes);
      combine_with(rank_of_active(active_index ^ distance));
    } else {
      exchange.post_nothing();
    }
  }
  if (num_pairs > 0) {
    exchange.begin_operation();
    if (is_active) {
      exchange.post_data(own_vector, bytes);
    } else {
      exchange.post_nothing();
      exchange.await_post(rank - 1);
      exchange.fetch_data(rank - 1, 0, receive, bytes);
    }
  }
  exchange.record_all_entered(first_operation);
}

// A reduce by recursive doubling. `receive` is used on the root only, where it may equal `send`.
template <class Port, class Combine>
void reduce_by_doubling(Exchange<Port>& exchange, const Bytes* send, Bytes* receive,
                        const Reduction<Combine>& reduction, int root) {
  alignas(cache_line_bytes) Bytes partial[slot_bytes];
  allreduce_by_doubling(exchange, send, exchange.rank() == root ? receive : partial, reduction);
}

}  // namespace nearfield::collectives
