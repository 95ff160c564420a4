// Collectives of a communicator that spans several nodes. Ranks of the same node communicate by the exchange, ranks of
// different nodes by MPI's collectives on their lane (layout.hpp). In the algorithm `leaders` a single lane carries all
// data between the nodes; in `lanes` each lane carries a part.
//
// The exchange connects the ranks of this node; the number of a rank in it is the rank's local index. `Lane`
// communicates between the nodes; the number of a rank in a lane is the number of its node. A Lane has the functions
//  barrier(); bcast(data, bytes, root); allreduce(data, count); reduce(data, count, root), whose result replaces the
//  root's data; allgather(own, all, bytes); alltoall(send, receive, bytes).
//
// All ranks call the same function, with a root that is in a lane and with lengths that are equal on all ranks.
// allgather and alltoall require that all nodes have the same number of ranks. Each function makes the same sequence of
// calls on all ranks of a lane.
#pragma once

#include "collectives/algorithms.hpp"
#include "collectives/layout.hpp"

namespace nearfield::collectives {

inline constexpr std::size_t lane_bcast_chunk_bytes = std::size_t{128}
                                                      << 10;  // bytes per chunk of a broadcast between nodes

// `barrier_in_node()` synchronises the ranks of this node.
template <class Port, class Lane, class Barrier>
void spanning_barrier(Exchange<Port>& x, Lane lane, Barrier barrier_in_node) {
  barrier_in_node();
  x.begin_operation();
  if (x.rank() == 0) lane.barrier();
  x.post_nothing();
  if (x.rank() != 0) x.await_post(0);
}

// A broadcast: the lane of the root carries the data between nodes, chunk by chunk. The other ranks of a node read a
// chunk while the next chunk is in flight between the nodes.
template <class Port, class Lane>
void spanning_bcast(Exchange<Port>& x, Lane lane, Bytes* data, std::size_t bytes, Layout::RankPlace root, int own_node,
                    std::size_t chunk = lane_bcast_chunk_bytes) {
  const bool is_in_lane = x.rank() == root.local, has_data = root.node == own_node;
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(chunk, bytes - offset);
    if (is_in_lane && !has_data) lane.bcast(data + offset, length, root.node);
    x.begin_operation();
    if (is_in_lane) {
      x.post_data(data + offset, length);
    } else {
      x.post_nothing();
      x.await_post(root.local);
      x.fetch_data(root.local, 0, data + offset, length);
    }
    if (is_in_lane && has_data) lane.bcast(data + offset, length, root.node);
    offset += length;
  } while (offset < bytes);
  x.publish_reads_finished();
  x.await_readers();
}

// A reduce: `reduce_in_node()` combines the data of the node's ranks into the `result` of the rank in the root's lane.
// `result` is the receive buffer on the root and a temporary buffer on the other ranks of the root's lane; ranks of
// other lanes have none.
template <class Port, class Lane, class Reduce>
void spanning_reduce(Exchange<Port>& x, Lane lane, Bytes* result, std::size_t count, Layout::RankPlace root,
                     Reduce reduce_in_node) {
  reduce_in_node();
  if (x.rank() == root.local) lane.reduce(result, count, root.node);
}

// An allreduce by the ranks 0 of the nodes. `reduce_in_node()` combines the data of the node's ranks into `receive` of
// local rank 0; after the allreduce between the nodes, `bcast_in_node()` copies `receive` of local rank 0 to the node's
// ranks.
template <class Port, class Lane, class Reduce, class Bcast>
void spanning_allreduce_by_leaders(Exchange<Port>& x, Lane lane, Bytes* receive, std::size_t count,
                                   Reduce reduce_in_node, Bcast bcast_in_node) {
  reduce_in_node();
  if (x.rank() == 0) lane.allreduce(receive, count);
  bcast_in_node();
}

// An allreduce, also in place (`send` equals `receive`), in which each lane has one slice of the vectors. On each node
// the lane's rank combines this slice of the node's ranks; the lane combines the results of all nodes; finally the
// ranks of the node copy the slices from each other.
template <class Port, class Lane, class Combine>
void spanning_allreduce_by_lanes(Exchange<Port>& x, Lane lane, int lanes, const Bytes* send, Bytes* receive,
                                 const Reduction<Combine>& reduction) {
  allreduce_in_slices(x, send, receive, reduction, lanes,
                      [&](Bytes* slice, std::size_t count) { lane.allreduce(slice, count); });
}

// An allgather: each lane gathers the blocks of its ranks in `of_lane`, which has `bytes` bytes per node. Then the
// ranks of the node copy the blocks of the other lanes from each other. `send` may be this rank's block in `receive`.
template <class Port, class Lane>
void spanning_allgather(Exchange<Port>& x, Lane lane, const Layout& layout, const Bytes* send, Bytes* of_lane,
                        Bytes* receive, std::size_t bytes) {
  const auto nodes = static_cast<std::size_t>(layout.nodes());
  lane.allgather(send, of_lane, bytes);
  x.begin_operation();
  x.post_data(of_lane, nodes * bytes);
  x.await_all_posts();
  for (int i = 0; i < x.ranks(); ++i) {
    const int local = (x.rank() + i) % x.ranks();
    for (std::size_t node = 0; node < nodes; ++node) {
      const auto rank = static_cast<std::size_t>(layout.rank_of(static_cast<int>(node), local));
      x.fetch_data(local, node * bytes, receive + rank * bytes, bytes);
    }
  }
  x.publish_reads_finished();
  x.await_readers();
}

// An all-to-all: each rank collects, from the ranks of its node, the blocks for all ranks of its lane; then each lane
// exchanges the collected blocks. So a message between two nodes contains blocks of all ranks of the sending node.
// `send` may equal `receive`.
template <class Port, class Lane>
void spanning_alltoall(Exchange<Port>& x, Lane lane, const Layout& layout, const Bytes* send, Bytes* receive,
                       std::size_t bytes) {
  const auto nodes = static_cast<std::size_t>(layout.nodes()), members = static_cast<std::size_t>(x.ranks());
  const std::size_t total = nodes * members * bytes;
  const Buffer collected = allocate_buffer(total), arrived = allocate_buffer(total);
  const auto rank_of = [&](std::size_t node, std::size_t local) {
    return static_cast<std::size_t>(layout.rank_of(static_cast<int>(node), static_cast<int>(local)));
  };
  x.begin_operation();
  x.post_data(send, total);
  x.await_all_posts();
  for (int i = 0; i < x.ranks(); ++i) {
    const int local = (x.rank() + i) % x.ranks();
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::size_t to = (node * members + static_cast<std::size_t>(local)) * bytes;
      x.fetch_data(local, rank_of(node, static_cast<std::size_t>(x.rank())) * bytes, collected.get() + to, bytes);
    }
  }
  x.publish_reads_finished();
  x.await_readers();
  lane.alltoall(collected.get(), arrived.get(), members * bytes);
  for (std::size_t node = 0; node < nodes; ++node)
    for (std::size_t local = 0; local < members; ++local)
      x.port().copy_own(receive + rank_of(node, local) * bytes, arrived.get() + (node * members + local) * bytes,
                        bytes);
}

}  // namespace nearfield::collectives
