// One cache: which lines it holds, in which state, in which order of use. Knows nothing of other caches.
#pragma once

#include <bit>
#include <memory>

#include "machine/machine.hpp"
#include "sim/memory/cache_view.hpp"
#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/memory.hpp"
#include "sim/memory/replacement.hpp"
#include "sim/memory/variants.hpp"

namespace nearfield::sim {

class CacheArray {
 public:
  // std::invalid_argument for a geometry that cannot be. `variants`: those that the cache is for, if they are several;
  // `ways_matter`: more than the order of lines matters, such as the ways that a device may use.
  explicit CacheArray(const Cache& spec, Variants* variants = nullptr, bool ways_matter = false);

  // The set of an address, and the tag of its line there, from 1.
  struct SetAndTag {
    Block* set;
    std::uint32_t tag;
  };
  // A way of a set.
  struct Way {
    Block* block = nullptr;
    unsigned lane = 0;
    explicit operator bool() const { return block != nullptr; }
    bool empty() const { return block->tag[lane] == no_tag; }
    std::uint8_t& flags() const { return block->flags[lane]; }
    std::uint16_t& sharers() const { return block->sharers[lane]; }
  };

  // For whoever acts, and may then change the set.
  NEARFIELD_INNERMOST SetAndTag locate(Address address) const {
    const auto [set, tag] = number_and_tag(address);
    if (own_) [[unlikely]]
      return {own_->of_acting(set), tag};
    return {common(set), tag};
  }
  // Returns the way that holds the line, as find() does, for whoever acts and may then change it.
  NEARFIELD_INNERMOST Way search(Address address) const {
    const auto [set, tag] = number_and_tag(address);
    if (!own_) [[likely]]
      return find({common(set), tag}, address);
    auto* const looked_at = own_->look(set);
    const auto way = find({looked_at, tag}, address);
    return way ? Way{own_->of_acting(set) + (way.block - looked_at), way.lane} : way;
  }
  // Returns whether the line is there, for whoever acts.
  bool has(Address address) const {
    const auto [set, tag] = number_and_tag(address);
    return bool{find({own_ ? own_->look(set) : common(set), tag}, address)};
  }
  // Only to find a line, under one variant.
  SetAndTag locate_for(int variant, Address address) const {
    const auto [set, tag] = number_and_tag(address);
    return {own_ ? own_->of(variant, set) : common(set), tag};
  }
  // Returns no set if it is not the same for all variants.
  NEARFIELD_INNERMOST SetAndTag locate_common(Address address) const {
    const auto [set, tag] = number_and_tag(address);
    return {own_ && !own_->is_common(set) ? nullptr : common(set), tag};
  }

  // Returns the way that holds the line (with sub-blocks: the address's one), or an empty Way.
  NEARFIELD_INNERMOST Way find(const SetAndTag& where, Address address) const {
    const auto way = find_tag(where);
    if (!has_sub_blocks() || !way) [[likely]]
      return way;
    return valid_parts(way) & part_of(address) ? way : Way{};
  }
  NEARFIELD_INNERMOST Way find_tag(const SetAndTag& where) const {
    if (blocks_per_set_ > 1) [[unlikely]]
      return find_in_blocks(where);
    const auto found = lanes_with(*where.set, where.tag);
    return {found ? where.set : nullptr, static_cast<unsigned>(std::countr_zero(found))};
  }

  NEARFIELD_INNERMOST void touch(const Way& way) {
    if (is_quick_) [[likely]]
      order_.touch(*way.block, way.lane);
    else
      replacement_->touch(set_of(way), ways_, number(way));
  }

  // Returns the way to fill next, of the first `limit` ways if that is not 0. It may hold a line, which must be taken
  // out first.
  NEARFIELD_INNERMOST Way room(const SetAndTag& where, int limit = 0) {
    if (is_quick_ && limit == 0) [[likely]]
      return {where.set, order_.room(*where.set)};
    return room_by_replacement(where.set, limit);
  }

  // Puts a line (a sub-block) into a way that room() gave, or that has the line's other sub-blocks.
  NEARFIELD_INNERMOST void fill(const SetAndTag& where, const Way& way, Address address, std::uint8_t state) {
    if (way.block->tag[way.lane] != where.tag) {
      way.block->tag[way.lane] = where.tag;
      way.block->sharers[way.lane] = 0;
    }
    set_state(way, address, state);
    if (has_sub_blocks()) valid_parts(way) |= part_of(address);
    touch(way);
  }

