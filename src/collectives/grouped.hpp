// Collectives in two levels: inside groups of consecutive ranks, such as the ranks on the cores that share a cache, and
// between the leaders, which are the first ranks of the groups. Each cache line and each byte of payload crosses the
// border of a group once, whereas in the flat algorithms (algorithms.hpp) every rank reads them across the border.
//
// A collective in two levels is a sequence of several operations of the exchange. All ranks must enter each operation;
// a rank that has no part in an operation enters it without offering data and without waiting.
#pragma once

#include "collectives/algorithms.hpp"

namespace nearfield::collectives {

struct Groups {
  int size;  // ranks per group; the last group may be smaller

  int leader_of(int rank) const { return rank / size * size; }
  RankRange members_of(int leader, int num_ranks) const { return {leader, std::min(leader + size, num_ranks) - 1}; }
  RankRange leaders(int num_ranks) const { return {0, leader_of(num_ranks - 1), size}; }
};

inline constexpr std::size_t bcast_chunk_bytes = 32768;  // leaders read a chunk while members read the previous one

template <class Port>
void await_posts_of_ranks(Exchange<Port>& exchange, RankRange ranks) {
  for (int rank = ranks.first; rank <= ranks.last; rank += ranks.step) exchange.await_post(rank);
}

template <class Port>
void barrier_in_groups(Exchange<Port>& exchange, Groups groups) {
  const int leader = groups.leader_of(exchange.rank());
  const bool is_leader = leader == exchange.rank();
  const std::uint64_t first = exchange.operation_number() + 1;
  exchange.begin_operation();
  exchange.post_nothing();
  if (is_leader) await_posts_of_ranks(exchange, groups.members_of(leader, exchange.ranks()));
  exchange.begin_operation();
  exchange.post_nothing();
  if (is_leader) await_posts_of_ranks(exchange, groups.leaders(exchange.ranks()));
  exchange.begin_operation();
  exchange.post_nothing();
  if (!is_leader) exchange.await_post(leader);
  exchange.record_all_entered(first);
}

// A broadcast chunk by chunk. The members of the root's group and the leaders of the other groups read from the root;
// the other ranks read from their leader.
template <class Port>
void bcast_in_groups(Exchange<Port>& exchange, Bytes* data, std::size_t bytes, int root, Groups groups,
                     std::size_t chunk = bcast_chunk_bytes) {
  const int leader = groups.leader_of(exchange.rank());
  const bool is_root = exchange.rank() == root,
             reads_from_root = exchange.rank() == leader || leader == groups.leader_of(root);
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(chunk, bytes - offset);
    exchange.begin_operation();
    if (is_root)
      exchange.post_data(data + offset, length);
    else
      exchange.post_nothing();
    if (!is_root && reads_from_root) {
      exchange.await_post(root);
      exchange.fetch_data(root, 0, data + offset, length);
    }
    exchange.begin_operation();
    if (exchange.rank() == leader && leader != groups.leader_of(root))
      exchange.post_data(data + offset, length);
    else
      exchange.post_nothing();
    if (!reads_from_root) {
      exchange.await_post(leader);
      exchange.fetch_data(leader, 0, data + offset, length);
    }
    offset += length;
  } while (offset < bytes);
  exchange.publish_reads_finished();
  exchange.await_readers();
}

// An allreduce, also in place (`send` equals `receive`). Each leader combines the vectors of its group; then each
// leader combines the results of all groups, for example (r0 + r1) + (r2 + r3), so rounding depends on the group size.
// Long vectors are reduced in chunks that fit into the slots.
template <class Port, class Combine>
void allreduce_in_groups(Exchange<Port>& exchange, const Bytes* send, Bytes* receive,
                         const Reduction<Combine>& reduction, Groups groups) {
  alignas(cache_line_bytes) Bytes sum[slot_bytes];
  const int leader = groups.leader_of(exchange.rank());
  const bool is_leader = leader == exchange.rank();
  const std::size_t max_count = slot_bytes / reduction.width;
  std::size_t at = 0;
  do {
    const std::uint64_t first = exchange.operation_number() + 1;
    const Reduction<Combine> part{std::min(max_count, reduction.count - at), reduction.width, reduction.combine};
    const std::size_t offset = at * reduction.width, bytes = part.bytes();
    const Slice all_elements{0, part.count};
    exchange.begin_operation();
    exchange.post_data(send + offset, bytes);
    if (is_leader) {
      const RankRange members = groups.members_of(leader, exchange.ranks());
      await_posts_of_ranks(exchange, members);
      combine_slice(exchange, members, all_elements, part, sum);
    }
    exchange.begin_operation();
    if (is_leader) {
      exchange.post_data(sum, bytes);
      const RankRange leaders = groups.leaders(exchange.ranks());
      await_posts_of_ranks(exchange, leaders);
      combine_slice(exchange, leaders, all_elements, part, receive + offset);
    } else {
      exchange.post_nothing();
    }
    exchange.begin_operation();
    if (is_leader) {
      exchange.post_data(receive + offset, bytes);
    } else {
      exchange.post_nothing();
      exchange.await_post(leader);
      exchange.fetch_data(leader, 0, receive + offset, bytes);
    }
    exchange.record_all_entered(first);
    at += part.count;
  } while (at < reduction.count);
}

}  // namespace nearfield::collectives
