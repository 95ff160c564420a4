// The tag array of one cache: which lines it holds, their states and their recency order. Knows nothing of other
// caches.
#pragma once

#include <bit>
#include <memory>

#include "machine/machine.hpp"
#include "sim/memory/access.hpp"
#include "sim/memory/cache_view.hpp"
#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/replacement.hpp"
#include "sim/memory/variants.hpp"

namespace nearfield::sim {

class CacheArray {
 public:
  // Throws std::invalid_argument for an impossible geometry. `variants` is null if only one variant is simulated.
  // If `ways_matter`, two sets are equal only if each way holds the same line, which is necessary if a device may fill
  // only some of the ways; otherwise equal recency order suffices.
  explicit CacheArray(const Cache& spec, Variants* variants = nullptr, bool ways_matter = false);

  // The set of an address, and the tag of the address's line in that set, counted from 1 (0 marks an empty way).
  struct SetAndTag {
    WayGroup* set;
    std::uint32_t tag;
  };
  // One way of a set. A null `group` means that no way was found.
  struct Way {
    WayGroup* group = nullptr;
    unsigned index = 0;
    explicit operator bool() const { return group != nullptr; }
    bool is_empty() const { return group->tag[index] == no_tag; }
    std::uint8_t& flags() const { return group->flags[index]; }
    std::uint16_t& sharers() const { return group->sharers[index]; }
  };

  // Returns the set and tag of an address for writing. The set is the copy of the acting group of variants
  // (variants.hpp), cloned first if other variants share it.
  NEARFIELD_ALWAYS_INLINE SetAndTag locate(Address address) const {
    const auto [set, tag] = decompose_address(address);
    if (cow_sets_) [[unlikely]]
      return {cow_sets_->writable_set(set), tag};
    return {common_set(set), tag};
  }
  // Returns the way that holds the line, or an empty Way. The way is in the acting group's copy of the set and may be
  // changed.
  NEARFIELD_ALWAYS_INLINE Way lookup(Address address) const {
    const auto [set, tag] = decompose_address(address);
    if (!cow_sets_) [[likely]]
      return find({common_set(set), tag}, address);
    auto* const readable = cow_sets_->readable_set(set);
    const auto way = find({readable, tag}, address);
    return way ? Way{cow_sets_->writable_set(set) + (way.group - readable), way.index} : way;
  }
  // Returns whether the cache holds the line under the acting group of variants.
  bool has_line(Address address) const {
    const auto [set, tag] = decompose_address(address);
    return bool{find({cow_sets_ ? cow_sets_->readable_set(set) : common_set(set), tag}, address)};
  }
  // Returns the set and tag of an address under one variant, for reading only.
  SetAndTag locate_in_variant(int variant, Address address) const {
    const auto [set, tag] = decompose_address(address);
    return {cow_sets_ ? cow_sets_->copy_of(variant, set) : common_set(set), tag};
  }
  // Returns the set and tag of an address; nullptr as the set if the set is not the same in all variants.
  NEARFIELD_ALWAYS_INLINE SetAndTag locate_common(Address address) const {
    const auto [set, tag] = decompose_address(address);
    return {cow_sets_ && !cow_sets_->is_common_set(set) ? nullptr : common_set(set), tag};
  }

  // Returns the way that holds the line, or an empty Way. With sub-blocks, the sub-block of the address must be valid.
  NEARFIELD_ALWAYS_INLINE Way find(const SetAndTag& where, Address address) const {
    const auto way = find_tag(where);
    if (!has_sub_blocks() || !way) [[likely]]
      return way;
    return valid_bits(way) & sub_block_bit(address) ? way : Way{};
  }
  NEARFIELD_ALWAYS_INLINE Way find_tag(const SetAndTag& where) const {
    if (groups_per_set_ > 1) [[unlikely]]
      return find_in_groups(where);
    const auto found = ways_with_tag(*where.set, where.tag);
    return {found ? where.set : nullptr, static_cast<unsigned>(std::countr_zero(found))};
  }

