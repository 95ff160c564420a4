// Several processes that simulate one cluster together. Each is a shard: it simulates some neighbouring nodes, whose
// memories it alone holds, and tells the others at the end of each window what has left these nodes (windows.hpp). The
// network is simulated by every shard, which lets all messages enter it in the same order. So the number of shards is
// seen in no result.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/engine/engine.hpp"

namespace nearfield::sim {

// The nodes from `begin` to the one before `end`.
struct NodeRange {
  int begin = 0, end = 0;
  bool has(int node) const { return begin <= node && node < end; }
  int size() const { return end - begin; }
};

// This shard ends because another one has failed, which tells why.
struct EndedElsewhere : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Shards {
 public:
  // Gives `mine` to all shards, and returns what each of them gave, in the order of their numbers. All shards call it
  // equally often.
  using Exchange = std::function<std::vector<std::string>(const std::string& mine)>;

  // Makes a single shard, which simulates all nodes.
  Shards() = default;
  Shards(int number, int count, Exchange exchange) : number_(number), count_(count), exchange_(std::move(exchange)) {}

  int number() const { return number_; }
  int count() const { return count_; }
  // Returns those of so many nodes that this shard simulates.
  NodeRange part_of(int nodes) const;

  // Returns what all shards give. Throws EndedElsewhere if one has failed instead.
  std::vector<std::string> exchange(const std::string& mine);
  // Is called in place of exchange() by a shard that has failed at this simulated time. Returns if no other shard's
  // failure comes before it; of those at the same time the first shard's does. Throws EndedElsewhere otherwise.
  void fail(Ps when);
  // Is called by a shard that ends by an exception: tells the others, unless all have agreed that the run ends.
  void leave() noexcept;

 private:
  std::vector<std::string> exchange(const std::string& mine, Ps failed);

  int number_ = 0, count_ = 1;
  Exchange exchange_;
  bool over_ = false;  // a shard has failed, and all know it
};

}  // namespace nearfield::sim
