// Keeps what a node's caches hold under several variants: policies, each of which has the NIC put other lines into
// caches. Nearly all sets hold the same under all of them, and nearly all accesses find the same. So a set that is equal
// under all variants is one block for all, the common one; a variant under which it is not has a block of its own
// (OwnSets).
//
// An action is one access of a core, or one unit that a device reads or writes. It is done as variant 0, on common
// blocks, and each set that it looks at is saved first. If all variants do the same, and none has its own block of
// one of these sets, the action is done for all. Each variant for which that is not so then acts apart: it gets its own
// blocks of the saved sets, as they were, and of other sets as soon as it looks at them. A block that afterwards is equal
// to the common one is given back.
//
// Counts go the same way: variant 0 counts for all, and what a variant apart counts instead is kept as a difference.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "sim/clock.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/lanes.hpp"

namespace nearfield::sim {

// How many caches of each level are searched for a unit that none of them has.
using Searches = std::array<Count, most_cache_levels>;

// The counts of all caches of a node. They are added and copied at every second action, as one row of numbers.
struct Tally {
  DramCounts dram;
  Count transfers = 0;
  Searches searches{};  // that a directory makes needless; counted as if they had been made
  std::array<LevelCounts, most_cache_levels> levels{};

  // Returns all numbers as far as caches of so many levels have any.
  std::span<Count> numbers(int used_levels) {
    return {&dram.reads, (sizeof(Tally) - sizeof(levels)) / sizeof(Count) +
                             static_cast<std::size_t>(used_levels) * sizeof(LevelCounts) / sizeof(Count)};
  }
};

class OwnSets;

class Variants {
 public:
  using Mask = std::uint8_t;  // a bit for each variant
  static_assert(most_variants <= 8);

  Variants(int count, int levels)
      : count_(count),
        levels_(levels),
        all_(static_cast<Mask>((1U << count) - 1)),
        apart_(static_cast<std::size_t>(count)) {}
  Variants(const Variants&) = delete;
  Variants& operator=(const Variants&) = delete;

  int count() const { return count_; }
  bool several() const { return count_ > 1; }
  Mask all() const { return all_; }
  // Begins an action that looks at common sets only.
  void begin_common() {
    saves_ = false;
    saved_.clear();
  }
  // Returns which variant acts; 0: that one and all that do not act apart.
  int acting() const { return acting_; }

  // Calls `action` with 0, then with each variant that acts apart: those that are not in `same`, which do something
  // else than variant 0, and those under which a set is another one. Returns these.
  template <class Action>
  NEARFIELD_INNERMOST Mask run(Mask same, Action&& action) {
    if (several()) begin(same);
    do action(acting_);
    while (several() && goes_on());
    return owners_seen_;
  }

  // ---- counts
  Tally& tally() { return *tally_; }  // of whoever acts
  Tally& apart(int variant) { return apart_[static_cast<std::size_t>(variant)]; }
  Tally tally_of(int variant) const {
    Tally sum = common_, apart = apart_[static_cast<std::size_t>(variant)];
    const auto numbers = sum.numbers(levels_), more = apart.numbers(levels_);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += more[i];
    return sum;
  }
  const Tally& common() const { return common_; }
  void reset_counts();

 private:
  friend class OwnSets;
  struct Saved {
    OwnSets* sets;
    std::uint32_t set;
    std::size_t image;  // where its blocks begin
  };

  void begin(Mask same) {
    saved_.clear();
    images_used_ = 0;
    owners_seen_ = static_cast<Mask>(all_ & ~same);
    saves_ = own_blocks_ > 0 || same != all_;
    if (saves_) std::memcpy(&before_, &common_, common_.numbers(levels_).size_bytes());
  }
  // The action was done as acting(); returns whether it is to be done as another one now.
  bool goes_on() {
    if (owners_seen_ == 0) [[likely]]
      return false;
    return next_apart();
  }
  bool next_apart();
  void act_as(int variant) {
    acting_ = variant;
    tally_ = variant == 0 ? &common_ : &apart_[static_cast<std::size_t>(variant)];
  }
  void begin_apart();
  void end_apart();
  void save(OwnSets& sets, std::uint32_t set, const Block* blocks, std::uint32_t count);

  int count_, levels_;
  Mask all_;
  int acting_ = 0;
  Tally common_, before_;
  std::vector<Tally> apart_;
  Tally* tally_ = &common_;
  Mask owners_seen_ = 0;  // variants that do something else, or have an own block of a set that the action looked at
  bool saves_ = false;    // no set needs to be saved while there is no block of a variant's own
  std::size_t own_blocks_ = 0;
  std::vector<Saved> saved_;
  std::vector<Block> images_;
  std::size_t images_used_ = 0;
  std::vector<std::pair<OwnSets*, std::uint32_t>> looked_at_;  // by variants apart
};

// The sets of one cache that variants have for themselves. Their blocks lie behind the common ones in the cache's array.
class OwnSets {
 public:
  using Mask = Variants::Mask;
  // Sets are compared by their lines in the order of use, or, where the way that a line is in may matter, block by
  // block.
  enum class Compare { order, blocks };

  OwnSets(Variants& variants, std::uint32_t sets, std::uint32_t blocks_per_set, Compare compare)
      : variants_(variants), sets_(sets), blocks_per_set_(blocks_per_set), compare_(compare), owners_(sets) {}

  // Returns the set's first block, for whoever acts and may then change it.
  [[gnu::noinline]] Block* of_acting(std::uint32_t set);
  // The same, for one that only looks at it.
  Block* look(std::uint32_t set) const {
    variants_.owners_seen_ |= variants_.acting() == 0 ? owners_[set] : Mask{0};
    return of(variants_.acting(), set);
  }
  Block* of(int variant, std::uint32_t set) const { return is_own(variant, set) ? own(variant, set) : common(set); }
  bool is_common(std::uint32_t set) const { return owners_[set] == 0; }
  bool is_saved(std::uint32_t set) const;  // in this action

  // Returns the set whose blocks begin so many sets behind the common ones.
  std::uint32_t set_behind(std::uint32_t slot) const { return set_of_slot_[slot]; }
  std::size_t sets_behind() const { return set_of_slot_.size(); }  // some may be empty
  // The common blocks are new: zeros, as are those behind them.
  void clear(Block* blocks);

 private:
  friend class Variants;
  bool is_own(int variant, std::uint32_t set) const { return owners_[set] >> variant & 1; }
  Block* common(std::uint32_t set) const { return blocks_ + static_cast<std::size_t>(set) * blocks_per_set_; }
  std::uint32_t& slot(int variant, std::uint32_t set) {
    return slots_.get()[static_cast<std::size_t>(set) * static_cast<std::size_t>(variants_.count()) +
                        static_cast<std::size_t>(variant)];
  }
  Block* own(int variant, std::uint32_t set) const {
    return common(sets_ + const_cast<OwnSets*>(this)->slot(variant, set));
  }
  Block* make_own(int variant, std::uint32_t set, const Block* like);
  void give_back_equal(std::uint32_t set);
  bool is_equal(const Block* a, const Block* b) const;

  Variants& variants_;
  std::uint32_t sets_, blocks_per_set_;
  Compare compare_;
  Block* blocks_ = nullptr;
  std::vector<Mask> owners_;  // of each set: the variants that have their own block
  // Of each set and variant; made by calloc(), so that those that are not used take none of the host's memory.
  std::unique_ptr<std::uint32_t, decltype(&std::free)> slots_{nullptr, &std::free};
  std::vector<std::uint32_t> set_of_slot_, free_;
};

}  // namespace nearfield::sim