  NEARFIELD_ALWAYS_INLINE void touch(const Way& way) {
    if (has_inline_replacement_) [[likely]]
      order_.touch(*way.group, way.index);
    else
      replacement_->touch(set_containing(way), num_ways_, way_number(way));
  }

  // Returns the way to fill next, among the first `way_limit` ways unless `way_limit` is 0. If the way holds a line,
  // the caller must evict the line first.
  NEARFIELD_ALWAYS_INLINE Way way_to_fill(const SetAndTag& where, int way_limit = 0) {
    if (has_inline_replacement_ && way_limit == 0) [[likely]]
      return {where.set, order_.way_to_fill(*where.set)};
    return choose_way_by_policy(where.set, way_limit);
  }

  // Fills a line (or the address's sub-block) into a way that way_to_fill() returned or that holds other sub-blocks of
  // the line.
  NEARFIELD_ALWAYS_INLINE void fill(const SetAndTag& where, const Way& way, Address address, std::uint8_t state) {
    if (way.group->tag[way.index] != where.tag) {
      way.group->tag[way.index] = where.tag;
      way.group->sharers[way.index] = 0;
    }
    set_state(way, address, state);
    if (has_sub_blocks()) valid_bits(way) |= sub_block_bit(address);
    touch(way);
  }

  // Removes the line (or the address's sub-block). Returns the removed state.
  NEARFIELD_ALWAYS_INLINE std::uint8_t remove(const Way& way, Address address) {
    const auto old_state = state(way, address);
    if (has_sub_blocks()) {
      auto& valid = valid_bits(way);
      valid = static_cast<std::uint8_t>(valid & ~sub_block_bit(address));
      if (valid & 0x0F) return old_state;
    }
    if (has_inline_replacement_) [[likely]] {
      order_.remove(*way.group, way.index);
    } else {
      way.group->tag[way.index] = no_tag;
      replacement_->invalidate(set_containing(way), num_ways_, way_number(way));
    }
    return old_state;
  }

  // Returns the view of this cache that the fast path (fast_path.hpp) needs. Requires has_view().
  CacheView view() const;
  bool has_view() const { return has_inline_replacement_ && num_sets_ > 1; }

  // Returns the flags of the line (or of the address's sub-block).
  NEARFIELD_ALWAYS_INLINE std::uint8_t state(const Way& way, Address address) const {
    return has_sub_blocks() ? sub_block_state(way, sub_block_bit(address)) : way.group->flags[way.index];
  }
  NEARFIELD_ALWAYS_INLINE void set_state(const Way& way, Address address, std::uint8_t state) {
    if (has_sub_blocks())
      set_sub_block_state(way, sub_block_bit(address), state);
    else
      way.group->flags[way.index] = state;
  }
  void add_state(const Way& way, Address address, std::uint8_t flags) {
    set_state(way, address, static_cast<std::uint8_t>(state(way, address) | flags));
  }
  void drop_state(const Way& way, Address address, std::uint8_t flags) {
    set_state(way, address, static_cast<std::uint8_t>(state(way, address) & ~flags));
  }

  // Calls `function` with the address of each valid sub-block in a way. In a cache without sub-blocks, calls `function`
  // with the address of the line.
  template <class Function>
  NEARFIELD_ALWAYS_INLINE void for_each_sub_block(const Way& way, Function&& function) const {
    for_each_sub_block_of_line(way, address_of(way), function);
  }

