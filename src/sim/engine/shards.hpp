// Several processes that simulate one cluster together. Each process is a shard, which simulates a contiguous range of
// nodes and alone holds the memories of these nodes. At the end of each window (window_scheduler.hpp), a shard sends
// the transfers that departed from its nodes to the other shards. Every shard simulates the whole network, which all
// messages enter in the same order, so results do not depend on the number of shards.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/engine/engine.hpp"

namespace nearfield::sim {

// The nodes [begin, end).
struct NodeRange {
  int begin = 0, end = 0;
  bool contains(int node) const { return begin <= node && node < end; }
  int size() const { return end - begin; }
};

// Thrown on a shard that must end because another shard has failed. The failed shard reports the cause.
struct RemoteShardFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Shards {
 public:
  // An allgather: sends `contribution` to all shards, and returns the contributions of all shards in the order of the
  // shard numbers. All shards must call it equally often.
  using Allgather = std::function<std::vector<std::string>(const std::string& contribution)>;

  // Makes a single shard, which simulates all nodes.
  Shards() = default;
  Shards(int number, int count, Allgather exchange)
      : shard_number_(number), num_shards_(count), allgather_(std::move(exchange)) {}

  int shard_number() const { return shard_number_; }
  int num_shards() const { return num_shards_; }
  // Returns the nodes that this shard simulates if the cluster has `nodes` nodes.
  NodeRange nodes_of_this_shard(int nodes) const;

  // Sends `contribution` to all shards. Returns the contributions of all shards, in the order of their numbers. Throws
  // RemoteShardFailed if another shard has failed.
  std::vector<std::string> exchange(const std::string& contribution);
  // Must be called instead of exchange() by a shard that has failed at the simulated time `when`. Throws
  // RemoteShardFailed if another shard failed at an earlier simulated time, or at the same time and has a lower number.
  // Otherwise returns.
  void report_failure(Ps when);
  // Must be called by a shard that leaves the run by an exception. Notifies the other shards, unless all shards already
  // know that a shard has failed.
  void leave_run() noexcept;

 private:
  std::vector<std::string> exchange(const std::string& contribution, Ps failure_time);

  int shard_number_ = 0, num_shards_ = 1;
  Allgather allgather_;
  bool is_run_over_ = false;  // all shards know that a shard has failed
};

}  // namespace nearfield::sim
