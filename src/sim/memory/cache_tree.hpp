// All caches of a node, as a tree whose root is the memory. CacheTree fills lines, moves evicted lines to the next
// outer level (memory.hpp, point 1) and counts the resulting DRAM traffic. Requests of cores are in hierarchy.hpp,
// coherence in coherence.hpp, and timing in timing.hpp.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
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
  const CacheNode* only_user = nullptr;
  std::unique_ptr<Directory> directory;
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

class CacheTree {
 public:
  using Caches = std::array<CacheNode*, max_cache_levels>;  // the caches of one core, innermost first

  // Throws std::invalid_argument, which names the cache, for an impossible geometry. `ways_matter`: a device may be
  // restricted to some ways of a set.
  explicit CacheTree(const Machine& machine, int variants = 1, bool ways_matter = false);

  // ---- variants
  // Runs `action` once per group of variants with the same outcome (Variants::run), then applies the deferred updates.
  // Cache contents that may differ between variants may be changed only inside run().
  template <class Action>
  NEARFIELD_ALWAYS_INLINE Variants::GroupLeaders run(const Variants::EquivalenceClasses& classes, Action&& action) {
    const auto leaders = variants_.run(classes, action);
    if (!deferred_updates_.empty()) [[unlikely]]
      apply_deferred_updates(leaders);
    return leaders;
  }
  // Same as run() above, for an action that is identical in all variants.
  template <class Action>
  NEARFIELD_ALWAYS_INLINE Variants::GroupLeaders run(Action&& action) {
    return run(variants_.single_class(), action);
  }
  // Runs `action` once for all variants. The action may access only sets that are the same in all variants.
  template <class Action>
  NEARFIELD_ALWAYS_INLINE void run_on_common_sets(Action&& action) {
    action();
    if (!deferred_updates_.empty()) [[unlikely]]
      apply_deferred_updates({});
  }
  Variants& variants() { return variants_; }
  const Variants& variants() const { return variants_; }

  int num_levels() const { return num_levels_; }
  std::uint64_t granule_bytes() const { return granule_bytes_; }
  std::uint64_t l1_line_bytes() const { return l1_line_bytes_; }
  Address granule_of(Address address) const { return address & ~(granule_bytes_ - 1); }
  std::uint64_t granule_number(Address address) const { return address >> granule_shift_; }
  CacheNode& cache_at(int core, int level) const {
    return *caches_by_core_[static_cast<std::size_t>(core)][static_cast<std::size_t>(level)];
  }
  // Returns how many caches of that level have ever held a line.
  std::size_t num_used_caches(int level) const { return num_used_caches_[static_cast<std::size_t>(level)]; }
  CoherencePoint& memory_point() { return memory_point_; }  // the coherence point of the last-level caches
  const CoherencePoint& memory_point() const { return memory_point_; }

  // ---- directories of coherence points
  // Adds `requester_cache` to the granule's sharers in the directory of `point`. If the point has a directory, must be
  // called before a granule from outside the point is filled into `requester_cache`. Returns the granule's sharers,
  // including `requester_cache`; nullopt if no other cache at the point has ever held a granule.
  std::optional<Directory::Sharers> directory_add(CoherencePoint& point, const CacheNode& requester_cache,
                                                  Address address);
  // Does the same as directory_add() if there is a directory. Returns whether no other cache at the coherence point can
  // hold the granule.
  bool directory_add_exclusive(CoherencePoint& point, const CacheNode& requester_cache, Address address) {
    if (!point.has_directory) return point.caches.size() <= 1;
    const auto sharers = directory_add(point, requester_cache, address);
    return !sharers || sharers->is_only_sharer(requester_cache.number);
  }
  // Prefetches the directory entry of the address's granule into the caches of the machine that runs the simulator.
  NEARFIELD_ALWAYS_INLINE void host_prefetch_directory(const CoherencePoint& point, Address address) const {
    if (point.directory) point.directory->host_prefetch(granule_number(address));
  }
  // Calls `function` with each cache of the next inner level that may hold the granule.
  template <class Function>
  void for_each_sharer(const CoherencePoint& point, Address granule, Function&& function);
  // Records that cache `number` no longer holds the granule under the acting group of variants. The sharer is removed
  // only if that group is all variants.
  void directory_remove(CoherencePoint& point, Address granule, int number);
  void count_tag_lookups(const TagLookups& added, const TagLookups& subtracted) {
    auto& tag_lookups = variants_.counters().tag_lookups;
    for (std::size_t level = 0; level < tag_lookups.size(); ++level)
      tag_lookups[level] += added[level] - subtracted[level];
  }

