// Snoops the caches of other cores when one core loads or stores a line: memory.hpp, points 2 and 3. They are snooped
// where the paths of both cores meet: in a shared cache or at the memory.
#pragma once

#include "sim/memory/cache_tree.hpp"

namespace nearfield::sim {

class Snooping {
 public:
  // What snooped caches do with their copies: mark them shared, or remove them.
  enum class SnoopRequest { read_shared, invalidate };
  // The copies that the snooped caches had.
  struct SnoopResult {
    bool has_line = false;
    bool has_part = false;  // some of the granule
    bool modified = false;  // the line itself
    bool part_modified = false;
    bool unwritten = false;  // mesi: modified lines of the granule that the cache at the coherence point does not have
    bool shared = true;      // all copies that were found
    int holder = 0;          // which last-level cache had the line, if these were snooped
  };

  // `tree` must outlive this object.
  Snooping(CacheTree& tree, Coherence coherence) : tree_(tree), coherence_(coherence) {}

  // Returns whether caches inside `node`, other than `own`, may have the line that it holds in `way`.
  static bool other_caches_may_have(const CacheNode& node, const CacheArray::Way& way, const CacheNode& own) {
    if (!node.is_coherence_point) return false;
    return !node.tracks_sharers || (way.sharers() & ~(1U << own.number)) != 0;
  }
  // Snoops the caches inside `node` other than `own`.
  SnoopResult snoop(CacheNode& node, const CacheNode& own, Address address, SnoopRequest request);
  // Snoops the last-level caches other than that core's own.
  SnoopResult snoop_at_memory(int core, Address address, SnoopRequest request) {
    auto& point = tree_.memory_point();
    if (point.caches.size() == 1) return {};
    return snoop_point(point, nullptr, tree_.cache_at(core, tree_.num_levels() - 1), address, request);
  }
  // Invalidates all other copies after a store at `level`, out to the first cache whose copy was not shared: there is
  // none beyond that cache.
  void invalidate_remote_copies(int core, int level, Address address);
  // A load hit in a cache, and others inside that cache have the line, too; returns the state with which it moves
  // inwards.
  std::uint8_t shared_state(const SnoopResult& snooped, std::uint8_t state);

 private:
  SnoopResult snoop_sharers(CacheNode& node, const CacheNode& own, Address address, SnoopRequest request);
  SnoopResult snoop_point(CoherencePoint& point, CacheNode* at, const CacheNode& own, Address address,
                          SnoopRequest request);
  bool snoop_subtree(CacheNode& node, CacheNode* at, Address address, SnoopRequest request, SnoopResult& found);
  bool snoop_cache(CacheNode& node, CacheNode* at, Address address, SnoopRequest request, SnoopResult& found);

  CacheTree& tree_;
  Coherence coherence_;
};

}  // namespace nearfield::sim
