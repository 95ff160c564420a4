// The state that all ranks of a run share: the machine and the placement of ranks. It is constant during a window
// (window_scheduler.hpp). The ranks of one node share a NodeState. Cluster builds both. Nodes that other shards
// simulate have a NodeState and ranks, too, so that messages can refer to them, but no events.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/shards.hpp"
#include "sim/network/network.hpp"

namespace nearfield::sim {

class Endpoint;
struct NodeState;

struct ClusterState {
  Machine machine;
  int variants = 1;
  bool count_marks = false;
  bool count_sides = false;
  std::unique_ptr<Network> network;  // nullptr with one node
  std::vector<std::unique_ptr<NodeState>> node_states;
  std::vector<std::unique_ptr<Endpoint>> ranks;
  Shards* shards = nullptr;                 // never nullptr
  NodeRange local_nodes;                    // the nodes that this shard simulates
  std::function<void()> progress_callback;  // of ClusterOptions; may be empty
  std::thread::id caller = {};              // the thread that began the run

  std::span<const std::unique_ptr<Endpoint>> local_ranks() const {
    const std::size_t of_node = ranks.size() / node_states.size();
    return std::span(ranks).subspan(static_cast<std::size_t>(local_nodes.begin) * of_node,
                                    static_cast<std::size_t>(local_nodes.size()) * of_node);
  }
  // Calls the progress callback if this is the thread that began the run.
  void run_progress_callback() const {
    if (progress_callback && std::this_thread::get_id() == caller) progress_callback();
  }
};

}  // namespace nearfield::sim