  // ---- hits and misses in one cache
  NEARFIELD_ALWAYS_INLINE void record_hit(CacheNode& node, const CacheArray::Way& way, Address address) {
    ++counts_of(node).hits;
    node.array.touch(way);
    if (node.array.state(way, address) & (injected | prefetched)) [[unlikely]]
      node.array.drop_state(way, address, injected | prefetched);
  }
  void record_miss(CacheNode& node, Address address) {
    ++counts_of(node).misses;
    if (tracks_displaced_lines_ && was_displaced_by_injection(node, address)) [[unlikely]]
      defer({DeferredUpdate::Kind::miss, variants_.current_run().leader(), granule_of(address), &node});
  }

  // Returns whether injected lines have displaced any line from any cache.
  bool tracks_displaced_lines() const { return tracks_displaced_lines_; }
  // Returns whether an injected line has displaced this line from this cache, under any variant.
  bool was_displaced_by_injection(const CacheNode& node, Address address) const {
    return node.displaced_lines.variants_of(granule_number(address)) != 0;
  }

  // ---- fills
  // Fills a line that the cache does not hold. The cache must not be exclusive. `sharer`: the sharer bit of the next
  // inner cache, or 0.
  NEARFIELD_ALWAYS_INLINE void put(CacheNode& node, const CacheArray::SetAndTag& where, Address address,
                                   std::uint8_t state, unsigned sharer);
  // Fills a line that may already be present. If `state` has the flag `injected`, a device injects the line into one of
  // the first `way_limit` ways (0: any way).
  void insert(CacheNode& node, Address address, std::uint8_t state) {
    insert(node, node.array.locate(address), address, state, 0);
  }
  void insert(CacheNode& node, const CacheArray::SetAndTag& where, Address address, std::uint8_t state, int way_limit);

  // ---- evictions and removals (evictions.hpp)
  NEARFIELD_ALWAYS_INLINE void evict(CacheNode& node, Address address, std::uint8_t state);
  // Evicts all sub-blocks of a line to memory at once. Only for a last-level cache that is not inclusive.
  NEARFIELD_ALWAYS_INLINE void evict_to_memory(CacheNode& node, const CacheArray::Way& way);
  // Removes a line that the inclusive cache `node` evicts from all caches inside `node`. Returns whether one of these
  // copies was modified.
  bool back_invalidate(CacheNode& node, const CacheArray::Way& way, Address address);
  // Removes a granule from all caches. Increments `counter` (nullptr: none) of the level of each removed copy;
  // write_backs for modified copies only. Returns whether a copy was modified.
  bool invalidate_all_copies(Address granule, Count LevelCounts::* counter);
  void flush(Address address);       // removes the granule, and writes it to memory if it is modified
  void invalidate(Address address);  // removes the granule, and counts nothing
  void invalidate_all();
  // Returns whether all replacement state is in the sets, so that copy_variant() can copy the state of one variant.
  bool keeps_state_in_sets() const;
  // Copies the state that another CacheTree of the same machine has under one variant. This tree must be empty and
  // simulate a single variant.
  void copy_variant(const CacheTree& other, int variant);
  // Calls `function` with the cache, the way and the address of each cached line or sub-block of the granule.
  template <class Function>
  void for_each_copy(Address granule, Function&& function) {
    for_each_copy_inside(memory_point_, granule, function);
  }
  // Must be called before a line is filled into this cache.
  void mark_used(CacheNode& node) {
    if (!node.is_used) [[unlikely]]
      mark_first_use(node);
  }

