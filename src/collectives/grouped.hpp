// Collectives in two levels: inside groups of consecutive ranks, such as the ranks on the cores that share a cache, and
// between the leaders, which are the first ranks of the groups. Each cache line and each byte of payload crosses the
// border of a group once, whereas in the flat algorithms (algorithms.hpp) every rank reads them across the border.
//
// A collective in two levels is a sequence of several operations of the exchange. Each operation must be entered by all
// ranks; a rank that has no part in an operation enters it without data and without waiting.
#pragma once

#include "collectives/algorithms.hpp"

namespace nearfield::collectives {

struct Groups {
  int size;  // ranks per group; the last group may be smaller

  int leader_of(int rank) const { return rank / size * size; }
  RankRange members_of(int leader, int ranks) const { return {leader, std::min(leader + size, ranks) - 1}; }
  RankRange leaders(int ranks) const { return {0, leader_of(ranks - 1), size}; }
};

inline constexpr std::size_t bcast_chunk_bytes = 32768;  // leaders read a chunk while members read the previous one

template <class Port>
void await_posts_of(Exchange<Port>& x, RankRange ranks) {
  for (int rank = ranks.first; rank <= ranks.last; rank += ranks.step) x.await_post(rank);
}

template <class Port>
void barrier_in_groups(Exchange<Port>& x, Groups groups) {
  const int leader = groups.leader_of(x.rank());
  const bool is_leader = leader == x.rank();
  const std::uint64_t first = x.operation_number() + 1;
  x.begin_operation();
  x.post_nothing();
  if (is_leader) await_posts_of(x, groups.members_of(leader, x.ranks()));
  x.begin_operation();
  x.post_nothing();
  if (is_leader) await_posts_of(x, groups.leaders(x.ranks()));
  x.begin_operation();
  x.post_nothing();
  if (!is_leader) x.await_post(leader);
  x.note_all_entered(first);
}

// A broadcast chunk by chunk. The members of the root's group and the leaders of the other groups read from the root;
// the other ranks read from their leader.
template <class Port>
void bcast_in_groups(Exchange<Port>& x, Bytes* data, std::size_t bytes, int root, Groups groups,
                     std::size_t chunk = bcast_chunk_bytes) {
  const int leader = groups.leader_of(x.rank());
  const bool is_root = x.rank() == root, reads_from_root = x.rank() == leader || leader == groups.leader_of(root);
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(chunk, bytes - offset);
    x.begin_operation();
    if (is_root)
      x.post_data(data + offset, length);
    else
      x.post_nothing();
    if (!is_root && reads_from_root) {
      x.await_post(root);
      x.fetch_data(root, 0, data + offset, length);
    }
    x.begin_operation();
    if (x.rank() == leader && leader != groups.leader_of(root))
      x.post_data(data + offset, length);
    else
      x.post_nothing();
    if (!reads_from_root) {
      x.await_post(leader);
      x.fetch_data(leader, 0, data + offset, length);
    }
    offset += length;
  } while (offset < bytes);
  x.publish_reads_finished();
  x.await_readers();
}

// An allreduce, also in place (`send` equals `receive`). Each leader combines the vectors of its group; then each
// leader combines the results of all groups: (r0 + r1) + (r2 + r3). So the size of the groups affects rounding. Long
// vectors pass through the slots in chunks.
template <class Port, class Combine>
void allreduce_in_groups(Exchange<Port>& x, const Bytes* send, Bytes* receive, const Reduction<Combine>& reduction,
                         Groups groups) {
  alignas(line_bytes) Bytes sum[slot_bytes];
  const int leader = groups.leader_of(x.rank());
  const bool is_leader = leader == x.rank();
  const std::size_t max_count = slot_bytes / reduction.width;
  std::size_t at = 0;
  do {
    const std::uint64_t first = x.operation_number() + 1;
    const Reduction<Combine> part{std::min(max_count, reduction.count - at), reduction.width, reduction.combine};
    const std::size_t offset = at * reduction.width, bytes = part.bytes();
    const Slice all{0, part.count};
    x.begin_operation();
    x.post_data(send + offset, bytes);
    if (is_leader) {
      const RankRange members = groups.members_of(leader, x.ranks());
      await_posts_of(x, members);
      combine_slice(x, members, all, part, sum);
    }
    x.begin_operation();
    if (is_leader) {
      x.post_data(sum, bytes);
      const RankRange leaders = groups.leaders(x.ranks());
      await_posts_of(x, leaders);
      combine_slice(x, leaders, all, part, receive + offset);
    } else {
      x.post_nothing();
    }
    x.begin_operation();
    if (is_leader) {
      x.post_data(receive + offset, bytes);
    } else {
      x.post_nothing();
      x.await_post(leader);
      x.fetch_data(leader, 0, receive + offset, bytes);
    }
    x.note_all_entered(first);
    at += part.count;
  } while (at < reduction.count);
}

}  // namespace nearfield::collectives
