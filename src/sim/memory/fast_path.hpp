// The fast path of a core's access: a short implementation for L1 and L2 caches of the most common kinds and an
// optional victim cache as L3, and for lines that no other core holds. It changes states and counters exactly as
// Hierarchy::load() and store() do, in the same order, but without snooping. All preconditions are checked before the
// first change. If one fails, or a set differs between variants, functions return `needs_slow_path` without side
// effects, and the caller takes the slow path. Development builds also simulate every access on the slow path and
// compare the results (memory.cpp).
#pragma once

#include "sim/memory/evictions.hpp"
#include "sim/memory/hierarchy.hpp"

namespace nearfield::sim {

template <class Config>
class FastPath {
 public:
  using AccessType = Hierarchy::AccessType;
  using Location = CacheView::Location;
  static constexpr int needs_slow_path = -1;

  NEARFIELD_ALWAYS_INLINE FastPath(Hierarchy& hierarchy, const Hierarchy::Path& path)
      : contents_(hierarchy.contents_), path_(path), counters_(contents_.counters.common()) {}

  // Makes one access within one L1 line. Returns the level that supplied the line, or `needs_slow_path`.
  NEARFIELD_ALWAYS_INLINE int access(bool is_store, Address address) {
    if constexpr (!Config::is_fast) return needs_slow_path;
    const auto in_l1 = path_.l1.locate(address);
    if (Config::has_variants && !path_.l1.is_common_set(in_l1)) return needs_slow_path;
    auto& set = *in_l1.set;
    const auto hit_mask = path_.l1.find(in_l1);
    const auto way = static_cast<unsigned>(std::countr_zero(hit_mask));
    if (!is_store) {
      if (!hit_mask) return access_beyond_l1<AccessType::load>(address, in_l1);
      record_l1_hit(set, way);
      if (set.flags[way] & (injected | prefetched)) [[unlikely]] {
        is_first_use_of_prefetch_ = set.flags[way] & prefetched;
        set.flags[way] &= static_cast<std::uint8_t>(~(injected | prefetched));
      }
      return 0;
    }
    if (path_.l1_writes_through) return store_through(address, in_l1, hit_mask);
    if (!hit_mask) return access_beyond_l1<AccessType::store>(address, in_l1);
    if (set.flags[way] & shared) return needs_slow_path;
    record_l1_hit(set, way);
    if (set.flags[way] != modified) {
      is_first_use_of_prefetch_ = set.flags[way] & prefetched;
      set.flags[way] = modified;
    }
    return 0;
  }
  // Returns whether the last access was the first use of a line that was prefetched into L1.
  bool is_first_use_of_prefetch() const { return is_first_use_of_prefetch_; }
  // Counts `count` further accesses to the line of the last access, which the fast path must have handled. The accesses
  // are L1 hits, or stores that L1 writes through.
  NEARFIELD_ALWAYS_INLINE void count_repeats(bool is_store, Count count) {
    if (!is_store || !path_.l1_writes_through) {
      counters_.levels[0].hits += count;
      return;
    }
    (is_stored_in_l1_ ? counters_.levels[0].hits : counters_.levels[0].misses) += count;
    counters_.levels[1].hits += count;
  }
  // Prefetches a line into L2. Returns the level that supplied the line, 0 if L2 already holds it, or
  // `needs_slow_path`.
  int prefetch(Address address) {
    if constexpr (!Config::has_victim_cache) return needs_slow_path;
    const auto in_l2 = path_.l2.locate(address);
    if (Config::has_variants && !path_.l2.is_common_set(in_l2)) return needs_slow_path;
    if (path_.l2.find(in_l2)) return 0;
    return fetch_into_l2<AccessType::prefetch>(address, {}, in_l2);
  }

 private:
  NEARFIELD_ALWAYS_INLINE void record_l1_hit(WayGroup& set, unsigned way) {
    ++counters_.levels[0].hits;
    path_.l1.touch(set, way);
  }

