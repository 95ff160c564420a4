// Loads and stores of cores in the caches of a node: looks up the core's own caches, innermost first, snoops other
// cores' caches, and fills the line. memory.hpp describes the steps. Clocks are in timing.hpp.
#pragma once

#include <optional>

#include "sim/memory/cache_contents.hpp"
#include "sim/memory/coherence.hpp"

namespace nearfield::sim {

class Hierarchy {
 public:
  // Throws std::invalid_argument, which names the cache, for an impossible geometry.
  explicit Hierarchy(const Machine& machine, int variants = 1, bool ways_matter = false);
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  // The caches of one core in the form that the fast path (fast_path.hpp) needs.
  struct Path;
  const Path& path(int core) const { return paths_[static_cast<std::size_t>(core)]; }
  void disable_fast_path();

  // ---- accesses that the fast path (fast_path.hpp) does not handle
  // Makes one access within one L1 line. Returns which level or core supplied the line.
  LookupResult load(int core, Address address);
  LookupResult store(int core, Address address);
  // Counts `count` more accesses to the line of the last access: L1 hits, or stores that L1 writes through.
  void repeat(int core, bool store, Address address, Count count);
  // Returns whether the access hits L1 in all variants and involves no other cache: a store must not hit a shared line,
  // and L1 must not write it through.
  bool hits_l1_in_all_variants(int core, bool store, Address address);
  // Returns whether the core's cache of that level holds the line in all variants.
  bool is_present_in_all_variants(int core, int level, Address address) const;
  // Prefetches a line into the core's caches from level `level` outwards. Returns what supplied the line; nothing if
  // the cache of level `level` already holds it.
  std::optional<LookupResult> prefetch(int core, int level, Address address);

  void invalidate_all();  // drops all lines of all caches without writing them back

  CacheContents& contents() { return contents_; }

  // ---- prefetching into the host's caches while other accesses are simulated
  // Returns the innermost level from which on the simulated state of the caches in use exceeds the host's inner caches.
  int first_level_beyond_host_cache() const;
  // Returns how many accesses have reached that level.
  Count num_accesses_reaching(int far_level) const {
    if (far_level == contents_.tree.num_levels()) return 0;
    const auto& counts = contents_.counters.common().levels[static_cast<std::size_t>(far_level)];
    return counts.hits + counts.misses;
  }
  // Prefetches the cache sets and directory entries that an access needs at level `far_level` and beyond into the
  // host's caches.
  NEARFIELD_ALWAYS_INLINE void host_prefetch(int core, Address address, int far_level) const {
    for (int k = far_level; k < contents_.tree.num_levels(); ++k) {
      const auto& node = cache_at(core, k);
      node.array.host_prefetch(address);
      node.inner.host_prefetch_directory(address);
    }
    contents_.tree.memory_point().host_prefetch_directory(address);
  }
  NEARFIELD_ALWAYS_INLINE void host_prefetch_victim(const Path& path, Address address) const;

 private:
  template <class Config>
  friend class FastPath;
  using SnoopRequest = Snooping::SnoopRequest;
  // The set and tag of one access's line at every level.
  using Located = std::array<CacheArray::SetAndTag, max_cache_levels>;

  // Kinds of accesses on the fast path; prefetch: into L2.
  enum class AccessType { load, store, store_through, prefetch };
  CacheNode& cache_at(int core, int level) const { return contents_.tree.cache_at(core, level); }
  Path path_of(int core) const;
  void find_paths();

  // ---- a line that the core's innermost cache does not hold
  enum class FetchKind { load, store, prefetch };
  // The request to the caches of other cores that hold copies of the line.
  template <FetchKind kind>
  static constexpr SnoopRequest request_for =
      kind == FetchKind::store ? SnoopRequest::invalidate : SnoopRequest::read_shared;
  struct Supply;
  template <FetchKind kind>
  LookupResult handle_miss(int core, int level, Address address, CacheArray::SetAndTag where);
  template <FetchKind kind>
  LookupResult fetch(int core, int first, Address address, Located& located);
  template <FetchKind kind>
  NEARFIELD_ALWAYS_INLINE void supply_from_own_cache(CacheNode& node, const CacheArray::Way& way,
                                                     const CacheNode& inner, Address address, Supply& supply);
  template <FetchKind kind>
  NEARFIELD_ALWAYS_INLINE bool supply_from_other_core(CacheNode& node, const CacheNode& inner, Address address,
                                                      Supply& supply);
  template <FetchKind kind>
  NEARFIELD_ALWAYS_INLINE void supply_from_memory(int core, Address address, Supply& supply);
  template <FetchKind kind>
  NEARFIELD_ALWAYS_INLINE std::uint8_t take_copy(CacheNode& node, const CacheArray::Way& way, Address address);
  // Record a hit of a line, or a miss, in one cache.
  NEARFIELD_ALWAYS_INLINE void record_hit(CacheNode& node, const CacheArray::Way& way, Address address);
  NEARFIELD_ALWAYS_INLINE void record_miss(CacheNode& node, Address address);
  bool store_hit(int core, CacheNode& node, const CacheArray::Way& way, Address address);
  LookupResult store_through(int core, Address address);
  LookupResult store_at(int core, int level, Address address);
  NEARFIELD_ALWAYS_INLINE void fill(int core, int first, int end, Address address, const Located& located,
                                    std::uint8_t state, bool stored = false, int shared_before = 0);

  CacheContents contents_;
  Snooping snooping_;  // of other cores' caches
  int levels_;
  bool home_supplies_clean_lines_;  // DRAM supplies a line that other caches hold unmodified
  bool may_be_fast_ = true;
  std::vector<Path> paths_;  // per core
};

struct Hierarchy::Path {
  int core = 0;
  bool is_fast = false;              // the fast path can serve L1 and L2
  bool has_victim_cache = false;     // L3 is the last level and exclusive, and the fast path handles it
  bool has_coherence_point = false;  // other cores share L3 or the memory
  bool l1_writes_through = false;
  bool l2_includes_l1 = false;
  std::uint16_t own_bit = 0;  // L1's bit in the sharers of L2's lines
  CacheView l1, l2, l3;
  CacheNode *l1_node = nullptr, *l2_node = nullptr, *l3_node = nullptr;
  const CacheNode& cache_at(std::size_t level) const {
    return *(level == 0 ? l1_node : level == 1 ? l2_node : l3_node);
  }
};

NEARFIELD_ALWAYS_INLINE void Hierarchy::host_prefetch_victim(const Path& path, Address address) const {
  if (!path.has_victim_cache) return;
  const auto where = path.l2.locate(address);
  cache_at(path.core, 2).array.host_prefetch(path.l2.address_of(where, path.l2.way_to_fill(*where.set)));
}

}  // namespace nearfield::sim
