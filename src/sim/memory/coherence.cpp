#include "sim/memory/coherence.hpp"

namespace nearfield::sim {

Snooping::SnoopResult Snooping::snoop(CacheNode& node, const CacheNode& own, Address address, SnoopRequest request) {
  return node.tracks_sharers ? snoop_sharers(node, own, address, request)
                             : snoop_point(node.inner, &node, own, address, request);
}

Snooping::SnoopResult Snooping::snoop_sharers(CacheNode& node, const CacheNode& own, Address address,
                                              SnoopRequest request) {
  SnoopResult found;
  const auto way = node.array.find_tag(node.array.locate(address));
  if (!way) return snoop_point(node.inner, &node, own, address, request);
  for (auto* cache : node.inner.caches) {
    if (cache == &own || !(way.sharers() & cache->sharer_bit())) continue;
    snoop_subtree(*cache, &node, address, request, found);
    if (request == SnoopRequest::invalidate) way.sharers() &= static_cast<std::uint16_t>(~cache->sharer_bit());
  }
  return found;
}

// Snoops the caches of a coherence point, or only those that the point's directory lists. `at` is the shared cache at
// that point; nullptr if the point is the memory.
Snooping::SnoopResult Snooping::snoop_point(CoherencePoint& point, CacheNode* at, const CacheNode& own, Address address,
                                            SnoopRequest request) {
  SnoopResult found;
  const auto snoop_one = [&](CacheNode& cache) {
    const bool had_line = found.has_line, is_held = snoop_subtree(cache, at, address, request, found);
    if (found.has_line && !had_line) found.holder = cache.number;
    return is_held && request == SnoopRequest::read_shared;
  };
  if (!point.has_directory) {
    for (auto* cache : point.caches)
      if (cache != &own) snoop_one(*cache);
    return found;
  }
  tree_.count_tag_lookups(point.tag_lookups, own.tag_lookups);
  auto sharers = tree_.directory_add(point, own, address);
  if (!sharers) return found;
  sharers->for_each([&](int number) {
    auto& cache = *point.caches[static_cast<std::size_t>(number)];
    if (&cache == &own) return;
    tree_.count_tag_lookups({}, cache.tag_lookups);
    if (!snoop_one(cache)) tree_.directory_remove(point, address, number);
  });
  return found;
}

// Snoops `node` and all caches inside it for a whole granule, which may be several lines of an inner cache. Returns
// whether one of these caches held a part of the granule. `at` is the cache where the requesting core's path and that
// of `node` meet; nullptr: the memory. Outside L1, a lookup in a cache that the run has never used is counted but not
// made, since a large machine has many such caches.
bool Snooping::snoop_subtree(CacheNode& node, CacheNode* at, Address address, SnoopRequest request,
                             SnoopResult& found) {
  if (!node.used && node.level == 0) return false;
  ++tree_.counts_of(node).snoops;
  bool is_held = node.used && snoop_cache(node, at, address, request, found);
  if (node.inclusion == Inclusion::inclusive && !is_held) return false;
  const bool has_directory = node.inner.has_directory;
  if (has_directory) tree_.count_tag_lookups(node.inner.tag_lookups, {});
  tree_.for_each_sharer(node.inner, tree_.granule_of(address), [&](CacheNode& cache) {
    if (has_directory) tree_.count_tag_lookups({}, cache.tag_lookups);
    is_held |= snoop_subtree(cache, at, address, request, found);
  });
  return is_held;
}

// Snoops one cache, and returns whether it held a part of the granule.
bool Snooping::snoop_cache(CacheNode& node, CacheNode* at, Address address, SnoopRequest request, SnoopResult& found) {
  const auto granule = tree_.granule_of(address);
  bool is_held = false;
  for (auto part = granule; part < granule + tree_.granule_bytes(); part += node.array.sub_block_bytes()) {
    const auto way = node.array.lookup(part);
    if (!way) continue;
    is_held = found.has_part = true;
    const bool is_it = address - part < node.array.sub_block_bytes();
    const auto state = node.array.state(way, part);
    found.has_line |= is_it;
    found.modified |= is_it && (state & modified);
    found.part_modified |= (state & modified) != 0;
    found.shared &= (state & shared) != 0;
    if (request == SnoopRequest::invalidate) {
      if (state & injected) ++tree_.counts_of(node).injected_unused;
      node.array.remove(way, part);
      ++tree_.counts_of(node).invalidations;
      continue;
    }
    node.array.add_state(way, part, shared);
    if (!(state & modified) || coherence_ == Coherence::moesi) continue;
    node.array.drop_state(way, part, modified);
    const auto outer_copy = at ? at->array.lookup(part) : CacheArray::Way{};
    if (outer_copy)
      at->array.add_state(outer_copy, part, modified);
    else
      found.unwritten = true;
  }
  return is_held;
}

void Snooping::invalidate_remote_copies(int core, int level, Address address) {
  for (int k = level + 1; k < tree_.num_levels(); ++k) {
    auto& node = tree_.cache_at(core, k);
    const auto way = node.array.lookup(address);
    const auto& own = tree_.cache_at(core, k - 1);
    if (way ? other_caches_may_have(node, way, own) : !node.is_inclusive_filter && node.is_coherence_point)
      snoop(node, own, address, SnoopRequest::invalidate);
    if (!way) continue;
    const auto state = node.array.state(way, address);
    if (!(state & shared)) return;
    node.array.drop_state(way, address, shared);
  }
  snoop_at_memory(core, address, SnoopRequest::invalidate);
}

std::uint8_t Snooping::shared_state(const SnoopResult& snooped, std::uint8_t state) {
  tree_.count_transfers(snooped.modified);
  if (coherence_ == Coherence::moesi && (snooped.modified || !snooped.part_modified))
    return static_cast<std::uint8_t>(shared | (snooped.modified ? 0 : state));
  if (snooped.unwritten || (state & modified)) tree_.write_to_memory();
  return shared;
}

}  // namespace nearfield::sim
