// The state that all ranks of a run share: the machine and the placement of ranks. It is constant during a window
// (window_scheduler.hpp). The ranks of one node share a NodeState. Cluster builds both. Nodes that other shards
// simulate also have a NodeState and ranks, to which messages can refer, but no events.
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
  int num_variants = 1;
  bool needs_node_counts = false;
  bool needs_core_counters = false;
  std::unique_ptr<Network> network;  // nullptr with one node
  std::vector<std::unique_ptr<NodeState>> node_states;
  std::vector<std::unique_ptr<Endpoint>> ranks;
  Shards* shards = nullptr;                 // never nullptr
  NodeRange local_nodes;                    // the nodes that this shard simulates
  std::function<void()> progress_callback;  // of ClusterOptions; may be empty
  std::thread::id run_thread = {};          // the thread that began the run

  std::span<const std::unique_ptr<Endpoint>> local_ranks() const {
    const std::size_t ranks_per_node = ranks.size() / node_states.size();
    return std::span(ranks).subspan(static_cast<std::size_t>(local_nodes.begin) * ranks_per_node,
                                    static_cast<std::size_t>(local_nodes.size()) * ranks_per_node);
  }
  // Calls the progress callback if this is the thread that began the run.
  void run_progress_callback() const {
    if (progress_callback && std::this_thread::get_id() == run_thread) progress_callback();
  }
};

}  // namespace nearfield::sim
