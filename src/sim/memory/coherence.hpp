// Cache coherence: snoops the caches of other cores when a core loads or stores a line (memory.hpp, points 2 and 3). A
// snoop is made where the paths of the cores to memory meet: at a shared cache or at the memory.
#pragma once

#include "sim/memory/cache_contents.hpp"

namespace nearfield::sim {

class Snooping {
 public:
  // A request to snooped caches: to mark their copies shared, or to remove them.
  enum class SnoopRequest { read_shared, invalidate };
  // The state of the copies that a snoop found in the snooped caches.
  struct SnoopResult {
    bool has_line = false;
    bool has_part = false;  // a cache had a part of the granule
    bool modified = false;  // a copy of the line itself was modified
    bool part_modified = false;
    // With mesi: a modified part of the granule is not in the cache at the coherence point, so it goes to memory.
    bool unwritten = false;
    bool shared = true;  // all copies that were found were shared
    int holder = 0;      // the number of the last-level cache that had the line, if last-level caches were snooped
  };

  // `contents` must outlive this object.
  Snooping(CacheContents& contents, Coherence coherence)
      : tree_(contents.tree),
        counters_(contents.counters),
        deferred_updates_(contents.deferred_updates),
        coherence_(coherence) {}

  // Returns whether caches inside `node`, other than `requester_cache`, may hold the line that is in way `way` of
  // `node`.
  static bool other_caches_may_have(const CacheNode& node, const CacheArray::Way& way,
                                    const CacheNode& requester_cache) {
    if (!node.is_coherence_point) return false;
    return !node.tracks_sharers || (way.sharers() & ~(1U << requester_cache.number)) != 0;
  }
  // Snoops the caches inside `node` other than `requester_cache`.
  SnoopResult snoop(CacheNode& node, const CacheNode& requester_cache, Address address, SnoopRequest request);
  // Snoops all last-level caches except the core's own.
  SnoopResult snoop_at_memory(int core, Address address, SnoopRequest request) {
    auto& point = tree_.memory_point();
    if (point.caches.size() == 1) return {};
    return snoop_point(point, nullptr, tree_.cache_at(core, tree_.num_levels() - 1), address, request);
  }
  // Invalidates all copies in other caches after a store into the core's cache of level `level`. Stops at the first
  // outer cache of the core whose copy is not shared, since no copy exists beyond that cache.
  void invalidate_remote_copies(int core, int level, Address address);
  // Must be called if a load hits a cache while other caches inside that cache hold a part of the granule. Returns the
  // state with which the line is filled into the inner caches. Counts write-backs and transfers between caches.
  std::uint8_t shared_state(const SnoopResult& snooped, std::uint8_t state);

 private:
  SnoopResult snoop_sharers(CacheNode& node, const CacheNode& requester_cache, Address address, SnoopRequest request);
  SnoopResult snoop_point(CoherencePoint& point, CacheNode* shared_cache, const CacheNode& requester_cache,
                          Address address, SnoopRequest request);
  bool snoop_subtree(CacheNode& node, CacheNode* shared_cache, Address address, SnoopRequest request,
                     SnoopResult& result);
  bool snoop_cache(CacheNode& node, CacheNode* shared_cache, Address address, SnoopRequest request,
                   SnoopResult& result);

  CacheTree& tree_;
  CacheCounters& counters_;
  DeferredUpdates& deferred_updates_;
  Coherence coherence_;
};

}  // namespace nearfield::sim