  NEARFIELD_ALWAYS_INLINE int store_through(Address address, const Location& in_l1, std::uint32_t hit_mask) {
    if (!hit_mask && was_displaced_by_injection(0, address)) return needs_slow_path;
    const int level = access_beyond_l1<AccessType::store_through>(address, in_l1);
    if (level == needs_slow_path) return needs_slow_path;
    is_stored_in_l1_ = hit_mask != 0;
    if (!hit_mask) {
      ++counters_.levels[0].misses;
      return level;
    }
    const auto way = static_cast<unsigned>(std::countr_zero(hit_mask));
    record_l1_hit(*in_l1.set, way);
    if (in_l1.set->flags[way] != 0) in_l1.set->flags[way] = 0;
    return level;
  }

  // Makes an access that missed L1, or a store that L1 writes through. Returns the level that supplied the line, or
  // `needs_slow_path`.
  template <AccessType access_type>
  NEARFIELD_ALWAYS_INLINE int access_beyond_l1(Address address, const Location& in_l1) {
    const auto in_l2 = path_.l2.locate(address);
    if (Config::has_variants && !path_.l2.is_common_set(in_l2)) return needs_slow_path;
    const auto hit_mask = path_.l2.find(in_l2);
    if (!hit_mask) return fetch_into_l2<access_type>(address, in_l1, in_l2);
    const auto way = static_cast<unsigned>(std::countr_zero(hit_mask));
    auto& set = *in_l2.set;
    if ((set.flags[way] & shared) | (set.sharers[way] & ~path_.own_bit)) [[unlikely]]
      return needs_slow_path;
    if (access_type != AccessType::store_through &&
        !(can_fill_l1(in_l1, in_l2, ways_per_group) && !was_displaced_by_injection(0, address)))
      return needs_slow_path;
    ++counters_.levels[1].hits;
    path_.l2.touch(set, way);
    if (access_type == AccessType::store_through) {
      if (set.flags[way] != modified) set.flags[way] = modified;
      return 1;
    }
    if (set.flags[way] & ~modified) set.flags[way] &= modified;
    if (set.sharers[way] != path_.own_bit) set.sharers[way] = path_.own_bit;
    fill_l1(in_l1, access_type == AccessType::store ? modified : 0);
    return 1;
  }

