// Fills lines into caches, and evicts and removes lines: memory.hpp, point 1. The functions for fills and evictions are
// inline, since most misses do both.
#pragma once

#include "sim/memory/cache_contents.hpp"

namespace nearfield::sim {

// ---- fills

// Fills a line that the cache does not hold. The cache must not be exclusive. `sharer`: the sharer bit of the next
// inner cache, or 0.
NEARFIELD_ALWAYS_INLINE void fill_line(CacheContents& contents, CacheNode& node, const CacheArray::SetAndTag& where,
                                       Address address, std::uint8_t state, unsigned sharer);
// Fills a line that may already be present. If `state` has the flag `injected`, a device injects the line into one of
// the first `way_limit` ways (0: any way).
void insert_line(CacheContents& contents, CacheNode& node, const CacheArray::SetAndTag& where, Address address,
                 std::uint8_t state, int way_limit = 0);

// ---- evictions. Fills call these functions.

// Evicts the line in a way that is about to be filled. `is_injection`: by a device.
NEARFIELD_ALWAYS_INLINE void evict_for_fill(CacheContents& contents, CacheNode& node, const CacheArray::Way& way,
                                            bool is_injection);
// Evicts a line in this state from `node`, whose way the caller then fills: moves the line to the next outer cache or
// to memory if necessary.
NEARFIELD_ALWAYS_INLINE void evict_line(CacheContents& contents, CacheNode& node, Address address, std::uint8_t state);
// Evicts all sub-blocks of a line to memory at once. Only for a last-level cache that is not inclusive.
NEARFIELD_ALWAYS_INLINE void evict_to_memory(CacheCounters& counters, CacheNode& node, const CacheArray::Way& way);
// Inserts a line that the next inner cache evicted into `node`, an exclusive (victim) cache.
NEARFIELD_ALWAYS_INLINE void insert_into_victim_cache(CacheContents& contents, CacheNode& node, Address address,
                                                      std::uint8_t state);
void evict_from_victim_cache(CacheContents& contents, CacheNode& node, const CacheArray::Way& way);

// ---- removals

// Removes a line that the inclusive cache `node` evicts from all caches inside `node`. Returns whether one of these
// copies was modified.
bool back_invalidate_line(CacheContents& contents, CacheNode& node, const CacheArray::Way& way, Address address);
// Removes a granule from all caches. Increments `counter` (nullptr: none) of the level of each removed copy;
// write_backs for modified copies only. Returns whether a copy was modified.
bool invalidate_all_copies(CacheContents& contents, Address granule, Count LevelCounts::* counter);

inline void fill_line(CacheContents& contents, CacheNode& node, const CacheArray::SetAndTag& where, Address address,
                      std::uint8_t state, unsigned sharer) {
  auto& array = node.array;
  contents.tree.mark_used(node);
  auto way = array.has_sub_blocks() ? array.find_tag(where) : CacheArray::Way{};
  if (!way) {
    way = array.way_to_fill(where);
    if (!way.is_empty()) evict_for_fill(contents, node, way, false);
  }
  array.fill(where, way, address, state);
  if (sharer) way.sharers() = static_cast<std::uint16_t>(sharer);
}

inline void evict_for_fill(CacheContents& contents, CacheNode& node, const CacheArray::Way& way, bool is_injection) {
  node.array.for_each_sub_block(way, [&](Address address) {
    auto state = node.array.state(way, address);
    if (node.inclusion == Inclusion::inclusive && back_invalidate_line(contents, node, way, address)) state |= modified;
    if (is_injection) [[unlikely]] {
      ++contents.counters.at_level(node.level).injected_victims;
      contents.deferred_updates.add_displaced_line(node, address);
      contents.tree.enable_displacement_checks();
    }
    evict_line(contents, node, address, state);
  });
}

inline void evict_line(CacheContents& contents, CacheNode& node, Address address, std::uint8_t state) {
  auto& counts = contents.counters.at_level(node.level);
  ++counts.evictions;
  counts.injected_unused += (state & injected) != 0;
  counts.write_backs += (state & modified) != 0;
  state &= modified | shared;
  auto* next = node.parent;
  if (next == nullptr) {
    if (state & modified) contents.counters.count_memory_writes();
    return;
  }
  if (next->inclusion == Inclusion::exclusive) return insert_into_victim_cache(contents, *next, address, state);
  if (!(state & modified)) return;
  const auto way = next->array.lookup(address);
  if (!way) return insert_line(contents, *next, next->array.locate(address), address, state);
  next->array.add_state(way, address, modified);
}

inline void insert_into_victim_cache(CacheContents& contents, CacheNode& node, Address address, std::uint8_t state) {
  auto& array = node.array;
  contents.tree.mark_used(node);
  const auto where = array.locate(address);
  auto way = array.find_tag(where);
  if (!way) {
    way = array.way_to_fill(where);
    if (!way.is_empty())
      node.parent == nullptr ? evict_to_memory(contents.counters, node, way)
                             : evict_from_victim_cache(contents, node, way);
  } else if (array.find(where, address)) {
    const auto present_state = array.state(way, address);  // a copy that is not shared is known to be the only one
    state = static_cast<std::uint8_t>((state & present_state & shared) | ((state | present_state) & modified));
  }
  array.fill(where, way, address, state);
}

inline void evict_to_memory(CacheCounters& counters, CacheNode& node, const CacheArray::Way& way) {
  const auto sub_block_counts = node.array.count_sub_blocks(way);
  auto& counts = counters.at_level(node.level);
  counts.evictions += sub_block_counts.sub_blocks;
  counts.injected_unused += sub_block_counts.injected;
  counts.write_backs += sub_block_counts.modified;
  counters.count_memory_writes(sub_block_counts.modified);
}

}  // namespace nearfield::sim
