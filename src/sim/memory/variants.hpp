// Cache contents of a node under several variants: NIC policies, each of which makes the NIC put other lines into
// caches. Nearly all sets hold the same in all variants, and nearly all accesses have the same outcome. So a set that
// is equal in all variants is stored once, as the common set. Variants in which it differs have a clone of the set;
// variants whose clones are equal share one (CopyOnWriteSets).
//
// An action is one access of a core, or one granule that a device reads or writes. It is run as variant 0, on behalf
// of the group of variants that do the same with the same sets. If a variant's copy of a set differs, the variant
// leaves the group; the sets read so far are restored for it from snapshots, and the action is run again for the rest,
// one group at a time, each led by its first variant. A set shared with a variant outside the group is cloned before
// it is written. Copies that are equal afterwards are merged.
//
// Counts are kept in the same way: each group that ever existed has a counter block, and the counts of a variant are
// the sum over its groups. The group of a run is predicted to be that variant's last one; after a wrong prediction,
// the counts of the action are moved.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/counts.hpp"
#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/way_group.hpp"

namespace nearfield::sim {

// The number of caches of each level in which a granule is looked up that none of them has.
using TagLookups = std::array<Count, max_cache_levels>;

// The counts of all caches of a node. They are added and copied in every second action, as one array of numbers.
struct CounterBlock {
  DramCounts dram;
  Count transfers = 0;
  TagLookups tag_lookups{};  // that a directory saves; counted as if they had been made
  std::array<LevelCounts, max_cache_levels> levels{};

  // Returns all numbers that `used_levels` levels of caches have.
  std::span<Count> numbers(int used_levels) {
    return {&dram.reads, (sizeof(CounterBlock) - sizeof(levels)) / sizeof(Count) +
                             static_cast<std::size_t>(used_levels) * sizeof(LevelCounts) / sizeof(Count)};
  }
};

class CopyOnWriteSets;

class Variants {
 public:
  using Mask = std::uint8_t;  // one bit per variant
  static_assert(max_variants <= 8);
  // For each variant, the variants that do the same, including itself.
  using EquivalenceClasses = std::array<Mask, max_variants>;
  // For each variant, the one that led its group.
  struct GroupLeaders {
    std::array<std::uint8_t, max_variants> of{};
    std::size_t operator[](std::size_t variant) const { return of[variant]; }
    bool has_several() const { return std::bit_cast<std::uint64_t>(of) != 0; }
  };

  Variants(int count, int levels)
      : count_(count),
        levels_(levels),
        all_(static_cast<Mask>((1U << count) - 1)),
        group_(all_),
        counters_by_group_(std::size_t{1} << count) {
    single_class_.fill(all_);
    predicted_group_.fill(all_);
    run_as(0, all_);
  }
  Variants(const Variants&) = delete;
  Variants& operator=(const Variants&) = delete;

  int count() const { return count_; }
  bool has_several() const { return count_ > 1; }
  Mask all() const { return all_; }
  const EquivalenceClasses& single_class() const { return single_class_; }
  // Returns which variants do the same, where `same` compares any two of them.
  template <class Same>
  EquivalenceClasses equivalence_classes(Same&& same) const {
    EquivalenceClasses result{};
    for (std::size_t a = 0; a < static_cast<std::size_t>(count_); ++a)
      for (std::size_t b = 0; b < static_cast<std::size_t>(count_); ++b)
        result[a] |= static_cast<Mask>(same(a, b) << b);
    return result;
  }
  // Begins an action that accesses only common sets.
  void begin_common() {
    takes_snapshots_ = false;
    snapshots_.clear();
    leaders_ = {};
  }
  // Returns the variant that the action is run as, on behalf of its group.
  int leader() const { return leader_; }
  // Returns the group that a variant led in the last action.
  Mask group_of(int variant) const {
    Mask result = 0;
    for (std::size_t v = 0; v < static_cast<std::size_t>(count_); ++v)
      result |= static_cast<Mask>((leaders_[v] == static_cast<std::size_t>(variant)) << v);
    return result;
  }

