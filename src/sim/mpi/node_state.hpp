// The state that the ranks of one node share: the event engine, the protocols, and the pools of messages, requests and
// packets. One thread at a time works on a node. Transfers to other nodes wait for the end of the window
// (window_scheduler.hpp).
#pragma once

#include <coroutine>
#include <memory>
#include <utility>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/engine/frames.hpp"
#include "sim/engine/pool.hpp"
#include "sim/mpi/cluster_state.hpp"
#include "sim/mpi/message.hpp"
#include "sim/mpi/nic_transfers.hpp"
#include "sim/mpi/protocol.hpp"

namespace nearfield::sim {

struct NodeState {
  ClusterState& cluster;
  int number;  // of the node
  Engine engine;
  std::unique_ptr<Protocol> node_small, node_large, node_pieces, network_small, network_large;  // node_pieces: or none
  ObjectPool<Message> messages;
  ObjectPool<RequestState> requests;
  ObjectPool<ProtocolPacket> packets;
  NicTransfers transfers{*this};
  std::vector<std::pair<Endpoint*, std::coroutine_handle<>>> ranks_in_barrier;  // ranks that wait in barrier()
  CoroutineFrames frames;

  NodeState(ClusterState& all, int node) : cluster(all), number(node) {}

  // Return the protocol of a message. A synchronous send uses the protocol of long messages, since that waits for the
  // receiver (except for the T3E's protocol `buffered`).
  Protocol& protocol_between_nodes(std::uint64_t bytes, bool is_synchronous) {
    return bytes <= cluster.machine.messaging.eager_bytes && !is_synchronous ? *network_small : *network_large;
  }
  Protocol& protocol_within_node(const Buffer& data, bool is_synchronous) {
    if (data.bytes() <= cluster.machine.messaging.node_eager_bytes && !is_synchronous) return *node_small;
    const bool in_pieces = node_pieces && has_min_pieces(data, cluster.machine.messaging.min_pieces);
    return in_pieces ? *node_pieces : *node_large;
  }
  // Drops the sender's or the receiver's reference to the message. The last drop frees the record.
  void drop_reference(Message& message) {
    if (--message.num_references == 0) messages.release(&message);
  }
  // Runs the events before `end`. An exception is stored (Engine::failure).
  void run_events_until(Ps end) {
    const CoroutineFrames::UseOnThisThread use(frames);
    try {
      engine.run_until(end);
    } catch (...) {
      engine.record_failure(std::current_exception());
    }
  }
};

}  // namespace nearfield::sim
