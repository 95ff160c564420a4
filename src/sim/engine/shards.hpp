// Several processes that simulate one cluster together. Each is a shard: it simulates a contiguous range of nodes,
// whose memories it alone holds, and sends the transfers that departed from these nodes to the other shards at the end
// of each window (window_scheduler.hpp). Every shard simulates the whole network, which all messages enter in the same
// order. So results do not depend on the number of shards.
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

// This shard ends because another one has failed, which reports the cause.
struct RemoteShardFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Shards {
 public:
  // An allgather: sends `mine` to all shards, and returns the contribution of each, in the order of their numbers. All
  // shards call it equally often.
  using Exchange = std::function<std::vector<std::string>(const std::string& mine)>;

  // Makes a single shard, which simulates all nodes.
  Shards() = default;
  Shards(int number, int count, Exchange exchange) : number_(number), count_(count), exchange_(std::move(exchange)) {}

  int own_number() const { return number_; }
  int num_shards() const { return count_; }
  // Returns the nodes that this shard simulates, of `nodes` in all.
  NodeRange part_of(int nodes) const;

  // Returns all shards' contributions. Throws RemoteShardFailed if another shard has failed.
  std::vector<std::string> exchange(const std::string& mine);
  // Is called in place of exchange() by a shard that has failed at this simulated time. Returns if its failure is the
  // earliest (at equal times, the lowest shard's is). Throws RemoteShardFailed otherwise.
  void fail(Ps when);
  // Is called by a shard that ends by an exception: notifies the others, unless all have agreed that the run ends.
  void leave() noexcept;

 private:
  std::vector<std::string> exchange(const std::string& mine, Ps failed);

  int number_ = 0, count_ = 1;
  Exchange exchange_;
  bool over_ = false;  // a shard has failed, and all shards know
};

}  // namespace nearfield::sim