  // Takes the line (the sub-block) out; returns the state that it had.
  NEARFIELD_INNERMOST std::uint8_t remove(const Way& way, Address address) {
    const auto was = state(way, address);
    if (has_sub_blocks()) {
      auto& valid = valid_parts(way);
      valid = static_cast<std::uint8_t>(valid & ~part_of(address));
      if (valid & 0x0F) return was;
    }
    if (is_quick_) [[likely]] {
      order_.empty(*way.block, way.lane);
    } else {
      way.block->tag[way.lane] = no_tag;
      replacement_->emptied(set_of(way), ways_, number(way));
    }
    return was;
  }

  // Returns how the fast path sees the cache; only of one that has_view().
  CacheView view() const;
  bool has_view() const { return is_quick_ && sets_ > 1; }

  // Returns the flags of the line (of the address's sub-block).
  NEARFIELD_INNERMOST std::uint8_t state(const Way& way, Address address) const {
    return has_sub_blocks() ? state_of_part(way, part_of(address)) : way.block->flags[way.lane];
  }
  NEARFIELD_INNERMOST void set_state(const Way& way, Address address, std::uint8_t state) {
    if (has_sub_blocks())
      set_state_of_part(way, part_of(address), state);
    else
      way.block->flags[way.lane] = state;
  }
  void add_state(const Way& way, Address address, std::uint8_t flags) {
    set_state(way, address, static_cast<std::uint8_t>(state(way, address) | flags));
  }
  void drop_state(const Way& way, Address address, std::uint8_t flags) {
    set_state(way, address, static_cast<std::uint8_t>(state(way, address) & ~flags));
  }

  // Calls `function` with the address of each sub-block that a way holds, or with the line's if it has none.
  template <class Function>
  NEARFIELD_INNERMOST void for_each_unit(const Way& way, Function&& function) const {
    for_each_unit_of_line(way, address_of(way), function);
  }

  // Calls `function` with the address of each line that the cache holds, under any variant, or held under one when the
  // action began.
  template <class Function>
  void for_each_line(Function&& function) const {
    const auto for_each_of_set = [&](std::uint32_t set, Block* blocks) {
      for (auto* block = blocks; block < blocks + blocks_per_set_; ++block)
        for (unsigned lane = 0; lane < lanes_per_block; ++lane)
          if (block->tag[lane] != no_tag)
            for_each_unit_of_line({block, lane}, address_in(set, {block, lane}), function);
    };
    const auto sets = sets_ + static_cast<std::uint32_t>(own_ ? own_->sets_behind() : 0);
    for (std::uint32_t set = 0; set < sets; ++set) for_each_of_set(set, common(set));
    if (own_) own_->for_each_saved(for_each_of_set);
  }
  // Returns the address of the line that a way holds.
  Address address_of(const Way& way) const {
    auto set = static_cast<std::uint32_t>(way.block - blocks_);
    if (blocks_per_set_ > 1) [[unlikely]]
      set /= blocks_per_set_;
    return address_in(set, way);
  }
  // The number of units that a way holds, and of those in these states.
  struct Held {
    unsigned units, modified, injected;
  };
  NEARFIELD_INNERMOST Held held(const Way& way) const {
    if (!has_sub_blocks()) {
      const unsigned state = way.block->flags[way.lane];
      return {1, state & sim::modified, (state & sim::injected) != 0};
    }
    const unsigned valid = valid_parts(way) & 0x0FU, its = modified_parts(way);
    return {ones(valid), ones(its & valid), ones(its >> 4 & valid)};
  }

  bool has_part(const Way& way, Address address) const {
    return !has_sub_blocks() || (valid_parts(way) & part_of(address)) != 0;
  }
  std::uint64_t line_bytes() const { return 1ULL << line_shift_; }
  std::uint64_t unit_bytes() const { return 1ULL << unit_shift_; }  // of a sub-block, or the line
  bool has_sub_blocks() const { return sub_blocks_ > 1; }
  void clear();
  bool keeps_all_in_sets() const { return replacement_->keeps_all_in_sets(); }
  // Copies what another cache of the same geometry holds under a variant. This one must be empty, and for one variant.
  void take(const CacheArray& other, int variant);
  std::size_t host_bytes() const { return sizeof(Block) * sets_ * blocks_per_set_; }
  // Tells the host that this set will be needed. It must be inlined: a call of it looks to GCC as if it did nothing.
  NEARFIELD_INNERMOST void fetch_early(Address address) const {
    const auto* set = common(number_and_tag(address).set);
    __builtin_prefetch(set, 1);
    __builtin_prefetch(&set->age, 1);
  }