  // Calls `function` with the address of each line that the cache holds under any variant now, or held under any
  // variant when the current action began.
  template <class Function>
  void for_each_line(Function&& function) const {
    const auto for_each_of_set = [&](std::uint32_t set, WayGroup* way_groups) {
      for (auto* group = way_groups; group < way_groups + groups_per_set_; ++group)
        for (unsigned index = 0; index < ways_per_group; ++index)
          if (group->tag[index] != no_tag)
            for_each_sub_block_of_line({group, index}, line_address_in_set(set, {group, index}), function);
    };
    const auto sets = num_sets_ + static_cast<std::uint32_t>(cow_sets_ ? cow_sets_->num_clone_slots() : 0);
    for (std::uint32_t set = 0; set < sets; ++set) for_each_of_set(set, common_set(set));
    if (cow_sets_) cow_sets_->for_each_snapshot(for_each_of_set);
  }
  // Returns the address of the line that a way holds.
  Address address_of(const Way& way) const {
    auto set = static_cast<std::uint32_t>(way.group - way_groups_);
    if (groups_per_set_ > 1) [[unlikely]]
      set /= groups_per_set_;
    return line_address_in_set(set, way);
  }
  // The number of sub-blocks that a way holds, and of those that are modified or injected. A line without sub-blocks
  // counts as one sub-block.
  struct SubBlockCounts {
    unsigned sub_blocks, modified, injected;
  };
  NEARFIELD_ALWAYS_INLINE SubBlockCounts count_sub_blocks(const Way& way) const {
    if (!has_sub_blocks()) {
      const unsigned state = way.group->flags[way.index];
      return {1, state & sim::modified, (state & sim::injected) != 0};
    }
    const unsigned valid = valid_bits(way) & 0x0FU, states = modified_bits(way);
    return {count_ones(valid), count_ones(states & valid), count_ones(states >> 4 & valid)};
  }

  bool has_sub_block(const Way& way, Address address) const {
    return !has_sub_blocks() || (valid_bits(way) & sub_block_bit(address)) != 0;
  }
  std::uint64_t line_bytes() const { return 1ULL << line_shift_; }
  // Returns the length of a sub-block, or of a line if there are no sub-blocks.
  std::uint64_t sub_block_bytes() const { return 1ULL << sub_block_shift_; }
  bool has_sub_blocks() const { return num_sub_blocks_ > 1; }
  void clear();
  bool keeps_state_in_sets() const { return replacement_->keeps_state_in_sets(); }
  // Copies the contents that another cache of the same geometry has under one variant. This cache must be empty and
  // simulate a single variant.
  void copy_variant_from(const CacheArray& other, int variant);
  std::size_t host_bytes() const { return sizeof(WayGroup) * num_sets_ * groups_per_set_; }
  // Prefetches the set of an address into the caches of the machine that runs the simulator. Must be inlined: GCC
  // removes calls of this function, since it has no visible effect.
  NEARFIELD_ALWAYS_INLINE void host_prefetch(Address address) const {
    const auto* set = common_set(decompose_address(address).set);
    __builtin_prefetch(set, 1);
    __builtin_prefetch(&set->age, 1);
  }

 private:
  struct SetIndexAndTag {
    std::uint32_t set, tag;
  };
  NEARFIELD_ALWAYS_INLINE SetIndexAndTag decompose_address_by_reciprocal(Address address) const {
    const auto line = static_cast<std::uint32_t>(address >> line_shift_);
    const auto tag = static_cast<std::uint32_t>(static_cast<unsigned __int128>(reciprocal_) * line >> 64);
    return {line - tag * num_sets_, tag + 1};
  }
  NEARFIELD_ALWAYS_INLINE SetIndexAndTag decompose_address(Address address) const {
    if (num_sets_ == 1) [[unlikely]]
      return {0, static_cast<std::uint32_t>(address >> line_shift_) + 1};
    return decompose_address_by_reciprocal(address);
  }
  WayGroup* common_set(std::uint32_t set) const {
    return way_groups_ + static_cast<std::size_t>(set) * groups_per_set_;
  }
  // Returns the address of the line in a way of set number `set`. Numbers beyond those of the common sets denote
  // clones.
  NEARFIELD_ALWAYS_INLINE Address line_address_in_set(std::uint32_t set, const Way& way) const {
    if (set >= num_sets_) [[unlikely]]
      set = cow_sets_->set_of_clone_slot(set - num_sets_);
    return (static_cast<Address>(way.group->tag[way.index] - 1) * num_sets_ + set) << line_shift_;
  }

