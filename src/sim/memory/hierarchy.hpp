// Makes a core's loads and stores in the caches of its node: asks them, nearest first, asks other cores' caches for the
// line, and puts the line where it belongs. Clocks are elsewhere (timing.hpp). memory.hpp describes the steps in words.
#pragma once

#include <optional>

#include "sim/memory/cache_tree.hpp"
#include "sim/memory/coherence.hpp"

namespace nearfield::sim {

class Hierarchy {
 public:
  // Throws std::invalid_argument, which names the cache, for an impossible geometry.
  explicit Hierarchy(const Machine& machine, int variants = 1, bool ways_matter = false);
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  // The caches of one core, as most of its accesses need them (fast_path.hpp).
  struct Path;
  const Path& path(int core) const { return paths_[static_cast<std::size_t>(core)]; }

  // ---- accesses that the fast path (fast_path.hpp) does not make
  // Makes one access inside one line of the nearest cache; returns where the line was found.
  Found load(int core, Address address);
  Found store(int core, Address address);
  // Counts `count` more accesses to the line of the last access: hits, or stores that go on through the nearest cache.
  void repeat(int core, bool store, Address address, Count count);
  // Returns whether the core's nearest cache has the line under all variants in a state that an access does not change.
  bool hits_nearest_for_all(int core, bool store, Address address);
  // Returns whether the core's cache of that level has the line under all variants.
  bool all_have(int core, int level, Address address) const;
  // Brings the line into the caches of `core` from `level` outward. Returns where it came from; nothing if it is there
  // already.
  std::optional<Found> prefetch(int core, int level, Address address);

  void forget_everything();  // that any cache holds

  Contents& contents() { return contents_; }

  // ---- what the host may fetch while other accesses are simulated
  // Returns the first level whose caches in use have a state that does not fit the host's nearest caches.
  int far_from() const;
  // Returns how many accesses went as far as that level.
  Count went_far(int far_from) const {
    if (far_from == contents_.levels()) return 0;
    const auto& counts = contents_.variants().common().levels[static_cast<std::size_t>(far_from)];
    return counts.hits + counts.misses;
  }
  // Fetches the sets that an access will need from that level on, and those of a line that makes room for it, which is
  // needed later.
  NEARFIELD_INNERMOST void fetch_early(int core, Address address, int far_from) const {
    for (int k = far_from; k < contents_.levels(); ++k) {
      const auto& node = contents_.cache_at(core, k);
      node.array.fetch_early(address);
      contents_.fetch_holders_early(node.before, address);
    }
    contents_.fetch_holders_early(contents_.at_memory(), address);
  }
  NEARFIELD_INNERMOST void fetch_victim_early(const Path& path, Address address) const;

 private:
  template <class Shape>
  friend class FastPath;
  using Ask = Snooping::Ask;
  // The set and tag of one access's line at every level.
  using Located = std::array<CacheArray::SetAndTag, most_cache_levels>;

  enum class Use { load, store, store_through, prefetch };  // of the fast path; the last one: into the second cache
  Path path_of(int core) const;
  void find_paths();

  NEARFIELD_INNERMOST std::uint8_t hit_or_take(CacheNode& node, const CacheArray::Way& way, Address address);
  static std::uint8_t take(CacheNode& node, const CacheArray::Way& way, Address address);
  Found load_missed(int core, Address address, CacheArray::SetAndTag nearest);
  template <bool counts>
  Found fetch(int core, int first, Address address, Located& located);
  Found store_missed(int core, int level, Address address, CacheArray::SetAndTag where);
  void store_hit(int core, CacheNode& node, const CacheArray::Way& way, Address address);
  Found store_through(int core, Address address);
  Found store_at(int core, int level, Address address);
  NEARFIELD_INNERMOST void fill(int core, int first, int end, Address address, const Located& located,
                                std::uint8_t state, bool stored = false, int shared_before = 0);

  Contents contents_;
  Snooping others_;  // the caches of other cores
  int levels_;
  bool is_read_at_home_;     // a line that others have, but did not modify
  std::vector<Path> paths_;  // of each core
};

struct Hierarchy::Path {
  int core = 0;
  bool is_fast = false;           // of its first two caches
  bool has_victims = false;       // its third cache is the last one and exclusive, and the fast path knows it
  bool meets = false;             // others, in the last cache or beyond it
  bool through = false;           // the nearest one writes through
  bool includes_nearest = false;  // the second one does
  std::uint16_t own = 0;          // the nearest one's bit among the sharers
  CacheView first, second, third;
  CacheNode *nearest_node = nullptr, *second_node = nullptr, *third_node = nullptr;
  const CacheNode& node(std::size_t level) const {
    return *(level == 0 ? nearest_node : level == 1 ? second_node : third_node);
  }
};

NEARFIELD_INNERMOST void Hierarchy::fetch_victim_early(const Path& path, Address address) const {
  if (!path.has_victims) return;
  const auto where = path.second.locate(address);
  contents_.cache_at(path.core, 2).array.fetch_early(path.second.address_of(where, path.second.room(*where.set)));
}

}  // namespace nearfield::sim
