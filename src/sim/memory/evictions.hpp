// Fills lines into caches and evicts victims: memory.hpp, point 1. The functions are inline, since most misses do
// both.
#pragma once

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

inline void CacheTree::put(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state,
                           unsigned sharer) {
  auto& array = node.array;
  mark_used(node);
  auto way = array.has_sub_blocks() ? array.find_tag(where) : CacheArray::Way{};
  if (!way) {
    way = array.way_to_fill(where);
    if (!way.is_empty()) evict_for_fill(node, way, false);
  }
  array.fill(where, way, address, state);
  if (sharer) way.sharers() = static_cast<std::uint16_t>(sharer);
}

inline void CacheTree::evict_for_fill(CacheNode& node, const CacheArray::Way& way, bool is_injection) {
  node.array.for_each_sub_block(way, [&](Address address) {
    auto state = node.array.state(way, address);
    if (node.inclusion == Inclusion::inclusive && back_invalidate(node, way, address)) state |= modified;
    if (is_injection) [[unlikely]] {
      ++counts_of(node).injected_victims;
      defer({DeferredUpdate::Kind::displaced, variants_.current_run().leader(), granule_of(address), &node});
      tracks_displaced_lines_ = true;
    }
    evict(node, address, state);
  });
}

inline void CacheTree::evict(CacheNode& node, Address address, std::uint8_t state) {
  auto& counts = counts_of(node);
  ++counts.evictions;
  counts.injected_unused += (state & injected) != 0;
  counts.write_backs += (state & modified) != 0;
  state &= modified | shared;
  auto* next = node.parent;
  if (next == nullptr) {
    if (state & modified) write_to_memory();
    return;
  }
  if (next->inclusion == Inclusion::exclusive) return insert_into_victim_cache(*next, address, state);
  if (!(state & modified)) return;
  const auto way = next->array.lookup(address);
  if (!way) return insert(*next, address, state);
  next->array.add_state(way, address, modified);
}

// Inserts a line that the next inner cache evicted into `node`, an exclusive (victim) cache.
inline void CacheTree::insert_into_victim_cache(CacheNode& node, Address address, std::uint8_t state) {
  auto& array = node.array;
  mark_used(node);
  const auto where = array.locate(address);
  auto way = array.find_tag(where);
  if (!way) {
    way = array.way_to_fill(where);
    if (!way.is_empty()) node.parent == nullptr ? evict_to_memory(node, way) : evict_from_victim_cache(node, way);
  } else if (array.find(where, address)) {
    const auto present_state = array.state(way, address);  // a copy that is not shared is known to be the only one
    state = static_cast<std::uint8_t>((state & present_state & shared) | ((state | present_state) & modified));
  }
  array.fill(where, way, address, state);
}

inline void CacheTree::evict_to_memory(CacheNode& node, const CacheArray::Way& way) {
  const auto sub_block_counts = node.array.count_sub_blocks(way);
  counts_of(node).evictions += sub_block_counts.sub_blocks;
  counts_of(node).injected_unused += sub_block_counts.injected;
  counts_of(node).write_backs += sub_block_counts.modified;
  write_to_memory(sub_block_counts.modified);
}

}  // namespace nearfield::sim