  template <class Function>
  NEARFIELD_ALWAYS_INLINE void for_each_sub_block_of_line(const Way& way, Address line, Function&& function) const {
    if (!has_sub_blocks()) [[likely]]
      return function(line);
    for (std::uint32_t part = 0; part < num_sub_blocks_; ++part)
      if (valid_bits(way) >> part & 1) function(line + (static_cast<Address>(part) << sub_block_shift_));
  }

  // Sub-block states, with one bit per sub-block. valid_bits(): valid in the low half of the byte, shared in the high
  // half. modified_bits(): modified in the low half, injected in the high half.
  static std::uint8_t& valid_bits(const Way& way) { return way.group->sub_blocks[way.index][0]; }
  static std::uint8_t& modified_bits(const Way& way) { return way.group->sub_blocks[way.index][1]; }
  static unsigned count_ones(unsigned four_bits) { return 0x4332322132212110ULL >> 4 * four_bits & 7; }
  std::uint8_t sub_block_bit(Address address) const {
    return static_cast<std::uint8_t>(1U << (address >> sub_block_shift_ & (num_sub_blocks_ - 1)));
  }
  static std::uint8_t sub_block_state(const Way& way, std::uint8_t part) {
    const unsigned valid = valid_bits(way), modified_and_injected = modified_bits(way),
                   high = static_cast<unsigned>(part) << 4;
    return static_cast<std::uint8_t>((modified_and_injected & part ? modified : 0) | (valid & high ? shared : 0) |
                                     (modified_and_injected & high ? injected : 0));
  }
  static void set_sub_block_state(const Way& way, std::uint8_t part, std::uint8_t state) {
    const unsigned both = part * 0x11U, high = part * 0x10U;
    auto& valid = valid_bits(way);
    auto& modified_and_injected = modified_bits(way);
    valid = static_cast<std::uint8_t>((valid & ~high) | (state & shared ? high : 0));
    modified_and_injected = static_cast<std::uint8_t>((modified_and_injected & ~both) | (state & modified ? part : 0U) |
                                                      (state & injected ? high : 0));
  }

  WayGroup* set_containing(const Way& way) const {
    return way.group - static_cast<std::size_t>(way.group - way_groups_) % groups_per_set_;
  }
  int way_number(const Way& way) const {
    return static_cast<int>((way.group - set_containing(way)) * ways_per_group) + static_cast<int>(way.index);
  }
  static Way nth_way(WayGroup* set, int number) {
    return {set + number / ways_per_group, static_cast<unsigned>(number % ways_per_group)};
  }
  Way find_in_groups(const SetAndTag& where) const;
  Way choose_way_by_policy(WayGroup* set, int way_limit);

  void prepare_if_unused(WayGroup* set);

  LazyZeroArray<WayGroup> storage_;  // a set is all zeros until it is used
  WayGroup* way_groups_ = nullptr;   // points into storage_
  std::uint64_t reciprocal_ = 0;     // 2^64 / num_sets_, to divide by multiplying; exact for 32-bit operands
  std::uint32_t num_sets_;
  std::uint32_t groups_per_set_;
  std::uint8_t line_shift_;
  std::uint8_t sub_block_shift_;
  std::uint8_t num_sub_blocks_;
  bool is_lru_;
  bool has_inline_replacement_ = false;  // each set is one way group, and order_ replaces virtual calls of replacement_
  bool is_narrow_;                       // it has at most narrow_ways ways
  int num_ways_;
  int num_variants_ = 1;
  RecencyOrder order_;
  std::unique_ptr<Replacement> replacement_;
  std::unique_ptr<CopyOnWriteSets> cow_sets_;  // if there are several variants
};

}  // namespace nearfield::sim