  CopyState cached_copy_state(int variant, int core, int level, Address address) const;

  // ---- counters
  LevelCounts& counts_of(const CacheNode& node) {
    return variants_.counters().levels[static_cast<std::size_t>(node.level)];
  }
  void write_to_memory() {
    ++dram_counts().writes;
    ++num_writes_;
  }
  void write_to_memory(Count stores) {
    dram_counts().writes += stores;
    num_writes_ += static_cast<unsigned>(stores);
  }
  // Returns how many granules were written to DRAM since the last call.
  unsigned take_write_count() { return std::exchange(num_writes_, 0U); }
  void count_transfers(Count lines) { variants_.counters().transfers += lines; }
  DramCounts& dram_counts() { return variants_.counters().dram; }
  Counts counts(int variant) const;  // without TLBs and page faults
  void reset_counts() { variants_.reset_counts(); }

 private:
  // An update that is deferred until the group of variants that performed the action is known.
  struct DeferredUpdate {
    enum class Kind { miss, displaced, removed } kind;
    int leader;
    Address granule;
    CacheNode* node = nullptr;
    CoherencePoint* point = nullptr;
    int number = 0;
  };
  void defer(const DeferredUpdate& update);
  void apply_deferred_updates(const Variants::GroupLeaders& leaders);
  void build_tree(const Machine& machine, bool ways_matter);
  void recount_tag_lookups();
  void mark_first_use(CacheNode& node);
  void add_lines(CoherencePoint& point, int number, const CacheNode& node);
  void copy_directory(CoherencePoint& point, const CoherencePoint& other);
  template <class Function>
  void for_each_copy_inside(const CoherencePoint& point, Address granule, Function&& function);
  NEARFIELD_ALWAYS_INLINE void insert_into_victim_cache(CacheNode& node, Address address, std::uint8_t state);
  NEARFIELD_ALWAYS_INLINE void evict_for_fill(CacheNode& node, const CacheArray::Way& way, bool is_injection);
  void evict_from_victim_cache(CacheNode& node, const CacheArray::Way& way);
  bool remove_from_all_inner(CacheNode& node, Address address);
  bool remove_in_subtree(CacheNode& node, Address address, std::uint64_t bytes);
  bool remove_line(CacheNode& node, Address address);

  Variants variants_;
  int num_levels_ = 0;
  std::uint64_t granule_bytes_ = 0;
  int granule_shift_ = 0;
  std::uint64_t l1_line_bytes_ = 0;
  std::vector<std::unique_ptr<CacheNode>> cache_nodes_;
  std::vector<Caches> caches_by_core_;
  std::array<std::size_t, max_cache_levels> num_used_caches_{};
  CoherencePoint memory_point_;
  unsigned num_writes_ = 0;
  std::vector<DeferredUpdate> deferred_updates_;
  bool tracks_displaced_lines_ = false;  // an injection has evicted a line
};

template <class Function>
void CacheTree::for_each_sharer(const CoherencePoint& point, Address granule, Function&& function) {
  if (point.directory) {
    point.directory->for_each(granule_number(granule),
                              [&](int number) { function(*point.caches[static_cast<std::size_t>(number)]); });
  } else {
    for (auto* cache : point.caches)
      if (!point.has_directory || cache == point.only_user) function(*cache);
  }
}

template <class Function>
void CacheTree::for_each_copy_inside(const CoherencePoint& point, Address granule, Function&& function) {
  for_each_sharer(point, granule, [&](CacheNode& node) {
    bool may_be_inside = !node.is_inclusive_filter;
    for (auto at = granule; node.is_used && at < granule + granule_bytes_; at += node.array.sub_block_bytes())
      if (const auto way = node.array.lookup(at)) {
        may_be_inside = true;
        function(node, way, at);
      }
    if (may_be_inside) for_each_copy_inside(node.inner, granule, function);
  });
}

}  // namespace nearfield::sim
