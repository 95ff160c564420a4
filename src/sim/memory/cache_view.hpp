// The sets of one cache as the fast path (fast_path.hpp) needs them: several sets of one block each, in an order of use
// that needs no call, under all variants alike.
#pragma once

#include <bit>

#include "sim/memory/memory.hpp"
#include "sim/memory/variants.hpp"

namespace nearfield::sim {

// The order of use of tree-plru: which bits of the tree a use of a way sets and clears (replacements/tree_plru.cpp). Bit
// n is node n.
struct TreeOfWays {
  std::uint16_t path[lanes_per_block]{}, away[lanes_per_block]{};
  constexpr explicit TreeOfWays(int ways) {
    for (int way = 0; way < ways; ++way)
      for (int node = 1, half = ways / 2; half > 0; half /= 2) {
        const bool right = (way & half) != 0;
        path[way] = static_cast<std::uint16_t>(path[way] | 1U << node);
        if (!right) away[way] = static_cast<std::uint16_t>(away[way] | 1U << node);
        node = 2 * node + right;
      }
  }
};
inline constexpr TreeOfWays trees[]{TreeOfWays(1), TreeOfWays(2), TreeOfWays(4), TreeOfWays(8), TreeOfWays(16)};

// The order in which the ways of a set of one block were used: lru, or tree-plru.
struct OrderOfUse {
  NEARFIELD_INNERMOST void touch(Block& set, unsigned lane) const {
    if (!tree) [[likely]]
      return make_youngest(set, lane);
    auto bits = tree_of(set);
    bits = static_cast<std::uint16_t>((bits & ~tree->path[lane]) | tree->away[lane]);
    std::memcpy(set.age, &bits, sizeof bits);
  }
  // Returns the lane to fill next. It may hold a line, which must be taken out first.
  NEARFIELD_INNERMOST unsigned room(Block& set) const {
    if (!tree) [[likely]] {
      const auto oldest = oldest_lane(set, ways);
      if (oldest == 0) [[unlikely]] {  // the set was never used
        std::memcpy(set.age, first_ages, sizeof set.age);
        return 0;
      }
      return static_cast<unsigned>(std::countr_zero(oldest));
    }
    if (const auto empty = lanes_with(set, no_tag) & ((1U << ways) - 1))
      return static_cast<unsigned>(std::countr_zero(empty));
    const unsigned bits = tree_of(set);
    unsigned node = 1;
    while (node < static_cast<unsigned>(ways)) node = 2 * node + (bits >> node & 1);
    return node - static_cast<unsigned>(ways);
  }
  // Takes the line out.
  NEARFIELD_INNERMOST void empty(Block& set, unsigned lane) const {
    set.tag[lane] = no_tag;
    if (!tree) make_oldest(set, lane, ways);
  }

  const TreeOfWays* tree = nullptr;  // else the order is lru
  int ways = 0;
  std::uint8_t first_ages[lanes_per_block]{};  // of a set that was never used

 private:
  static std::uint16_t tree_of(const Block& set) {
    std::uint16_t bits;
    std::memcpy(&bits, set.age, sizeof bits);
    return bits;
  }
};

// Where the sets of one cache are, how lines are found in them, and in which order they were used.
struct CacheView : OrderOfUse {
  // The set of an address, its number, and the tag of its line there, from 1.
  struct Place {
    Block* set;
    std::uint32_t tag, number;
  };

  NEARFIELD_INNERMOST Place locate(Address address) const {
    const auto line = static_cast<std::uint32_t>(address >> line_shift);
    const auto above = static_cast<std::uint32_t>(static_cast<unsigned __int128>(reciprocal) * line >> 64);
    const auto number = line - above * sets;
    return {blocks + number, above + 1, number};
  }
  // Returns whether the set is the same under all variants, if there are several.
  NEARFIELD_INNERMOST bool is_common(const Place& place) const { return owners[place.number] == 0; }
  // Returns the lane that holds the line, as a bit.
  NEARFIELD_INNERMOST std::uint32_t find(const Place& place) const {
    return is_narrow ? first_lanes_with(*place.set, place.tag) : lanes_with(*place.set, place.tag);
  }
  NEARFIELD_INNERMOST Address address_of(const Place& place, unsigned lane) const {
    return (static_cast<Address>(place.set->tag[lane] - 1) * sets + place.number) << line_shift;
  }
  // Puts a line in. The caller sets its sharers.
  NEARFIELD_INNERMOST void fill(const Place& place, unsigned lane, std::uint8_t state) const {
    place.set->tag[lane] = place.tag;
    if (place.set->flags[lane] != state) place.set->flags[lane] = state;
    touch(*place.set, lane);
  }
  unsigned part_of(Address address) const { return 1U << (address >> unit_shift & (sub_blocks - 1)); }

  Block* blocks = nullptr;
  std::uint64_t reciprocal = 0;
  const Variants::Mask* owners = nullptr;  // of each set, if there are several variants
  std::uint32_t sets = 0;
  std::uint8_t line_shift = 0, unit_shift = 0, sub_blocks = 1;
  bool is_narrow = false;
};

}  // namespace nearfield::sim
