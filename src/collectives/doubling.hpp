// Recursive doubling and dissemination: in each step a rank reads from one other rank, and the number of steps is the
// binary logarithm of the number of ranks. The flat algorithms (algorithms.hpp) have one step, in which each rank reads
// from all others.
//
// The data that a rank posts in a step must fit into a slot. When a rank finishes, it knows that all ranks have entered
// the first step, since it has received data, directly or through other ranks, from all of them.
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
// two, the first ranks combine in pairs beforehand, and the second rank of each pair takes part in the last step only,
// in which it reads and combines the same two vectors as the first one. With at most 256 ranks there are at most 8
// operations, so begin_operation() never needs to read the counters of all ranks. Pairs combine in the order of their
// ranks, ((r0 + r1) + (r2 + r3)) + ..., so all ranks get the same bits.
template <class Port, class Combine>
void allreduce_by_doubling(Exchange<Port>& exchange, const Bytes* send, Bytes* receive,
                           const Reduction<Combine>& reduction) {
  const int rank = exchange.rank(), ranks = exchange.ranks();
  const int num_active = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), num_pairs = ranks - num_active;
  const bool is_in_pair = rank < 2 * num_pairs, is_active = !is_in_pair || rank % 2 == 0;
  const int active_rank = is_active ? rank : rank - 1;                // this rank or the first rank of its pair
  const int active_index = is_in_pair ? rank / 2 : rank - num_pairs;  // of `active_rank` among the active ranks
  const auto rank_of_active = [num_pairs](int index) { return index < num_pairs ? 2 * index : index + num_pairs; };
  const std::size_t bytes = reduction.bytes();
  const Slice all_elements{0, reduction.count};
  const std::uint64_t first_operation = exchange.operation_number() + 1;
  const Bytes* own_vector = send;
  const auto combine_vectors_of = [&](int one, int other) {
    const int low = std::min(one, other), high = std::max(one, other);
    exchange.await_post(one);
    exchange.await_post(other);
    combine_slice(exchange, {low, high, high - low}, all_elements, reduction, receive);
    own_vector = receive;
  };
  if (num_pairs > 0) {
    exchange.begin_operation();
    exchange.post_data(send, bytes);
    if (is_in_pair && is_active) combine_vectors_of(rank, rank + 1);
  }
  for (int distance = 1; distance < num_active; distance *= 2) {
    const bool is_last_step = 2 * distance == num_active;
    exchange.begin_operation();
    if (is_active)
      exchange.post_data(own_vector, bytes);
    else
      exchange.post_nothing();
    if (is_active || is_last_step) combine_vectors_of(active_rank, rank_of_active(active_index ^ distance));
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

// Returns the maximum length of a block in allgather_by_doubling() and alltoall_by_doubling(), in which a rank posts up
// to half of all blocks in a step.
inline std::size_t max_doubling_block_bytes(int ranks) {
  return slot_bytes / static_cast<std::size_t>((ranks + 1) / 2);
}

// An allgather of blocks of `bytes` bytes each, which `receive` gets in the order of the ranks. In place: `send` is the
// address of this rank's own block in `receive`. Before a step of distance d, rank i has the blocks of ranks i ...
// i + d - 1 (modulo the number of ranks); in the step it reads the following ones from rank i + d.
//
// Source: J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems",
// IEEE TPDS 8(11), 1997; also for alltoall_by_doubling().
template <class Port>
void allgather_by_doubling(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, std::size_t bytes) {
  alignas(cache_line_bytes) Bytes blocks[2 * slot_bytes];  // the block of rank i + k at index k
  const int rank = exchange.rank(), ranks = exchange.ranks();
  const std::uint64_t first_operation = exchange.operation_number() + 1;
  const auto block_at = [&](Bytes* buffer, int index) { return buffer + static_cast<std::size_t>(index) * bytes; };
  exchange.port().copy_own(blocks, send, bytes);
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int peer = (rank + distance) % ranks;
    const auto num_posted = static_cast<std::size_t>(std::min(distance, ranks - distance));
    exchange.begin_operation();
    exchange.post_data(blocks, num_posted * bytes);
    exchange.await_post(peer);
    exchange.fetch_data(peer, 0, block_at(blocks, distance), num_posted * bytes);
  }
  const int num_unwrapped = ranks - rank;  // blocks of this rank and of higher ranks
  exchange.port().copy_own(block_at(receive, rank), blocks, static_cast<std::size_t>(num_unwrapped) * bytes);
  exchange.port().copy_own(receive, block_at(blocks, num_unwrapped), static_cast<std::size_t>(rank) * bytes);
  exchange.record_all_entered(first_operation);
}

// An all-to-all of blocks of `bytes` bytes each, contiguous and in the order of the ranks in both buffers. A block for
// the rank that follows its sender by k ranks (modulo the number of ranks) moves in the steps whose distance is a bit of
// k, by this distance each.
template <class Port>
void alltoall_by_doubling(Exchange<Port>& exchange, const Bytes* send, Bytes* receive, std::size_t bytes) {
  alignas(cache_line_bytes) Bytes blocks[2 * slot_bytes], moving[slot_bytes];
  const int rank = exchange.rank(), ranks = exchange.ranks();
  const std::uint64_t first_operation = exchange.operation_number() + 1;
  const auto copy_block = [&](Bytes* to, int to_index, const Bytes* from, int from_index) {
    exchange.port().copy_own(to + static_cast<std::size_t>(to_index) * bytes,
                             from + static_cast<std::size_t>(from_index) * bytes, bytes);
  };
  for (int k = 0; k < ranks; ++k) copy_block(blocks, k, send, (rank + k) % ranks);
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int peer = (rank - distance + ranks) % ranks;
    int num_moving = 0;
    for (int k = distance; k < ranks; ++k)
      if (k & distance) copy_block(moving, num_moving++, blocks, k);
    const std::size_t moving_bytes = static_cast<std::size_t>(num_moving) * bytes;
    exchange.begin_operation();
    exchange.post_data(moving, moving_bytes);
    exchange.await_post(peer);
    exchange.fetch_data(peer, 0, moving, moving_bytes);
    num_moving = 0;
    for (int k = distance; k < ranks; ++k)
      if (k & distance) copy_block(blocks, k, moving, num_moving++);
  }
  for (int k = 0; k < ranks; ++k) copy_block(receive, (rank - k + ranks) % ranks, blocks, k);
  exchange.record_all_entered(first_operation);
}

}  // namespace nearfield::collectives