  // Calls `action` with 0, then with the first variant of each group that does something else, or does it with other
  // sets. Returns the leader of each variant.
  template <class Action>
  NEARFIELD_ALWAYS_INLINE GroupLeaders run(const EquivalenceClasses& classes, Action&& action) {
    if (has_several()) begin(classes);
    do action(leader_);
    while (has_several() && needs_another_run());
    return leaders_;
  }

  // ---- counts
  CounterBlock& counters() { return *counters_; }  // of the acting group
  // Returns the counters of a group, which are part of the counts of each variant in it.
  CounterBlock& counters_of_group(Mask group) {
    auto& counters = counters_by_group_[group];
    if (!counters) [[unlikely]]
      counters = std::make_unique<CounterBlock>();
    return *counters;
  }
  CounterBlock counters_of(int variant) const;
  const CounterBlock& common_counters() const { return *counters_by_group_[all_]; }
  CounterBlock& common_counters() { return *counters_by_group_[all_]; }
  void reset_counts();

 private:
  friend class CopyOnWriteSets;
  struct Snapshot {
    CopyOnWriteSets* sets;
    std::uint32_t set;
    std::size_t offset;  // where the copy begins
  };

  void begin(const EquivalenceClasses& classes) {
    classes_ = &classes;
    pending_ = all_;
    group_ = classes[0];
    leaders_ = {};
    sets_to_merge_.clear();
    discard_snapshots();
    takes_snapshots_ = num_clones_ > 0 || group_ != all_;
    if (takes_snapshots_) begin_group(0);
  }
  // Called after the action was run as leader(); returns whether it must be run again as another variant.
  bool needs_another_run() {
    if (!takes_snapshots_) [[likely]]  // all variants are in one group
      return false;
    return start_next_group();
  }
  bool start_next_group();
  void begin_group(int variant) {
    run_as(variant, predicted_group_[static_cast<std::size_t>(variant)] & group_);
    if (!is_one(group_)) std::memcpy(&counters_before_, counters_, counters_->numbers(levels_).size_bytes());
  }
  void move_counts();
  void end();
  // Counts are for `group`.
  void run_as(int variant, Mask group) {
    leader_ = variant;
    counted_group_ = group;
    counters_ = &counters_of_group(group);
  }
  void discard_snapshots() {
    snapshots_.clear();
    snapshot_used_ = 0;
  }
  void take_snapshot(CopyOnWriteSets& sets, std::uint32_t set, const WayGroup* way_groups, std::uint32_t count);
  void merge_later(CopyOnWriteSets& sets, std::uint32_t set) {
    if (sets_to_merge_.empty() || sets_to_merge_.back() != std::pair{&sets, set})
      sets_to_merge_.emplace_back(&sets, set);
  }
  static bool is_one(Mask group) { return (group & (group - 1)) == 0; }
  // Called if the leader accesses a copy of a set that `users` share. The rest of its group leaves the group.
  void split_group(Mask users) {
    if (group_ & ~users) [[unlikely]]
      split_off(users);
  }
  void split_off(Mask users);

  int count_, levels_;
  Mask all_;
  EquivalenceClasses single_class_{};
  const EquivalenceClasses* classes_ = nullptr;
  GroupLeaders leaders_;
  int leader_ = 0;
  Mask group_;        // the leader and those that it acts for
  Mask pending_ = 0;  // the groups that have not acted yet, and the one that acts
  std::vector<std::unique_ptr<CounterBlock>> counters_by_group_;  // of each group that ever existed
  std::array<Mask, max_variants> predicted_group_{};              // the last group that each variant led
  Mask counted_group_ = 0;                                        // the group that counters_ belongs to
  CounterBlock* counters_ = nullptr;
  CounterBlock counters_before_;
  bool takes_snapshots_ = false;  // no snapshots are needed while there are no clones
  std::size_t num_clones_ = 0;
  std::vector<Snapshot> snapshots_;  // of the sets that the group may change
  std::vector<WayGroup> snapshot_storage_;
  std::size_t snapshot_used_ = 0;
  std::vector<std::pair<CopyOnWriteSets*, std::uint32_t>> sets_to_merge_;  // sets whose copies may have become equal
};

// The sets of one cache, of which variants may have clones. Clones are stored behind the common sets in the cache's
// array.
class CopyOnWriteSets {
 public:
  using Mask = Variants::Mask;
  // Sets are compared by their lines in recency order or, if it may matter which way holds a line, byte by byte.
  enum class Compare { order, bytes };

