// One cache of a node (CacheNode), and a point where the paths of several cores to memory meet (CoherencePoint), with
// the upkeep of its directory.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/memory/cache_array.hpp"
#include "sim/memory/directory.hpp"
#include "sim/memory/injection_victims.hpp"

namespace nearfield::sim {

struct CacheNode;

// A point where the paths of several cores to memory meet: a cache that the cores share, or the memory.
struct CoherencePoint {
  std::vector<CacheNode*> caches;  // of the next inner level
  TagLookups tag_lookups{};        // tag lookups by level if all inner caches are snooped
  // In a large machine, a directory lists which caches of the next inner level may hold a granule. The directory is
  // allocated when a second of these caches gets a line; `only_user` is the first one.
  bool has_directory = false;
  int granule_shift = 0;  // log2 of the bytes of a granule, if there is a directory
  const CacheNode* only_user = nullptr;
  std::unique_ptr<Directory> directory;

  // Adds `requester_cache` to the granule's sharers in the directory. If the point has a directory, must be called
  // before a granule from outside the point is filled into `requester_cache`. Returns the granule's sharers, including
  // `requester_cache`; nullopt if no other cache at the point has ever held a granule.
  std::optional<Directory::Sharers> add_sharer(const CacheNode& requester_cache, Address address);
  // Does the same as add_sharer() if there is a directory. Returns whether no other cache at the point can hold the
  // granule.
  bool add_exclusive_sharer(const CacheNode& requester_cache, Address address);
  // Removes a cache from the granule's sharers. Must be called only if there is a directory.
  void remove_sharer(Address granule, int number) { directory->sharers_of(granule >> granule_shift).remove(number); }
  // Calls `function` with each cache of the next inner level that may hold the granule.
  template <class Function>
  void for_each_sharer(Address granule, Function&& function) const;
  // Prefetches the directory entry of the address's granule into the caches of the machine that runs the simulator.
  NEARFIELD_ALWAYS_INLINE void host_prefetch_directory(Address address) const {
    if (directory) directory->host_prefetch(address >> granule_shift);
  }
  // Makes a directory of the lines that the inner caches hold, if the same point of another tree has a directory.
  void copy_directory(const CoherencePoint& other);
  void drop_directory();

 private:
  void add_lines(int number, const CacheNode& node);
};

// One cache and its position in the tree.
struct CacheNode {
  CacheNode(const Cache& cache, int cache_level, Variants* variants, bool ways_matter)
      : array(cache, variants, ways_matter),
        level(cache_level),
        inclusion(cache.inclusion),
        writes_through(cache.write == WritePolicy::through) {}
  CacheArray array;
  int level;
  Inclusion inclusion;
  bool writes_through;
  bool is_coherence_point = false;  // several caches of the next inner level share this cache
  // The cache acts as a snoop filter: no inner cache holds any part of a granule that misses in this cache.
  bool is_inclusive_filter = false;
  bool tracks_sharers = false;
  bool is_simple = false;       // an innermost cache whose lines are as long as its parent's
  bool is_used = false;         // the cache has ever held a line
  CacheNode* parent = nullptr;  // the next outer cache; nullptr: the memory
  int number = 0;               // index among the caches at the same coherence point
  CoherencePoint inner;         // the caches of the next inner level
  TagLookups tag_lookups{};     // tag lookups by level if this cache and all caches inside it are snooped
  InjectionVictims displaced_lines;

  // Returns this cache's bit in the sharer mask of its parent's lines.
  std::uint16_t sharer_bit() const { return static_cast<std::uint16_t>(1U << (number & 15)); }
};

inline bool CoherencePoint::add_exclusive_sharer(const CacheNode& requester_cache, Address address) {
  if (!has_directory) return caches.size() <= 1;
  const auto sharers = add_sharer(requester_cache, address);
  return !sharers || sharers->is_only_sharer(requester_cache.number);
}

template <class Function>
void CoherencePoint::for_each_sharer(Address granule, Function&& function) const {
  if (directory) {
    directory->for_each(granule >> granule_shift,
                        [&](int number) { function(*caches[static_cast<std::size_t>(number)]); });
  } else {
    for (auto* cache : caches)
      if (!has_directory || cache == only_user) function(*cache);
  }
}

}  // namespace nearfield::sim
