#include "sim/memory/coherence.hpp"

namespace nearfield::sim {

Snooping::SnoopResult Snooping::snoop(CacheNode& node, const CacheNode& requester_cache, Address address,
                                      SnoopRequest request) {
  return node.tracks_sharers ? snoop_sharers(node, requester_cache, address, request)
                             : snoop_point(node.inner, &node, requester_cache, address, request);
}

Snooping::SnoopResult Snooping::snoop_sharers(CacheNode& node, const CacheNode& requester_cache, Address address,
                                              SnoopRequest request) {
  SnoopResult result;
  const auto way = node.array.find_tag(node.array.locate(address));
  if (!way) return snoop_point(node.inner, &node, requester_cache, address, request);
  for (auto* cache : node.inner.caches) {
    if (cache == &requester_cache || !(way.sharers() & cache->sharer_bit())) continue;
    snoop_subtree(*cache, &node, address, request, result);
    if (request == SnoopRequest::invalidate) way.sharers() &= static_cast<std::uint16_t>(~cache->sharer_bit());
  }
  return result;
}

// Snoops the caches of a coherence point or, if the point has a directory, only those that the directory lists.
// `shared_cache` is the cache at that point; nullptr if the point is the memory.
Snooping::SnoopResult Snooping::snoop_point(CoherencePoint& point, CacheNode* shared_cache,
                                            const CacheNode& requester_cache, Address address, SnoopRequest request) {
  SnoopResult result;
  const auto snoop_one_cache = [&](CacheNode& cache) {
    const bool had_line = result.has_line, is_held = snoop_subtree(cache, shared_cache, address, request, result);
    if (result.has_line && !had_line) result.holder = cache.number;
    return is_held && request == SnoopRequest::read_shared;
  };
  if (!point.has_directory) {
    for (auto* cache : point.caches)
      if (cache != &requester_cache) snoop_one_cache(*cache);
    return result;
  }
  counters_.count_tag_lookups(point.tag_lookups, requester_cache.tag_lookups);
  auto sharers = point.add_sharer(requester_cache, address);
  if (!sharers) return result;
  sharers->for_each([&](int number) {
    auto& cache = *point.caches[static_cast<std::size_t>(number)];
    if (&cache == &requester_cache) return;
    counters_.count_tag_lookups({}, cache.tag_lookups);
    if (!snoop_one_cache(cache)) deferred_updates_.remove_sharer(point, address, number);
  });
  return result;
}

// Snoops `node` and all caches inside it for a whole granule, which may be several lines of an inner cache. Returns
// whether one of these caches held a part of the granule. `shared_cache` is the cache where the requesting core's path
// to memory meets that of `node`; nullptr: the memory. Outside L1, a lookup in a cache that the run has never used is
// counted but not made, since a large machine has many such caches.
bool Snooping::snoop_subtree(CacheNode& node, CacheNode* shared_cache, Address address, SnoopRequest request,
                             SnoopResult& result) {
  if (!node.is_used && node.level == 0) return false;
  ++counters_.at_level(node.level).snoops;
  bool is_held = node.is_used && snoop_cache(node, shared_cache, address, request, result);
  if (node.inclusion == Inclusion::inclusive && !is_held) return false;
  const bool has_directory = node.inner.has_directory;
  if (has_directory) counters_.count_tag_lookups(node.inner.tag_lookups, {});
  node.inner.for_each_sharer(tree_.granule_of(address), [&](CacheNode& cache) {
    if (has_directory) counters_.count_tag_lookups({}, cache.tag_lookups);
    is_held |= snoop_subtree(cache, shared_cache, address, request, result);
  });
  return is_held;
}

// Snoops one cache, and returns whether it held a part of the granule.
bool Snooping::snoop_cache(CacheNode& node, CacheNode* shared_cache, Address address, SnoopRequest request,
                           SnoopResult& result) {
  const auto granule = tree_.granule_of(address);
  bool is_held = false;
  for (auto part = granule; part < granule + tree_.granule_bytes(); part += node.array.sub_block_bytes()) {
    const auto way = node.array.lookup(part);
    if (!way) continue;
    is_held = result.has_part = true;
    const bool contains_address = address - part < node.array.sub_block_bytes();
    const auto state = node.array.state(way, part);
    result.has_line |= contains_address;
    result.modified |= contains_address && (state & modified);
    result.part_modified |= (state & modified) != 0;
    result.shared &= (state & shared) != 0;
    if (request == SnoopRequest::invalidate) {
      if (state & injected) ++counters_.at_level(node.level).injected_unused;
      node.array.remove(way, part);
      ++counters_.at_level(node.level).invalidations;
      continue;
    }
    node.array.add_state(way, part, shared);
    if (!(state & modified) || coherence_ == Coherence::moesi) continue;
    node.array.drop_state(way, part, modified);
    const auto outer_copy = shared_cache ? shared_cache->array.lookup(part) : CacheArray::Way{};
    if (outer_copy)
      shared_cache->array.add_state(outer_copy, part, modified);
    else
      result.unwritten = true;
  }
  return is_held;
}

void Snooping::invalidate_remote_copies(int core, int level, Address address) {
  for (int k = level + 1; k < tree_.num_levels(); ++k) {
    auto& node = tree_.cache_at(core, k);
    const auto way = node.array.lookup(address);
    const auto& requester_cache = tree_.cache_at(core, k - 1);
    if (way ? other_caches_may_have(node, way, requester_cache) : !node.is_inclusive_filter && node.is_coherence_point)
      snoop(node, requester_cache, address, SnoopRequest::invalidate);
    if (!way) continue;
    const auto state = node.array.state(way, address);
    if (!(state & shared)) return;
    node.array.drop_state(way, address, shared);
  }
  snoop_at_memory(core, address, SnoopRequest::invalidate);
}

std::uint8_t Snooping::shared_state(const SnoopResult& snooped, std::uint8_t state) {
  counters_.count_transfers(snooped.modified);
  if (coherence_ == Coherence::moesi && (snooped.modified || !snooped.part_modified))
    return static_cast<std::uint8_t>(shared | (snooped.modified ? 0 : state));
  if (snooped.unwritten || (state & modified)) counters_.count_memory_writes();
  return shared;
}

}  // namespace nearfield::sim
