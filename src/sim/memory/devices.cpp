#include "sim/memory/devices.hpp"

#include <algorithm>

namespace nearfield::sim {

void DeviceAccesses::write_whole_granule(Address granule, const InjectionTarget& target) {
  ++tree_.dram_counts().dma_writes;
  if (target.level == InjectionTarget::memory) {
    tree_.invalidate_all_copies(granule, &LevelCounts::invalidations);
    return;
  }
  auto& target_node = tree_.cache_at(target.core, target.level);
  // Inclusive caches outside the target must hold the granule, too. `holders` is outermost first; the target is last.
  std::array<CacheNode*, max_cache_levels> nodes{};
  auto first = nodes.end();
  *--first = &target_node;
  for (auto* node = target_node.parent; node != nullptr; node = node->parent)
    if (node->inclusion == Inclusion::inclusive) *--first = node;
  const std::span<CacheNode* const> holders(first, nodes.end());
  remove_other_copies(holders, granule);
  for (const auto* node = &target_node; node != nullptr; node = node->parent) {
    auto& point = node->parent ? node->parent->inner : tree_.memory_point();
    if (point.has_directory) tree_.directory_add(point, *node, granule);
  }
  put_granule(holders, granule, target);
}

// Removes all copies of a granule, except those in `holders`, which become clean and exclusive.
void DeviceAccesses::remove_other_copies(std::span<CacheNode* const> holders, Address granule) {
  tree_.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    if (node.array.state(way, at) & injected) ++tree_.counts_of(node).injected_unused;
    node.array.set_state(way, at, 0);
    if (std::find(holders.begin(), holders.end(), &node) != holders.end()) {
      if (node.tracks_sharers) way.sharers() = 0;
      return;
    }
    node.array.remove(way, at);
    ++tree_.counts_of(node).invalidations;
  });
}

// Injects a granule into `holders` line by line, since an inclusive cache may have room for fewer lines than the
// granule consists of.
void DeviceAccesses::put_granule(std::span<CacheNode* const> holders, Address granule, const InjectionTarget& target) {
  auto& target_node = *holders.back();
  for (auto at = granule; at < granule + tree_.granule_bytes(); at += target_node.array.sub_block_bytes()) {
    for (auto* node : holders) {
      const auto where = node->array.locate(at);
      const auto way = node->array.find(where, at);
      if (!way) {
        tree_.insert(*node, where, at, node == &target_node ? injected : 0, node == &target_node ? target.ways : 0);
      } else {
        node->array.touch(way);
        node->array.set_state(way, at, node == &target_node ? injected : 0);
      }
      if (!node->tracks_sharers || node == &target_node) continue;
      node->array.find_tag(where).sharers() |= tree_.cache_at(target.core, node->level - 1).sharer_bit();
    }
    ++tree_.counts_of(target_node).injections;
  }
}

// Writes modified copies to memory before the partial write, because data outside the written part must survive.
void DeviceAccesses::write_partial_granule(Address granule) {
  bool was_modified = false;
  tree_.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    if (!(node.array.state(way, at) & modified)) return;
    was_modified = true;
    ++tree_.counts_of(node).write_backs;
  });
  if (was_modified) tree_.write_to_memory();
  tree_.invalidate_all_copies(granule, &LevelCounts::invalidations);
  ++tree_.dram_counts().dma_writes;
}

bool DeviceAccesses::read_granule(Address granule) {
  bool was_modified = false, was_whole = false;  // was_whole: one cache holds the whole granule
  const CacheNode *last = nullptr, *outermost = nullptr;
  std::uint64_t held = 0;  // bytes of the granule in cache `last`
  tree_.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    held = &node == last ? held + node.array.sub_block_bytes() : node.array.sub_block_bytes();
    last = &node;
    if (!outermost || node.level > outermost->level) outermost = &node;
    was_whole = was_whole || held == tree_.granule_bytes();
    const auto old_state = node.array.state(way, at);
    auto state = static_cast<std::uint8_t>(old_state & ~injected);  // a read by a device is a use
    if (old_state & modified) {
      was_modified = true;
      if (read_of_modified_ != DmaRead::keep) {
        ++tree_.counts_of(node).write_backs;
        state &= static_cast<std::uint8_t>(~modified);
      }
    }
    if (state != old_state) node.array.set_state(way, at, state);
  });
  if (was_modified && read_of_modified_ != DmaRead::keep) {
    tree_.write_to_memory();
    if (read_of_modified_ == DmaRead::invalidate) tree_.invalidate_all_copies(granule, &LevelCounts::invalidations);
  }
  const bool from_dram = !was_modified && !was_whole;
  if (from_dram)
    ++tree_.dram_counts().dma_reads;
  else
    ++tree_.counts_of(*outermost).device_hits;
  return from_dram;
}

}  // namespace nearfield::sim
