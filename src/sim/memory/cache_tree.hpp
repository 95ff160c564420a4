// All caches of a node, as a tree whose root is the memory: which cache is where, which caches are in use, and where a
// line may be. cache_contents.hpp says what else belongs to the contents of caches.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "sim/memory/cache_node.hpp"

namespace nearfield::sim {

class CacheTree {
 public:
  // Throws std::invalid_argument, which names the cache, for an impossible geometry. `variants` must outlive this
  // object. `ways_matter`: a device may be restricted to some ways of a set.
  CacheTree(const Machine& machine, Variants& variants, bool ways_matter);

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

  // Must be called before a line is filled into this cache.
  void mark_used(CacheNode& node) {
    if (!node.is_used) [[unlikely]]
      mark_first_use(node);
  }
  // Calls `function` with the cache, the way and the address of each cached line or sub-block of the granule.
  template <class Function>
  void for_each_copy(Address granule, Function&& function) {
    for_each_copy_inside(memory_point_, granule, function);
  }
  CopyState cached_copy_state(int variant, int core, int level, Address address) const;

  // Must be called before a line that an injected line has displaced is recorded in its cache.
  void enable_displacement_checks() { has_displaced_lines_ = true; }
  // Returns whether an injected line has displaced this line from this cache, under any variant.
  NEARFIELD_ALWAYS_INLINE bool was_displaced_by_injection(const CacheNode& node, Address address) const {
    return has_displaced_lines_ && node.displaced_lines.variants_of(granule_number(address)) != 0;
  }

  void invalidate_all();
  // Returns whether all replacement state is in the sets, so that copy_variant_from() can copy the state of one
  // variant.
  bool keeps_state_in_sets() const;
  // Copies the state that another CacheTree of the same machine has under one variant. This tree must be empty and
  // simulate a single variant.
  void copy_variant_from(const CacheTree& other, int variant);

 private:
  using Caches = std::array<CacheNode*, max_cache_levels>;  // the caches of one core, innermost first
  void build_tree(const Machine& machine, Variants* variants, bool ways_matter);
  void choose_directories();
  void recount_tag_lookups();
  void mark_first_use(CacheNode& node);
  template <class Function>
  void for_each_copy_inside(const CoherencePoint& point, Address granule, Function&& function);

  int num_levels_;
  std::uint64_t granule_bytes_ = 0;
  int granule_shift_ = 0;
  std::uint64_t l1_line_bytes_ = 0;
  std::vector<std::unique_ptr<CacheNode>> cache_nodes_;
  std::vector<Caches> caches_by_core_;
  std::array<std::size_t, max_cache_levels> num_used_caches_{};
  CoherencePoint memory_point_;
  bool has_displaced_lines_ = false;  // an injection has evicted a line
};

template <class Function>
void CacheTree::for_each_copy_inside(const CoherencePoint& point, Address granule, Function&& function) {
  point.for_each_sharer(granule, [&](CacheNode& node) {
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
