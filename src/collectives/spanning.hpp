// Collectives of a communicator that spans several nodes. Ranks of the same node communicate by the Exchange, ranks of
// different nodes by MPI's collectives on their lane (layout.hpp). In the algorithm `leaders` a single lane carries all
// data between the nodes; in `lanes` each lane carries a part.
//
// The Exchange connects the ranks of this node; its rank numbers are the local indices. A Lane connects one rank of
// each node; its rank numbers are the node numbers. A Lane has the functions
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
void spanning_barrier(Exchange<Port>& exchange, Lane lane, Barrier barrier_in_node) {
  barrier_in_node();
  exchange.begin_operation();
  if (exchange.rank() == 0) lane.barrier();
  exchange.post_nothing();
  if (exchange.rank() != 0) exchange.await_post(0);
}

// A broadcast: the lane of the root carries the data between nodes, chunk by chunk. While the next chunk is in flight
// between the nodes, the other ranks of a node read the previous chunk.
template <class Port, class Lane>
void spanning_bcast(Exchange<Port>& exchange, Lane lane, Bytes* data, std::size_t bytes, Layout::RankPlace root,
                    int own_node, std::size_t chunk = lane_bcast_chunk_bytes) {
  const bool is_in_lane = exchange.rank() == root.local, has_data = root.node == own_node;
  std::size_t offset = 0;
  do {
    const std::size_t length = std::min(chunk, bytes - offset);
    if (is_in_lane && !has_data) lane.bcast(data + offset, length, root.node);
    exchange.begin_operation();
    if (is_in_lane) {
      exchange.post_data(data + offset, length);
    } else {
      exchange.post_nothing();
      exchange.await_post(root.local);
      exchange.fetch_data(root.local, 0, data + offset, length);
    }
    if (is_in_lane && has_data) lane.bcast(data + offset, length, root.node);
    offset += length;
  } while (offset < bytes);
  exchange.publish_reads_finished();
  exchange.await_readers();
}

// A reduce: `reduce_in_node()` combines the data of the node's ranks into the `result` of the rank in the root's lane.
// `result` is the receive buffer on the root and a temporary buffer on the other ranks of the root's lane; ranks of
// other lanes have none.
template <class Port, class Lane, class Reduce>
void spanning_reduce(Exchange<Port>& exchange, Lane lane, Bytes* result, std::size_t count, Layout::RankPlace root,
                     Reduce reduce_in_node) {
  reduce_in_node();
  if (exchange.rank() == root.local) lane.reduce(result, count, root.node);
}

// An allreduce by local rank 0 of each node. `reduce_in_node()` combines the data of the node's ranks into `receive` of
// local rank 0; after the allreduce between the nodes, `bcast_in_node()` copies `receive` of local rank 0 to the node's
// ranks.
template <class Port, class Lane, class Reduce, class Bcast>
void spanning_allreduce_by_leaders(Exchange<Port>& exchange, Lane lane, Bytes* receive, std::size_t count,
                                   Reduce reduce_in_node, Bcast bcast_in_node) {
  reduce_in_node();
  if (exchange.rank() == 0) lane.allreduce(receive, count);
  bcast_in_node();
}

// An allreduce, also in place (`send` equals `receive`), in which each lane reduces one slice of the vectors. On each
// node the lane's rank combines this slice of all ranks of the node; the lane combines the results of all nodes;
// finally the ranks of each node copy the slices from each other.
template <class Port, class Lane, class Combine>
void spanning_allreduce_by_lanes(Exchange<Port>& exchange, Lane lane, int lanes, const Bytes* send, Bytes* receive,
                                 const Reduction<Combine>& reduction) {
  allreduce_in_slices(exchange, send, receive, reduction, lanes,
                      [&](Bytes* slice, std::size_t count) { lane.allreduce(slice, count); });
}

// An allgather: each lane gathers the blocks of its ranks into `lane_blocks`, a buffer of `bytes` bytes per node. Then
// the ranks of each node copy the blocks of the other lanes from each other. `send` may be this rank's block in
// `receive`.
template <class Port, class Lane>
void spanning_allgather(Exchange<Port>& exchange, Lane lane, const Layout& layout, const Bytes* send,
                        Bytes* lane_blocks, Bytes* receive, std::size_t bytes) {
  const auto nodes = static_cast<std::size_t>(layout.nodes());
  lane.allgather(send, lane_blocks, bytes);
  exchange.begin_operation();
  exchange.post_data(lane_blocks, nodes * bytes);
  exchange.await_all_posts();
  for (int i = 0; i < exchange.ranks(); ++i) {
    const int local = (exchange.rank() + i) % exchange.ranks();
    for (std::size_t node = 0; node < nodes; ++node) {
      const auto rank = static_cast<std::size_t>(layout.rank_of(static_cast<int>(node), local));
      exchange.fetch_data(local, node * bytes, receive + rank * bytes, bytes);
    }
  }
  exchange.publish_reads_finished();
  exchange.await_readers();
}

// An all-to-all: each rank collects, from the ranks of its node, the blocks for all ranks of its lane; then each lane
// exchanges the collected blocks. So each message between two nodes contains blocks of all ranks of the sending node.
// `send` may equal `receive`.
template <class Port, class Lane>
void spanning_alltoall(Exchange<Port>& exchange, Lane lane, const Layout& layout, const Bytes* send, Bytes* receive,
                       std::size_t bytes) {
  const auto nodes = static_cast<std::size_t>(layout.nodes()),
             ranks_per_node = static_cast<std::size_t>(exchange.ranks());
  const std::size_t total = nodes * ranks_per_node * bytes;
  const Buffer collected_blocks = allocate_buffer(total), received_blocks = allocate_buffer(total);
  const auto rank_of = [&](std::size_t node, std::size_t local) {
    return static_cast<std::size_t>(layout.rank_of(static_cast<int>(node), static_cast<int>(local)));
  };
  exchange.begin_operation();
  exchange.post_data(send, total);
  exchange.await_all_posts();
  for (int i = 0; i < exchange.ranks(); ++i) {
    const int local = (exchange.rank() + i) % exchange.ranks();
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::size_t to = (node * ranks_per_node + static_cast<std::size_t>(local)) * bytes;
      exchange.fetch_data(local, rank_of(node, static_cast<std::size_t>(exchange.rank())) * bytes,
                          collected_blocks.get() + to, bytes);
    }
  }
  exchange.publish_reads_finished();
  exchange.await_readers();
  lane.alltoall(collected_blocks.get(), received_blocks.get(), ranks_per_node * bytes);
  for (std::size_t node = 0; node < nodes; ++node)
    for (std::size_t local = 0; local < ranks_per_node; ++local)
      exchange.port().copy_own(receive + rank_of(node, local) * bytes,
                               received_blocks.get() + (node * ranks_per_node + local) * bytes, bytes);
}

}  // namespace nearfield::collectives