  // Fetches a line that missed L2 from the victim cache or from memory. Returns the level that supplied the line (3:
  // memory), or `needs_slow_path`.
  template <AccessType access_type>
  NEARFIELD_ALWAYS_INLINE int fetch_into_l2(Address address, const Location& in_l1, const Location& in_l2) {
    if constexpr (!Config::has_victim_cache) return needs_slow_path;
    constexpr bool is_counted = access_type != AccessType::prefetch;  // whether hits and misses are counted
    constexpr bool fills_l1 = access_type == AccessType::load || access_type == AccessType::store;
    const auto &l2 = path_.l2, &l3 = path_.l3;
    // ---- preconditions
    const auto in_l3 = l3.locate(address);
    if (Config::has_variants && !l3.is_common_set(in_l3)) return needs_slow_path;
    const auto hit_mask = l3.find(in_l3);
    const auto way = static_cast<unsigned>(std::countr_zero(hit_mask));
    const bool is_l3_hit = hit_mask && has_sub_block(in_l3, way, address);
    const unsigned state = is_l3_hit ? victim_cache_state(in_l3, way, address) : 0;
    auto& set = *in_l2.set;
    const auto fill_way = l2.way_to_fill(set);
    const bool is_full = set.tag[fill_way] != no_tag;
    if ((state & shared) || (is_full && (set.flags[fill_way] & (shared | injected)))) return needs_slow_path;
    const Address victim = l2.address_of(in_l2, fill_way);
    Location victim_in_l3;
    if (is_full) {
      victim_in_l3 = l3.locate(victim);
      if (Config::has_variants && !eviction_is_common(in_l2, fill_way, victim, victim_in_l3)) return needs_slow_path;
    }
    if (fills_l1 && !(can_fill_l1(in_l1, in_l2, fill_way) && !was_displaced_by_injection(0, address)))
      return needs_slow_path;
    if (is_counted &&
        (was_displaced_by_injection(1, address) || (!is_l3_hit && was_displaced_by_injection(2, address))))
      return needs_slow_path;
    if (path_.has_coherence_point && !add_to_directories(address, is_l3_hit)) return needs_slow_path;

    // ---- changes
    if (is_counted) ++counters_.levels[1].misses;
    if (is_l3_hit) {
      counters_.levels[2].hits += is_counted;
      remove_from_victim_cache(in_l3, way, address, is_counted);
    } else {
      counters_.levels[2].misses += is_counted;
      ++(is_counted ? counters_.dram.reads : counters_.dram.prefetches);
    }
    contents_.tree.mark_used(*path_.l2_node);
    if (is_full) insert_into_victim_cache(in_l2, fill_way, victim, victim_in_l3);
    const bool is_modified = access_type == AccessType::store_through || (state & modified);
    const unsigned marks =
        is_modified * unsigned{modified} + (access_type == AccessType::prefetch) * unsigned{prefetched};
    l2.fill(in_l2, fill_way, static_cast<std::uint8_t>(marks));
    set.sharers[fill_way] = path_.l2_node->tracks_sharers ? path_.own_bit : 0;
    counters_.levels[1].prefetches += access_type == AccessType::prefetch;
    if (fills_l1) fill_l1(in_l1, access_type == AccessType::store ? modified : 0);
    return is_l3_hit ? 2 : 3;
  }

  // ---- preconditions

  // Returns whether L1 can be filled without snooping: the line that L1 evicts is clean, or L2 holds that line in a way
  // other than `l2_fill_way`, which L2 is about to evict.
  NEARFIELD_ALWAYS_INLINE bool can_fill_l1(const Location& in_l1, const Location& in_l2, unsigned l2_fill_way) const {
    const auto& l1 = path_.l1;
    const auto fill_way = l1.way_to_fill(*in_l1.set);
    const unsigned flags = in_l1.set->flags[fill_way];
    if (!(flags & (modified | injected)) || in_l1.set->tag[fill_way] == no_tag) [[likely]]
      return path_.l1_node->is_used;
    if (flags & injected) return false;
    const auto l1_victim_in_l2 = path_.l2.locate(l1.address_of(in_l1, fill_way));
    if (Config::has_variants && !path_.l2.is_common_set(l1_victim_in_l2)) return false;
    const auto hit_mask = path_.l2.find(l1_victim_in_l2);
    return hit_mask && (l1_victim_in_l2.set != in_l2.set || path_.l2_includes_l1 || !(hit_mask >> l2_fill_way & 1));
  }
  // Returns whether an injected line has displaced this line from the core's cache of this level, so that a miss of the
  // line must be counted.
  NEARFIELD_ALWAYS_INLINE bool was_displaced_by_injection(std::size_t level, Address address) const {
    return contents_.tree.was_displaced_by_injection(path_.cache_at(level), address);
  }
  // Returns whether evicting this line from L2 touches only sets that are the same in all variants.
  bool eviction_is_common(const Location& in_l2, unsigned fill_way, Address victim,
                          const Location& victim_in_l3) const {
    if (!path_.l3.is_common_set(victim_in_l3)) return false;
    if (!path_.l2_includes_l1) return true;
    return !(in_l2.set->sharers[fill_way] & ~path_.own_bit) && path_.l1.is_common_set(path_.l1.locate(victim));
  }
  // Adds the line to the directories of the coherence points between L2 and the victim cache or, if the victim cache
  // does not hold the line, between L2 and memory. Returns whether no other cache can hold the line.
  bool add_to_directories(Address address, bool is_in_victim_cache) {
    auto &l3_point = path_.l3_node->inner, &memory_point = contents_.tree.memory_point();
    if (!l3_point.add_exclusive_sharer(*path_.l2_node, address)) return false;
    if (!is_in_victim_cache && !memory_point.add_exclusive_sharer(*path_.l3_node, address)) return false;
    if (l3_point.has_directory) contents_.counters.count_tag_lookups(l3_point.tag_lookups, path_.l2_node->tag_lookups);
    if (!is_in_victim_cache && memory_point.has_directory)
      contents_.counters.count_tag_lookups(memory_point.tag_lookups, path_.l3_node->tag_lookups);
    return true;
  }