 private:
  struct NumberAndTag {
    std::uint32_t set, tag;
  };
  NEARFIELD_INNERMOST NumberAndTag number_and_tag_of_several(Address address) const {
    const auto line = static_cast<std::uint32_t>(address >> line_shift_);
    const auto tag = static_cast<std::uint32_t>(static_cast<unsigned __int128>(reciprocal_) * line >> 64);
    return {line - tag * sets_, tag + 1};
  }
  NEARFIELD_INNERMOST NumberAndTag number_and_tag(Address address) const {
    if (sets_ == 1) [[unlikely]]
      return {0, static_cast<std::uint32_t>(address >> line_shift_) + 1};
    return number_and_tag_of_several(address);
  }
  Block* common(std::uint32_t set) const { return blocks_ + static_cast<std::size_t>(set) * blocks_per_set_; }
  // `set`: counted with those that variants have for themselves.
  NEARFIELD_INNERMOST Address address_in(std::uint32_t set, const Way& way) const {
    if (set >= sets_) [[unlikely]]
      set = own_->set_behind(set - sets_);
    return (static_cast<Address>(way.block->tag[way.lane] - 1) * sets_ + set) << line_shift_;
  }

  template <class Function>
  NEARFIELD_INNERMOST void for_each_unit_of_line(const Way& way, Address line, Function&& function) const {
    if (!has_sub_blocks()) [[likely]]
      return function(line);
    for (std::uint32_t part = 0; part < sub_blocks_; ++part)
      if (valid_parts(way) >> part & 1) function(line + (static_cast<Address>(part) << unit_shift_));
  }

  // Sub-blocks, as bits: in each byte the low half says which are valid (modified), the high half which are shared
  // (injected).
  static std::uint8_t& valid_parts(const Way& way) { return way.block->parts[way.lane][0]; }
  static std::uint8_t& modified_parts(const Way& way) { return way.block->parts[way.lane][1]; }
  static unsigned ones(unsigned four_bits) { return 0x4332322132212110ULL >> 4 * four_bits & 7; }
  std::uint8_t part_of(Address address) const {
    return static_cast<std::uint8_t>(1U << (address >> unit_shift_ & (sub_blocks_ - 1)));
  }
  static std::uint8_t state_of_part(const Way& way, std::uint8_t part) {
    const unsigned valid = valid_parts(way), its_modified = modified_parts(way),
                   high = static_cast<unsigned>(part) << 4;
    return static_cast<std::uint8_t>((its_modified & part ? modified : 0) | (valid & high ? shared : 0) |
                                     (its_modified & high ? injected : 0));
  }
  static void set_state_of_part(const Way& way, std::uint8_t part, std::uint8_t state) {
    const unsigned both = part * 0x11U, high = part * 0x10U;
    auto& valid = valid_parts(way);
    auto& its_modified = modified_parts(way);
    valid = static_cast<std::uint8_t>((valid & ~high) | (state & shared ? high : 0));
    its_modified = static_cast<std::uint8_t>((its_modified & ~both) | (state & modified ? part : 0U) |
                                             (state & injected ? high : 0));
  }

  Block* set_of(const Way& way) const {
    return way.block - static_cast<std::size_t>(way.block - blocks_) % blocks_per_set_;
  }
  int number(const Way& way) const {
    return static_cast<int>((way.block - set_of(way)) * lanes_per_block) + static_cast<int>(way.lane);
  }
  static Way nth(Block* set, int number) {
    return {set + number / lanes_per_block, static_cast<unsigned>(number % lanes_per_block)};
  }
  Way find_in_blocks(const SetAndTag& where) const;
  Way room_by_replacement(Block* set, int limit);

  void prepare_if_new(Block* set);

  Zeros<Block> zeros_;            // a set is zeros until it is used
  Block* blocks_ = nullptr;       // in zeros_
  std::uint64_t reciprocal_ = 0;  // of the number of sets, times 2^64: exact for dividends and divisors of 32 bits
  std::uint32_t sets_;
  std::uint32_t blocks_per_set_;
  std::uint8_t line_shift_;
  std::uint8_t unit_shift_;
  std::uint8_t sub_blocks_;
  bool lru_;
  bool is_quick_ = false;  // its sets have one block each, in an order_ that needs no call
  bool is_narrow_;         // it has no more ways than first_lanes_with() looks at
  int ways_;
  int variants_ = 1;
  OrderOfUse order_;
  std::unique_ptr<Replacement> replacement_;
  std::unique_ptr<OwnSets> own_;  // if there are several variants
};

}  // namespace nearfield::sim
