// Keeps what a node's caches hold under several variants: policies, each of which has the NIC put other lines into
// caches. Nearly all sets hold the same under all of them, and nearly all accesses find the same. So a set that is equal
// under all variants is one block for all, the common one. Variants under which it is not have a block of their own,
// those under which it is the same have one together (OwnSets).
//
// An action is one access of a core, or one unit that a device reads or writes. It is done as variant 0, for all that do
// the same in the same blocks. A variant that turns out to have another block of a set leaves this group: it gets the
// sets that the action has looked at as they were before, from images. The first of the variants that are left then acts
// for all of these that do the same, and so on. Nobody changes a block that somebody outside of its group uses, too.
// Blocks that are equal afterwards become one again.
//
// Counts go the same way: each group that there ever was has counts, and those of a variant are the sum over its groups.
// Which variants will stay together is guessed from the last time; a wrong guess moves what the action counted.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "sim/clock.hpp"
#include "sim/counts.hpp"
#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/way_group.hpp"

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
  // For each variant, those that do what it does, itself among them.
  using Alike = std::array<Mask, most_variants>;
  // For each variant, the one that acted for it.
  struct Actors {
    std::array<std::uint8_t, most_variants> of{};
    std::size_t operator[](std::size_t variant) const { return of[variant]; }
    bool several() const { return std::bit_cast<std::uint64_t>(of) != 0; }
  };

  Variants(int count, int levels)
      : count_(count),
        levels_(levels),
        all_(static_cast<Mask>((1U << count) - 1)),
        together_(all_),
        tallies_(std::size_t{1} << count) {
    all_alike_.fill(all_);
    guess_.fill(all_);
    act_as(0, all_);
  }
  Variants(const Variants&) = delete;
  Variants& operator=(const Variants&) = delete;

  int count() const { return count_; }
  bool several() const { return count_ > 1; }
  Mask all() const { return all_; }
  const Alike& all_alike() const { return all_alike_; }
  // Returns which variants do the same, if `same` says of any two whether they do.
  template <class Same>
  Alike alike(Same&& same) const {
    Alike result{};
    for (std::size_t a = 0; a < static_cast<std::size_t>(count_); ++a)
      for (std::size_t b = 0; b < static_cast<std::size_t>(count_); ++b)
        result[a] |= static_cast<Mask>(same(a, b) << b);
    return result;
  }
  // Begins an action that looks at common sets only.
  void begin_common() {
    saves_ = false;
    saved_.clear();
    actors_ = {};
  }
  // Returns which variant acts, for itself and its group.
  int acting() const { return acting_; }
  // Returns the group for which a variant acted in the action that is over.
  Mask acted_for(int variant) const {
    Mask result = 0;
    for (std::size_t v = 0; v < static_cast<std::size_t>(count_); ++v)
      result |= static_cast<Mask>((actors_[v] == static_cast<std::size_t>(variant)) << v);
    return result;
  }

  // Calls `action` with 0, then with the first variant of each group that does something else than the groups before,
  // or does it in other blocks. Returns who acted for whom.
  template <class Action>
  NEARFIELD_INNERMOST Actors run(const Alike& alike, Action&& action) {
    if (several()) begin(alike);
    do action(acting_);
    while (several() && goes_on());
    return actors_;
  }

  // ---- counts
  Tally& tally() { return *tally_; }  // of whoever acts
  // Returns that of a group, which is part of the counts of each variant in it.
  Tally& tally_of_group(Mask group) {
    auto& tally = tallies_[group];
    if (!tally) [[unlikely]]
      tally = std::make_unique<Tally>();
    return *tally;
  }
  Tally tally_of(int variant) const;
  const Tally& common() const { return *tallies_[all_]; }
  Tally& common() { return *tallies_[all_]; }
  void reset_counts();

 private:
  friend class OwnSets;
  struct Saved {
    OwnSets* sets;
    std::uint32_t set;
    std::size_t image;  // where its blocks begin
  };

  void begin(const Alike& alike) {
    alike_ = &alike;
    left_ = all_;
    together_ = alike[0];
    actors_ = {};
    looked_at_.clear();
    forget_images();
    saves_ = own_blocks_ > 0 || together_ != all_;
    if (saves_) begin_group(0);
  }
  // The action was done as acting(); returns whether it is to be done as another one now.
  bool goes_on() {
    if (!saves_) [[likely]]  // then all are together
      return false;
    return next_group();
  }
  bool next_group();
  void begin_group(int variant) {
    act_as(variant, guess_[static_cast<std::size_t>(variant)] & together_);
    if (!is_one(together_)) std::memcpy(&before_, tally_, tally_->numbers(levels_).size_bytes());
  }
  void move_counts();
  void end();
  // It counts for that group.
  void act_as(int variant, Mask group) {
    acting_ = variant;
    counting_ = group;
    tally_ = &tally_of_group(group);
  }
  void forget_images() {
    saved_.clear();
    images_used_ = 0;
  }
  void save(OwnSets& sets, std::uint32_t set, const Block* blocks, std::uint32_t count);
  void unite_afterwards(OwnSets& sets, std::uint32_t set) {
    if (looked_at_.empty() || looked_at_.back() != std::pair{&sets, set}) looked_at_.emplace_back(&sets, set);
  }
  static bool is_one(Mask group) { return (group & (group - 1)) == 0; }
  // The variant that acts looks at a block that `users` have. The others of its group leave the group.
  void keep_together(Mask users) {
    if (together_ & ~users) [[unlikely]]
      split(users);
  }
  void split(Mask users);

  int count_, levels_;
  Mask all_;
  Alike all_alike_{};
  const Alike* alike_ = nullptr;
  Actors actors_;
  int acting_ = 0;
  Mask together_;                                // whoever acts and those for whom it does
  Mask left_ = 0;                                // whoever acts and those after it
  std::vector<std::unique_ptr<Tally>> tallies_;  // of each group, if it ever was one
  std::array<Mask, most_variants> guess_{};      // the group that a variant acted for the last time
  Mask counting_ = 0;                            // the group whose tally this is:
  Tally* tally_ = nullptr;
  Tally before_;
  bool saves_ = false;  // no set needs to be saved while there is no block of a variant's own
  std::size_t own_blocks_ = 0;
  std::vector<Saved> saved_;  // what the group may change
  std::vector<Block> images_;
  std::size_t images_used_ = 0;
  std::vector<std::pair<OwnSets*, std::uint32_t>> looked_at_;  // sets that may have equal blocks now
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
    if (owners_[set] != 0) variants_.keep_together(users_with(variants_.acting(), set));
    return of(variants_.acting(), set);
  }
  Block* of(int variant, std::uint32_t set) const { return is_own(variant, set) ? own(variant, set) : common(set); }
  bool is_common(std::uint32_t set) const { return owners_[set] == 0; }
  const Mask* owners() const { return owners_.data(); }  // of each set: 0 if it is common
  // Calls `function` with each set that this action may have changed, and its blocks as they were before.
  template <class Function>
  void for_each_saved(Function&& function) const {
    for (const auto& saved : variants_.saved_)
      if (saved.sets == this) function(saved.set, &variants_.images_[saved.image]);
  }

  // Returns the set whose blocks begin so many sets behind the common ones.
  std::uint32_t set_behind(std::uint32_t slot) const { return set_of_slot_[slot]; }
  std::size_t sets_behind() const { return set_of_slot_.size(); }  // some may be empty
  // The common blocks are new: zeros, as are those behind them.
  void clear(Block* blocks);

 private:
  friend class Variants;
  bool is_own(int variant, std::uint32_t set) const { return owners_[set] >> variant & 1; }
  Block* common(std::uint32_t set) const { return blocks_ + static_cast<std::size_t>(set) * blocks_per_set_; }
  std::uint32_t& slot(int variant, std::uint32_t set) const {
    return slots_[static_cast<std::size_t>(set) * static_cast<std::size_t>(variants_.count()) +
                  static_cast<std::size_t>(variant)];
  }
  Block* own(int variant, std::uint32_t set) const { return common(sets_ + slot(variant, set)); }
  Block* of_group(std::uint32_t set);
  // Returns the variants that have the same block as this one.
  Mask users_with(int variant, std::uint32_t set) const {
    return is_own(variant, set) ? users_[slot(variant, set)] : variants_.all() & static_cast<Mask>(~owners_[set]);
  }
  void make_own(Mask users, std::uint32_t set, const Block* like);
  void put_into(Mask users, std::uint32_t set, std::uint32_t number) {
    users_[number] |= users;
    for (unsigned left = users; left != 0; left &= left - 1) slot(std::countr_zero(left), set) = number;
  }
  void give_back(std::uint32_t number);
  void unite_equal(std::uint32_t set);
  bool is_equal(const Block* a, const Block* b) const;

  Variants& variants_;
  std::uint32_t sets_, blocks_per_set_;
  Compare compare_;
  Block* blocks_ = nullptr;
  std::vector<Mask> owners_;    // of each set: the variants that have a block of their own, alone or with others
  Zeros<std::uint32_t> slots_;  // of each set and variant
  std::vector<Mask> users_;     // of each slot
  std::vector<std::uint32_t> set_of_slot_, free_;
};

}  // namespace nearfield::sim
