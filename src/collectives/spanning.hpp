// Collectives of a communicator that spans several nodes: between the ranks of a node by the exchange, between nodes by
// MPI's collectives on the rank's lane (layout.hpp). `leaders`: one lane alone carries what goes between nodes. `lanes`:
// all do, each its part.
//
// The exchange is that of the own node, in which a rank's number is its local one. `Lane` does what goes between nodes;
// its ranks have the numbers of the nodes:
//   barrier(); bcast(data, bytes, root); allreduce(data, count); reduce(data, count, root), whose result replaces the
//   root's data; allgather(own, all, bytes); alltoall(send, receive, bytes).
//
// All ranks call the same function, with a root that is in a lane, with lengths that are the same on all ranks, and, for
// allgather and alltoall, on nodes that have equally many ranks. Each function calls the same functions of its lane on
// all ranks of that lane.
#pragma once

#include "collectives/algorithms.hpp"
#include "collectives/layout.hpp"

namespace nearfield::collectives {

inline constexpr std::size_t lane_chunk_bytes = std::size_t{128} << 10;  // of a broadcast

// `barrier_in_node()` is the barrier of the node's ranks.
template <class Port, class Lane, class Barrier>
void spanning_barrier(Exchange<Port>& x, Lane lane, Barrier barrier_in_node) {
  barrier_in_node();
  x.begin();
  if (x.rank() == 0) lane.barrier();
  x.post_nothing();
  if (x.rank() != 0) x.await(0);
}

// The lane of the root carries the data, chunk by chunk; the other ranks of a node read one while the next is on its way.
template <class Port, class Lane>
void spanning_bcast(Exchange<Port>& x, Lane lane, Bytes* data, std::size_t bytes, Layout::Place root, int own_node,
                    std::size_t chunk = lane_chunk_bytes) {
  const bool is_in_lane = x.rank() == root.local, has_data = root.node == own_node;
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(chunk, bytes - offset);
    if (is_in_lane && !has_data) lane.bcast(data + offset, length, root.node);
    x.begin();
    if (is_in_lane) {
      x.post(data + offset, length);
    } else {
      x.post_nothing();
      x.await(root.local);
      x.fetch(root.local, 0, data + offset, length);
    }
    if (is_in_lane && has_data) lane.bcast(data + offset, length, root.node);
    offset += length;
  } while (offset < bytes);
  x.finish_reading();
  x.await_readers();
}

// `reduce_in_node()` combines the data of the node's ranks in the `result` of the one that is in the root's lane. This
// is the receive buffer of the root, and a temporary one of the others in its lane; the rest have none.
template <class Port, class Lane, class Reduce>
void spanning_reduce(Exchange<Port>& x, Lane lane, Bytes* result, std::size_t count, Layout::Place root,
                     Reduce reduce_in_node) {
  reduce_in_node();
  if (x.rank() == root.local) lane.reduce(result, count, root.node);
}

// In place: the data are in `receive`. `reduce_in_node()` combines the data of the node's ranks in the `receive` of rank
// 0; `bcast_in_node()` copies that of rank 0 to all.
template <class Port, class Lane, class Reduce, class Bcast>
void spanning_allreduce_by_leaders(Exchange<Port>& x, Lane lane, Bytes* receive, std::size_t count,
                                   Reduce reduce_in_node, Bcast bcast_in_node) {
  reduce_in_node();
  if (x.rank() == 0) lane.allreduce(receive, count);
  bcast_in_node();
}

// Each lane has a slice: its rank of a node combines this slice of the node's ranks, the lane combines those of the
// nodes, and the node's ranks copy each other's slices. In place: `send` is `receive`.
template <class Port, class Lane, class Combine>
void spanning_allreduce_by_lanes(Exchange<Port>& x, Lane lane, int lanes, const Bytes* send, Bytes* receive,
                                 const Reduction<Combine>& reduction) {
  allreduce_in_slices(x, send, receive, reduction, lanes,
                      [&](Bytes* slice, std::size_t count) { lane.allreduce(slice, count); });
}

// Each lane gathers the blocks of its ranks in `of_lane`, which has `bytes` for each node; then the node's ranks copy
// each other's. `send` may lie at its place in `receive`.
template <class Port, class Lane>
void spanning_allgather(Exchange<Port>& x, Lane lane, const Layout& layout, const Bytes* send, Bytes* of_lane,
                        Bytes* receive, std::size_t bytes) {
  const auto nodes = static_cast<std::size_t>(layout.nodes());
  lane.allgather(send, of_lane, bytes);
  x.begin();
  x.post(of_lane, nodes * bytes);
  x.await_all();
  for (int i = 0; i < x.ranks(); ++i) {
    const int local = (x.rank() + i) % x.ranks();
    for (std::size_t node = 0; node < nodes; ++node) {
      const auto rank = static_cast<std::size_t>(layout.rank_of(static_cast<int>(node), local));
      x.fetch(local, node * bytes, receive + rank * bytes, bytes);
    }
  }
  x.finish_reading();
  x.await_readers();
}

// A rank collects, from the ranks of its node, the blocks for all ranks of its lane; then each lane exchanges what it
// has collected. So a message between two nodes has blocks of all ranks of one of them. `send` may be `receive`.
template <class Port, class Lane>
void spanning_alltoall(Exchange<Port>& x, Lane lane, const Layout& layout, const Bytes* send, Bytes* receive,
                       std::size_t bytes) {
  const auto nodes = static_cast<std::size_t>(layout.nodes()), members = static_cast<std::size_t>(x.ranks());
  const std::size_t total = nodes * members * bytes;
  const Buffer collected = make_buffer(total), arrived = make_buffer(total);
  const auto rank_of = [&](std::size_t node, std::size_t local) {
    return static_cast<std::size_t>(layout.rank_of(static_cast<int>(node), static_cast<int>(local)));
  };
  x.begin();
  x.post(send, total);
  x.await_all();
  for (int i = 0; i < x.ranks(); ++i) {
    const int local = (x.rank() + i) % x.ranks();
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::size_t to = (node * members + static_cast<std::size_t>(local)) * bytes;
      x.fetch(local, rank_of(node, static_cast<std::size_t>(x.rank())) * bytes, collected.get() + to, bytes);
    }
  }
  x.finish_reading();
  x.await_readers();
  lane.alltoall(collected.get(), arrived.get(), members * bytes);
  for (std::size_t node = 0; node < nodes; ++node)
    for (std::size_t local = 0; local < members; ++local)
      x.port().copy_own(receive + rank_of(node, local) * bytes, arrived.get() + (node * members + local) * bytes,
                        bytes);
}

}  // namespace nearfield::collectives
