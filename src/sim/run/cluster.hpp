// A simulated cluster: equal nodes, the network between them, and a program that runs on every rank. Ranks are placed
// node by node: rank r runs on core r % ranks_per_node of node r / ranks_per_node.
//
// All policies are simulated in one run, each as a variant with separate caches. The order of events is that of the
// first policy at the first memory speed. If another configuration would order events differently (messages of several
// senders that compete for a link or a cache), its times nevertheless follow the first configuration's order. To check
// the times of a policy, simulate that policy alone.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/engine/shards.hpp"
#include "sim/memory/counts.hpp"
#include "sim/mpi/rank.hpp"
#include "sim/mpi/schedule.hpp"
#include "sim/nic/nic_counts.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

class Nic;            // nic/nic.hpp
class Node;           // node.hpp
class PolicyChoice;   // nic/policy.hpp
struct NodeState;     // node_state.hpp
struct ClusterState;  // cluster_state.hpp

struct ClusterOptions {
  int nodes = 1;
  int ranks_per_node = 1;
  std::vector<int> cores;  // core of each rank of a node; empty: cores 0, 1, ...
  std::vector<std::string> placement_policy_names{"memory"};
  std::array<double, num_memory_speeds> memory_slowdown{1, 1, 1, 1};
  bool has_memory_effects = true;           // false: loads, stores and DMA take no time, caches are not simulated
  bool needs_node_counts = false;           // marks carry the counts of their node
  bool needs_core_counters = false;         // marks carry their core's PerfCounters, of the first policy
  std::optional<int> scheduled_policy;      // records schedules, with the times of the policy with this index
  std::function<void()> progress_callback;  // called before and during run(), in its thread; may throw to end the run
  int threads = 1;                          // of the host; results do not depend on their number
  double min_parallel_window_us = 20;  // shorter windows run on one thread, since waking other threads takes longer
  Shards* shards = nullptr;            // the processes that simulate the cluster together; nullptr: this process alone
};

struct RankOutcome {
  ConfigClock finish_time;
  std::vector<Mark> marks;
  TimeInCalls time_in_calls;
  std::vector<ScheduleStep> schedule;  // empty unless it was recorded
};

struct VariantOutcome {
  std::string policy;
  Counts memory;  // of all nodes together, at the first memory speed
  std::array<Counts, num_memory_speeds>
      memory_counts_by_speed;  // at each memory speed; only accesses of empty polls differ
  NicCounts nic;
  std::vector<NicCounts> nic_counts_by_node;
};

// With several shards, the ranks, counts and events are those of this shard's nodes only.
struct Outcome {
  std::vector<RankOutcome> ranks;
  std::vector<VariantOutcome> variants;
  std::uint64_t events = 0;    // events of the engine
  std::uint64_t messages = 0;  // messages on the network, including those of protocols
  std::uint64_t bytes = 0;     // bytes on the network
};

// Thrown if all ranks whose programs have not ended wait for each other. The message has one line per waiting rank.
struct Deadlock : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Cluster {
 public:
  // Throws std::invalid_argument, which names the key of the invalid option and the nearest valid choice. All shards
  // must construct the cluster with equal arguments.
  Cluster(const Machine& machine, const ClusterOptions& options);
  ~Cluster();

  // Runs the program on all ranks until it has ended on all. Caches and clocks persist to the next run; marks and
  // counts are reset. After an exception (of the program, or Deadlock) the cluster cannot run again.
  Outcome run(const Program& program);
  // Runs one program per rank, as many as there are ranks.
  Outcome run(const std::vector<Program>& programs);

  int num_ranks() const;
  // Returns a node's simulated memory, for tests.
  Node& node(int number);

 private:
  void check_options(const ClusterOptions& options) const;
  void make_protocols(NodeState& node_state);
  void add_node(NodeState& node_state, const ClusterOptions& options);
  void add_ranks(NodeState& node_state, Node& node, Nic* nic, const ClusterOptions& options);
  void check_all_done(const std::vector<Task<>>& tasks) const;
  std::string describe_waiting_ranks() const;
  Outcome collect_outcome();

  std::unique_ptr<ClusterState> state_;
  std::vector<PolicyChoice> policies_;
  Shards single_shard_;
  std::vector<std::unique_ptr<Node>> nodes_;  // nodes that this shard simulates
  std::vector<std::unique_ptr<Nic>> nics_;
  std::unique_ptr<Node> remote_node_;                                    // a placeholder for all nodes of other shards
  std::uint64_t num_events_ = 0, num_messages_ = 0, network_bytes_ = 0;  // totals up to the end of the last run
  int num_threads_;
  double min_parallel_window_us_;
  bool has_failed_ = false;  // a run ended by an exception
};

}  // namespace nearfield::sim
