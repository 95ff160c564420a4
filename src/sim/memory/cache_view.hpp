// A view of one cache for the fast path (fast_path.hpp). Only for caches whose sets have one way group each and a
// recency order that needs no virtual call. The view accesses only the sets that all variants share.
#pragma once

#include <bit>

#include "sim/memory/variants.hpp"

namespace nearfield::sim {

// Tree pseudo-LRU (replacements/tree_plru.cpp): for each way, the bits of the tree nodes on the path to the way, and
// those of them that an access to the way sets; it clears the others. Bit n belongs to node n.
struct PlruTree {
  std::uint16_t path_bits[ways_per_group]{}, set_bits[ways_per_group]{};
  constexpr explicit PlruTree(int ways) {
    for (int way = 0; way < ways; ++way)
      for (int node = 1, half = ways / 2; half > 0; half /= 2) {
        const bool is_right = (way & half) != 0;
        path_bits[way] = static_cast<std::uint16_t>(path_bits[way] | 1U << node);
        if (!is_right) set_bits[way] = static_cast<std::uint16_t>(set_bits[way] | 1U << node);
        node = 2 * node + is_right;
      }
  }
};
inline constexpr PlruTree plru_trees[]{PlruTree(1), PlruTree(2), PlruTree(4), PlruTree(8), PlruTree(16)};

// The recency order of the ways of a set of one way group: lru or tree-plru.
struct RecencyOrder {
  NEARFIELD_ALWAYS_INLINE void touch(WayGroup& set, unsigned way) const {
    if (!plru) [[likely]]
      return promote_to_mru(set, way);
    auto bits = tree_bits(set);
    bits = static_cast<std::uint16_t>((bits & ~plru->path_bits[way]) | plru->set_bits[way]);
    std::memcpy(set.age, &bits, sizeof bits);
  }
  // Returns the way to fill next. If the way holds a line, the caller must evict the line first.
  NEARFIELD_ALWAYS_INLINE unsigned way_to_fill(WayGroup& set) const {
    if (!plru) [[likely]] {
      const auto oldest = lru_way(set, ways);
      if (oldest == 0) [[unlikely]] {  // the set has never been used
        std::memcpy(set.age, initial_ages, sizeof set.age);
        return 0;
      }
      return static_cast<unsigned>(std::countr_zero(oldest));
    }
    if (const auto empty = ways_with_tag(set, no_tag) & ((1U << ways) - 1))
      return static_cast<unsigned>(std::countr_zero(empty));
    const unsigned bits = tree_bits(set);
    unsigned node = 1;
    while (node < static_cast<unsigned>(ways)) node = 2 * node + (bits >> node & 1);
    return node - static_cast<unsigned>(ways);
  }
  // Empties a way. With lru, that way is the next one to fill.
  NEARFIELD_ALWAYS_INLINE void remove(WayGroup& set, unsigned way) const {
    set.tag[way] = no_tag;
    if (!plru) demote_to_lru(set, way, ways);
  }

  const PlruTree* plru = nullptr;  // nullptr: the order is lru
  int ways = 0;
  std::uint8_t initial_ages[ways_per_group]{};  // the initial ages of a set

 private:
  static std::uint16_t tree_bits(const WayGroup& set) {
    std::uint16_t bits;
    std::memcpy(&bits, set.age, sizeof bits);
    return bits;
  }
};

// The sets of one cache, how to find a line in them, and their recency order.
struct CacheView : RecencyOrder {
  // The set of an address, the number of the set, and the tag of the address's line in it, counted from 1.
  struct Location {
    WayGroup* set;
    std::uint32_t tag, number;
  };

  NEARFIELD_ALWAYS_INLINE Location locate(Address address) const {
    const auto line = static_cast<std::uint32_t>(address >> line_shift);
    const auto above = static_cast<std::uint32_t>(static_cast<unsigned __int128>(reciprocal) * line >> 64);
    const auto number = line - above * sets;
    return {way_groups + number, above + 1, number};
  }
  // Returns whether the set is the same in all variants. Only if several variants are simulated.
  NEARFIELD_ALWAYS_INLINE bool is_common_set(const Location& location) const { return owners[location.number] == 0; }
  // Returns the way that holds the line, as a bit mask; 0 if no way does.
  NEARFIELD_ALWAYS_INLINE std::uint32_t find(const Location& location) const {
    return is_narrow ? narrow_ways_with_tag(*location.set, location.tag) : ways_with_tag(*location.set, location.tag);
  }
  NEARFIELD_ALWAYS_INLINE Address address_of(const Location& location, unsigned way) const {
    return (static_cast<Address>(location.set->tag[way] - 1) * sets + location.number) << line_shift;
  }
  // Fills a line into a way. The caller sets the line's sharers.
  NEARFIELD_ALWAYS_INLINE void fill(const Location& location, unsigned way, std::uint8_t state) const {
    location.set->tag[way] = location.tag;
    if (location.set->flags[way] != state) location.set->flags[way] = state;
    touch(*location.set, way);
  }
  unsigned sub_block_bit(Address address) const { return 1U << (address >> sub_block_shift & (sub_blocks - 1)); }

  WayGroup* way_groups = nullptr;
  std::uint64_t reciprocal = 0;
  // Per set: the variants that have a clone of the set; nullptr for a single variant.
  const Variants::Mask* owners = nullptr;
  std::uint32_t sets = 0;
  std::uint8_t line_shift = 0, sub_block_shift = 0, sub_blocks = 1;
  bool is_narrow = false;
};

}  // namespace nearfield::sim