  CopyOnWriteSets(Variants& variants, std::uint32_t sets, std::uint32_t groups_per_set, Compare compare)
      : variants_(variants), sets_(sets), groups_per_set_(groups_per_set), compare_(compare), owners_(sets) {}

  // Returns the acting group's copy of the set, which it may then change.
  [[gnu::noinline]] WayGroup* writable_set(std::uint32_t set);
  // The same, for read access.
  WayGroup* readable_set(std::uint32_t set) const {
    if (owners_[set] != 0) variants_.split_group(users_with(variants_.leader(), set));
    return copy_of(variants_.leader(), set);
  }
  WayGroup* copy_of(int variant, std::uint32_t set) const {
    return has_clone(variant, set) ? clone(variant, set) : common(set);
  }
  bool is_common(std::uint32_t set) const { return owners_[set] == 0; }
  const Mask* owners() const { return owners_.data(); }  // per set: 0 if it is common
  // Calls `function` with each set that this action may have changed, and its contents from before.
  template <class Function>
  void for_each_snapshot(Function&& function) const {
    for (const auto& snapshot : variants_.snapshots_)
      if (snapshot.sets == this) function(snapshot.set, &variants_.snapshot_storage_[snapshot.offset]);
  }

  // Returns the set whose clone is in this slot behind the common sets.
  std::uint32_t set_of_clone(std::uint32_t slot) const { return set_of_slot_[slot]; }
  std::size_t clone_slots() const { return set_of_slot_.size(); }  // some may be free
  // Called with new storage, all zeros, for the common sets and the clones behind them.
  void clear(WayGroup* way_groups);

 private:
  friend class Variants;
  bool has_clone(int variant, std::uint32_t set) const { return owners_[set] >> variant & 1; }
  WayGroup* common(std::uint32_t set) const { return way_groups_ + static_cast<std::size_t>(set) * groups_per_set_; }
  std::uint32_t& slot(int variant, std::uint32_t set) const {
    return slots_[static_cast<std::size_t>(set) * static_cast<std::size_t>(variants_.count()) +
                  static_cast<std::size_t>(variant)];
  }
  WayGroup* clone(int variant, std::uint32_t set) const { return common(sets_ + slot(variant, set)); }
  WayGroup* writable_set_of_group(std::uint32_t set);
  // Returns the variants that share this variant's copy of the set.
  Mask users_with(int variant, std::uint32_t set) const {
    return has_clone(variant, set) ? users_[slot(variant, set)] : variants_.all() & static_cast<Mask>(~owners_[set]);
  }
  void clone_set(Mask users, std::uint32_t set, const WayGroup* source);
  void assign_slot(Mask users, std::uint32_t set, std::uint32_t number) {
    users_[number] |= users;
    for (unsigned left = users; left != 0; left &= left - 1) slot(std::countr_zero(left), set) = number;
  }
  void free_clone(std::uint32_t number);
  void merge_equal_sets(std::uint32_t set);
  bool is_equal(const WayGroup* a, const WayGroup* b) const;

  Variants& variants_;
  std::uint32_t sets_, groups_per_set_;
  Compare compare_;
  WayGroup* way_groups_ = nullptr;
  std::vector<Mask> owners_;            // per set: the variants that have a clone, alone or shared
  LazyZeroArray<std::uint32_t> slots_;  // per set and variant
  std::vector<Mask> users_;             // per slot
  std::vector<std::uint32_t> set_of_slot_, free_;
};

}  // namespace nearfield::sim
