#include "sim/memory/devices.hpp"

#include <algorithm>

#include "sim/memory/evictions.hpp"

namespace nearfield::sim {

void DeviceAccesses::write_whole_granule(Address granule, const InjectionTarget& target) {
  ++contents_.counters.dram().dma_writes;
  if (target.level == InjectionTarget::memory) {
    invalidate_all_copies(contents_, granule, &LevelCounts::invalidations);
    return;
  }
  auto& target_node = contents_.tree.cache_at(target.core, target.level);
  // Inclusive caches outside the target must hold the granule, too. `holders` is outermost first; the target is last.
  std::array<CacheNode*, max_cache_levels> nodes{};
  auto first = nodes.end();
  *--first = &target_node;
  for (auto* node = target_node.parent; node != nullptr; node = node->parent)
    if (node->inclusion == Inclusion::inclusive) *--first = node;
  const std::span<CacheNode* const> holders(first, nodes.end());
  remove_other_copies(holders, granule);
  for (const auto* node = &target_node; node != nullptr; node = node->parent) {
    auto& point = node->parent ? node->parent->inner : contents_.tree.memory_point();
    if (point.has_directory) point.add_sharer(*node, granule);
  }
  put_granule(holders, granule, target);
}

// Removes all copies of a granule, except those in `holders`, which become clean and exclusive.
void DeviceAccesses::remove_other_copies(std::span<CacheNode* const> holders, Address granule) {
  contents_.tree.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    if (node.array.state(way, at) & injected) ++contents_.counters.at_level(node.level).injected_unused;
    node.array.set_state(way, at, 0);
    if (std::find(holders.begin(), holders.end(), &node) != holders.end()) {
      if (node.tracks_sharers) way.sharers() = 0;
      return;
    }
    node.array.remove(way, at);
    ++contents_.counters.at_level(node.level).invalidations;
  });
}

// Injects a granule into `holders` line by line, since an inclusive cache may have room for fewer lines than the
// granule consists of.
void DeviceAccesses::put_granule(std::span<CacheNode* const> holders, Address granule, const InjectionTarget& target) {
  auto& target_node = *holders.back();
  for (auto at = granule; at < granule + contents_.tree.granule_bytes(); at += target_node.array.sub_block_bytes()) {
    for (auto* node : holders) {
      const auto where = node->array.locate(at);
      const auto way = node->array.find(where, at);
      if (!way) {
        insert_line(contents_, *node, where, at, node == &target_node ? injected : 0,
                    node == &target_node ? target.ways : 0);
      } else {
        node->array.touch(way);
        node->array.set_state(way, at, node == &target_node ? injected : 0);
      }
      if (!node->tracks_sharers || node == &target_node) continue;
      node->array.find_tag(where).sharers() |= contents_.tree.cache_at(target.core, node->level - 1).sharer_bit();
    }
    ++contents_.counters.at_level(target_node.level).injections;
  }
}

// Writes modified copies to memory before the partial write, because data outside the written part must survive.
void DeviceAccesses::write_partial_granule(Address granule) {
  bool was_modified = false;
  contents_.tree.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    if (!(node.array.state(way, at) & modified)) return;
    was_modified = true;
    ++contents_.counters.at_level(node.level).write_backs;
  });
  if (was_modified) contents_.counters.count_memory_writes();
  invalidate_all_copies(contents_, granule, &LevelCounts::invalidations);
  ++contents_.counters.dram().dma_writes;
}

bool DeviceAccesses::read_granule(Address granule) {
  bool was_modified = false, was_whole = false;  // was_whole: one cache holds the whole granule
  const CacheNode *last = nullptr, *outermost = nullptr;
  std::uint64_t held = 0;  // bytes of the granule in cache `last`
  contents_.tree.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    held = &node == last ? held + node.array.sub_block_bytes() : node.array.sub_block_bytes();
    last = &node;
    if (!outermost || node.level > outermost->level) outermost = &node;
    was_whole = was_whole || held == contents_.tree.granule_bytes();
    const auto old_state = node.array.state(way, at);
    auto state = static_cast<std::uint8_t>(old_state & ~injected);  // a read by a device is a use
    if (old_state & modified) {
      was_modified = true;
      if (read_of_modified_ != DmaRead::keep) {
        ++contents_.counters.at_level(node.level).write_backs;
        state &= static_cast<std::uint8_t>(~modified);
      }
    }
    if (state != old_state) node.array.set_state(way, at, state);
  });
  if (was_modified && read_of_modified_ != DmaRead::keep) {
    contents_.counters.count_memory_writes();
    if (read_of_modified_ == DmaRead::invalidate)
      invalidate_all_copies(contents_, granule, &LevelCounts::invalidations);
  }
  const bool from_dram = !was_modified && !was_whole;
  if (from_dram)
    ++contents_.counters.dram().dma_reads;
  else
    ++contents_.counters.at_level(outermost->level).device_hits;
  return from_dram;
}

}  // namespace nearfield::sim
