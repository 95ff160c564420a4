#include "sim/memory/evictions.hpp"

namespace nearfield::sim {
namespace {

// Back-invalidates a line (or a sub-block) that an inclusive outer cache evicts. Returns whether the removed copy was
// modified.
bool remove_line(CacheCounters& counters, CacheNode& node, Address address) {
  const auto way = node.array.lookup(address);
  if (!way) return false;
  const auto state = node.array.remove(way, address);
  auto& counts = counters.at_level(node.level);
  ++counts.back_invalidations;
  if (state & injected) ++counts.injected_unused;
  return (state & modified) != 0;
}

bool remove_in_subtree(CacheCounters& counters, CacheNode& node, Address address, std::uint64_t bytes) {
  bool was_modified = false;
  for (auto at = address; at < address + bytes; at += node.array.sub_block_bytes())
    was_modified |= remove_line(counters, node, at);
  for (auto* cache : node.inner.caches) was_modified |= remove_in_subtree(counters, *cache, address, bytes);
  return was_modified;
}

bool remove_from_all_inner(CacheContents& contents, CacheNode& node, Address address) {
  bool was_modified = false;
  node.inner.for_each_sharer(contents.tree.granule_of(address), [&](CacheNode& cache) {
    was_modified |= remove_in_subtree(contents.counters, cache, address, node.array.line_bytes());
  });
  return was_modified;
}

}  // namespace

void insert_line(CacheContents& contents, CacheNode& node, const CacheArray::SetAndTag& where, Address address,
                 std::uint8_t state, int way_limit) {
  auto& array = node.array;
  contents.tree.mark_used(node);
  CacheArray::Way way;
  if ((state & injected) || array.has_sub_blocks()) way = array.find_tag(where);
  if (way && array.find(where, address) && !(state & injected)) state |= array.state(way, address) & modified;
  if (!way) {
    way = array.way_to_fill(where, way_limit);
    if (!way.is_empty()) evict_for_fill(contents, node, way, state & injected);
  }
  array.fill(where, way, address, state);
}

void evict_from_victim_cache(CacheContents& contents, CacheNode& node, const CacheArray::Way& way) {
  evict_for_fill(contents, node, way, false);
}

bool back_invalidate_line(CacheContents& contents, CacheNode& node, const CacheArray::Way& way, Address address) {
  if (!node.tracks_sharers) [[unlikely]]
    return remove_from_all_inner(contents, node, address);
  bool was_modified = false;
  for (unsigned sharers = way.sharers(); sharers != 0; sharers &= sharers - 1) {
    auto& child = *node.inner.caches[static_cast<std::size_t>(std::countr_zero(sharers))];
    was_modified |= child.is_simple ? remove_line(contents.counters, child, address)
                                    : remove_in_subtree(contents.counters, child, address, node.array.line_bytes());
  }
  return was_modified;
}

bool invalidate_all_copies(CacheContents& contents, Address granule, Count LevelCounts::* counter) {
  bool was_modified = false;
  contents.tree.for_each_copy(granule, [&](CacheNode& node, const CacheArray::Way& way, Address at) {
    const auto state = node.array.remove(way, at);
    was_modified |= (state & modified) != 0;
    if (counter == nullptr) return;
    auto& counts = contents.counters.at_level(node.level);
    counts.injected_unused += (state & injected) != 0;
    counts.*counter += counter != &LevelCounts::write_backs || (state & modified);
  });
  return was_modified;
}

}  // namespace nearfield::sim
