// Makes a core's loads and stores in the caches of its node: asks them, nearest first, asks other cores' caches for the
// line, and puts the line where it belongs. Clocks are elsewhere (timing.hpp). memory.hpp describes the steps in words.
#pragma once

#include <optional>

#include "sim/memory/coherence.hpp"
#include "sim/memory/contents.hpp"

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

  // Makes an access that looks at sets of the first two caches only, if these are the same under all variants.
  std::optional<Found> near_for_all(const Path& path, bool store, Address address);
  // Returns whether the core's cache of that level has the line under all variants.
  bool all_have(int core, int level, Address address) const;
  // Makes one access inside one line of the nearest cache; returns where the line was found.
  Found load(const Path& path, Address address);
  Found store(const Path& path, Address address);
  // Counts `count` more accesses to the line of the last access: hits, or stores that go on through the nearest cache.
  NEARFIELD_INNERMOST void repeat(const Path& path, bool store, Address address, Count count);
  // Brings the line into the caches of `core` from `level` outward. Returns where it came from; nothing if it is there
  // already.
  std::optional<Found> prefetch(int core, int level, Address address);

  Contents& contents() { return contents_; }

  // ---- what the host may fetch while other accesses are simulated
  // Returns how many accesses went as far as the caches whose state does not fit the host's nearest caches.
  Count went_far() const {
    if (fetched_early_from_ == contents_.levels()) return 0;
    const auto& counts = contents_.variants().common().levels[static_cast<std::size_t>(fetched_early_from_)];
    return counts.hits + counts.misses;
  }
  // Fetches the sets that an access will need there, and those of a line that makes room for it, which is needed later.
  NEARFIELD_INNERMOST void fetch_early(int core, Address address) const {
    for (int k = fetched_early_from_; k < contents_.levels(); ++k)
      contents_.cache_at(core, k).array.fetch_early(address);
  }
  NEARFIELD_INNERMOST void fetch_victim_early(const Path& path, Address address) const;

 private:
  using Ask = Snooping::Ask;
  // The set and tag of one access's line at every level.
  using Located = std::array<CacheArray::SetAndTag, most_cache_levels>;

  // ---- the fast path
  enum class Use { load, store, store_through, prefetch };  // the last one: into the second cache
  Path path_of(int core) const;
  static bool is_alone(const CacheArray::Way& way, const Path& path);
  NEARFIELD_INNERMOST void fill_nearest(const Path& path, CacheArray::SetAndTag where, std::uint8_t state);
  void evict_marked(CacheNode& node, CacheArray::Way way);
  NEARFIELD_INNERMOST void give_to_victims(const Path& path, Address address, const CacheArray::Way& way);
  void store_in_nearest(CacheNode& nearest, const CacheArray::Way& way, Address address);
  template <Use use>
  Found hit_second(const Path& path, CacheArray::SetAndTag nearest, const CacheArray::Way& way, Address address);
  template <Use use>
  NEARFIELD_INNERMOST Found fast_miss(const Path& path, Address address, CacheArray::SetAndTag nearest);
  bool nobody_else_has(const Path& path, Address address, bool is_victim);
  template <Use use>
  [[gnu::noinline]] int fetch_beyond_second(const Path& path, Address address, CacheArray::SetAndTag nearest,
                                            CacheArray::SetAndTag second);

  // ---- the slow path
  void repeat_through(int core, Address address, Count count);
  std::optional<Found> prefetch_any(int core, int level, Address address);
  Found load_any(int core, Address address);
  Found store_any(int core, Address address);
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
  int fetched_early_from_;
};

struct Hierarchy::Path {
  int core;
  CacheNode *nearest, *second,
      *victims;          // the last one, if it is there: an exclusive cache, and no other one is beyond
  std::uint16_t own;     // the nearest one's bit among the sharers
  bool is_fast = false;  // of its first two caches
  bool meets = false;    // others, in the last cache or beyond it
};

}  // namespace nearfield::sim
