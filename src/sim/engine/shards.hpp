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
  // An allgather: sends `mine` to all shards, and returns the contributions of all shards in the order of their
  // numbers. All shards must call it equally often.
  using Exchange = std::function<std::vector<std::string>(const std::string& mine)>;

  // Makes a single shard, which simulates all nodes.
  Shards() = default;
  Shards(int number, int count, Exchange exchange) : number_(number), count_(count), exchange_(std::move(exchange)) {}

  int own_number() const { return number_; }
  int num_shards() const { return count_; }
  // Returns the nodes that this shard simulates, of `nodes` in all.
  NodeRange part_of(int nodes) const;

  // Sends `mine` to all shards. Returns the contributions of all shards, in the order of their numbers. Throws
  // RemoteShardFailed if another shard has failed.
  std::vector<std::string> exchange(const std::string& mine);
  // Must be called instead of exchange() by a shard that has failed at the simulated time `when`. Returns if this
  // failure is the earliest of all shards (of equal times, that of the lowest shard number). Otherwise throws
  // RemoteShardFailed.
  void fail(Ps when);
  // Must be called by a shard that ends by an exception. Notifies the other shards, unless all shards already know that
  // the run has ended.
  void leave() noexcept;

 private:
  std::vector<std::string> exchange(const std::string& mine, Ps failed);

  int number_ = 0, count_ = 1;
  Exchange exchange_;
  bool over_ = false;  // all shards know that a shard has failed
};

}  // namespace nearfield::sim
