// Updates of directories and of displaced lines that an action (variants.hpp) causes, but that are applied only after
// the action, when the group of variants that performed it is known.
#pragma once

#include <vector>

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

class DeferredUpdates {
 public:
  // `tree`, `variants` and `counters` must outlive this object.
  DeferredUpdates(const CacheTree& tree, Variants& variants, CacheCounters& counters)
      : tree_(tree), variants_(variants), counters_(counters) {}

  bool empty() const { return updates_.empty(); }

  // Counts a miss in `node` as caused by injection: a line that a device injected has displaced the missed line.
  void count_victim_miss(CacheNode& node, Address address) { defer({Update::Kind::miss, leader(), address, &node}); }
  // Records that an injected line has displaced a line from `node`.
  void add_displaced_line(CacheNode& node, Address address) {
    defer({Update::Kind::displaced, leader(), address, &node});
  }
  // Removes cache `number` from the sharers of a granule in the directory of `point`, if all variants perform the
  // action.
  void remove_sharer(CoherencePoint& point, Address granule, int number) {
    defer({Update::Kind::removed_sharer, leader(), granule, nullptr, &point, number});
  }
  // Applies the updates of an action. `leaders`: of the groups that performed it.
  void apply(const Variants::GroupLeaders& leaders);

 private:
  struct Update {
    enum class Kind { miss, displaced, removed_sharer } kind;
    int leader;  // of the group that performed the action
    Address address;
    CacheNode* node = nullptr;
    CoherencePoint* point = nullptr;
    int number = 0;
  };
  int leader() { return variants_.current_run().leader(); }
  void defer(const Update& update);

  const CacheTree& tree_;
  Variants& variants_;
  CacheCounters& counters_;
  std::vector<Update> updates_;
};

}  // namespace nearfield::sim