  // ---- the victim cache, whose lines may have sub-blocks

  NEARFIELD_ALWAYS_INLINE bool has_sub_block(const Location& in_l3, unsigned way, Address address) const {
    return !Config::has_sub_blocks || (in_l3.set->sub_blocks[way][0] & path_.l3.sub_block_bit(address));
  }
  NEARFIELD_ALWAYS_INLINE unsigned victim_cache_state(const Location& in_l3, unsigned way, Address address) const {
    if (!Config::has_sub_blocks) return in_l3.set->flags[way];
    const unsigned bit = path_.l3.sub_block_bit(address), high = bit << 4;
    const unsigned valid_bits = in_l3.set->sub_blocks[way][0], modified_bits = in_l3.set->sub_blocks[way][1];
    return (modified_bits & bit ? unsigned{modified} : 0U) | (valid_bits & high ? unsigned{shared} : 0U) |
           (modified_bits & high ? unsigned{injected} : 0U);
  }
  NEARFIELD_ALWAYS_INLINE void remove_from_victim_cache(const Location& in_l3, unsigned way, Address address,
                                                        bool is_use) const {
    if (Config::has_sub_blocks) {
      auto& valid_bits = in_l3.set->sub_blocks[way][0];
      valid_bits = static_cast<std::uint8_t>(valid_bits & ~path_.l3.sub_block_bit(address));
      if (valid_bits & 0x0F) {
        if (is_use) path_.l3.touch(*in_l3.set, way);
        return;
      }
    }
    if (path_.l3.plru && is_use) path_.l3.touch(*in_l3.set, way);
    path_.l3.remove(*in_l3.set, way);
  }
  // Moves a line that L2 evicts into the victim cache.
  NEARFIELD_ALWAYS_INLINE void insert_into_victim_cache(const Location& in_l2, unsigned fill_way, Address victim,
                                                        const Location& victim_in_l3) {
    bool is_modified = (in_l2.set->flags[fill_way] & modified) != 0;
    if (path_.l2_includes_l1) is_modified |= back_invalidate(in_l2, fill_way, victim);
    ++counters_.levels[1].evictions;
    counters_.levels[1].write_backs += is_modified;
    contents_.tree.mark_used(*path_.l3_node);
    const auto hit_mask = path_.l3.find(victim_in_l3);
    auto way = static_cast<unsigned>(std::countr_zero(hit_mask));
    if (!hit_mask) {
      way = path_.l3.way_to_fill(*victim_in_l3.set);
      if (victim_in_l3.set->tag[way] != no_tag) evict_to_memory(victim_in_l3, way);
    }
    add_to_victim_cache(victim_in_l3, way, victim, is_modified);
  }
  // Removes a line that L2 evicts from the L1 caches. Returns whether one of these copies was modified.
  NEARFIELD_ALWAYS_INLINE bool back_invalidate(const Location& in_l2, unsigned fill_way, Address victim) {
    const unsigned sharers = in_l2.set->sharers[fill_way];
    if (sharers & ~path_.own_bit) return back_invalidate_line(contents_, *path_.l2_node, {in_l2.set, fill_way}, victim);
    if (sharers == 0) return false;
    const auto in_l1 = path_.l1.locate(victim);
    const auto hit_mask = path_.l1.find(in_l1);
    if (!hit_mask) [[likely]]
      return false;
    const auto way = static_cast<unsigned>(std::countr_zero(hit_mask));
    const unsigned state = in_l1.set->flags[way];
    path_.l1.remove(*in_l1.set, way);
    ++counters_.levels[0].back_invalidations;
    counters_.levels[0].injected_unused += (state & injected) != 0;
    return (state & modified) != 0;
  }
  // Evicts the line in this way of the victim cache to memory.
  NEARFIELD_ALWAYS_INLINE void evict_to_memory(const Location& location, unsigned way) {
    unsigned sub_blocks = 1, modified_bits = location.set->flags[way] & modified,
             injected_bits = location.set->flags[way] & injected;
    if (Config::has_sub_blocks) {
      const unsigned valid_bits = location.set->sub_blocks[way][0] & 0x0FU, both = location.set->sub_blocks[way][1];
      sub_blocks = count_ones(valid_bits);
      modified_bits = count_ones(both & valid_bits);
      injected_bits = count_ones(both >> 4 & valid_bits);
    } else {
      injected_bits = injected_bits != 0;
    }
    counters_.levels[2].evictions += sub_blocks;
    counters_.levels[2].injected_unused += injected_bits;
    counters_.levels[2].write_backs += modified_bits;
    if (modified_bits) contents_.counters.count_memory_writes(modified_bits);
  }
  static unsigned count_ones(unsigned four_bits) { return 0x4332322132212110ULL >> 4 * four_bits & 7; }
  // Adds a line to the victim cache, as modified or exclusive. If the victim cache already has a modified copy, the
  // line stays modified.
  NEARFIELD_ALWAYS_INLINE void add_to_victim_cache(const Location& location, unsigned way, Address address,
                                                   bool is_modified) const {
    auto& set = *location.set;
    const bool is_new = set.tag[way] != location.tag;
    set.tag[way] = location.tag;
    if (!Config::has_sub_blocks) {
      const unsigned before = is_new ? 0U : set.flags[way] & modified;
      set.flags[way] = static_cast<std::uint8_t>(before | is_modified);
    } else {
      const unsigned bit = path_.l3.sub_block_bit(address), both = bit * 0x11U, high = bit * 0x10U;
      auto &valid_bits = set.sub_blocks[way][0], &modified_bits = set.sub_blocks[way][1];
      const unsigned valid_before = is_new ? 0U : valid_bits, modified_before = is_new ? 0U : modified_bits;
      const unsigned before = valid_before & bit ? modified_before & bit : 0U;
      valid_bits = static_cast<std::uint8_t>((valid_before & ~high) | bit);
      modified_bits = static_cast<std::uint8_t>((modified_before & ~both) | before | (is_modified ? bit : 0U));
    }
    path_.l3.touch(set, way);
  }

  // Fills the line into L1. Requires can_fill_l1().
  NEARFIELD_ALWAYS_INLINE void fill_l1(const Location& in_l1, std::uint8_t state) {
    const auto& l1 = path_.l1;
    ++counters_.levels[0].misses;
    const auto fill_way = l1.way_to_fill(*in_l1.set);
    if (in_l1.set->tag[fill_way] != no_tag) {
      ++counters_.levels[0].evictions;
      if (in_l1.set->flags[fill_way] & modified) [[unlikely]]
        write_back_to_l2(l1.address_of(in_l1, fill_way));
    }
    l1.fill(in_l1, fill_way, state);
  }
  void write_back_to_l2(Address address) {
    ++counters_.levels[0].write_backs;
    const auto in_l2 = path_.l2.locate(address);
    in_l2.set->flags[std::countr_zero(path_.l2.find(in_l2))] |= modified;
  }

  CacheContents& contents_;
  const Hierarchy::Path& path_;
  CounterBlock& counters_;
  bool is_stored_in_l1_ = false, is_first_use_of_prefetch_ = false;
};

}  // namespace nearfield::sim
