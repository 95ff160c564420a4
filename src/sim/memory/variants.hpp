// Cache contents of a node under several variants: NIC policies, each of which makes the NIC put other lines into
// caches. Nearly all sets have the same contents in all variants, and nearly all accesses have the same outcome. So a
// set that is equal in all variants is stored once, as the common set. A variant in which the set differs has a clone
// of the set; variants with equal clones share one (CopyOnWriteSets).
//
// An action is one access of a core, or a batch of granules that a device reads or writes. Variants::run() runs an
// action once for each group of variants that perform the same action on the same sets. The groups are determined
// during the run (GroupRun): the first variant that has not acted yet leads the run on behalf of all variants that have
// not acted. If the leader accesses a set of which another member has a different copy, that member leaves the group,
// and the sets that the run has changed are restored for that member from snapshots. A set that is shared with a
// variant outside the group is cloned before it is written. Copies that are equal after the action are merged.
//
// For example, variants 0 to 3 have everything in common except for a set of L2, of which variant 2 has a clone, since
// its device has put a line there. A load misses L1 and looks up that set:
//
//   run  leader  members
//   1    0       0 1 2 3   L1's set: it is common, so a snapshot is taken, and it may be changed.
//                0 1   3   L2's set: variant 2 leaves. The snapshot of L1's set becomes its clone.
//   2    2           2     L1's set and L2's set: variant 2 changes its clones.
//
// Then the copies of both sets are compared. If variant 2 loaded the same line, its L1 set now equals the common set,
// and its clone is freed. cache_counters.hpp describes how such runs are counted.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/cache_counters.hpp"
#include "sim/memory/lazy_zero_array.hpp"
#include "sim/memory/way_group.hpp"

namespace nearfield::sim {

class CopyOnWriteSets;

// One run of an action, as one variant (the leader) on behalf of a group of variants. Between actions, the group is all
// variants, and only state that is common to all of them is accessed.
class GroupRun {
 public:
  explicit GroupRun(VariantMask all) : members_(all) {}
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  int leader() const { return leader_; }
  VariantMask members() const { return members_; }  // including the leader

  // ---- for the sets that the action accesses
  // Must be called when the leader accesses a copy of a set that `users` share. Members that are not among `users`
  // leave the group.
  void restrict_members(VariantMask users) {
    if (members_ & ~users) [[unlikely]]
      split_off(static_cast<VariantMask>(members_ & ~users));
  }
  // Must be called before the group changes its copy of a set. Takes a snapshot of the set for members that leave
  // later.
  void save_set(CopyOnWriteSets& sets, std::uint32_t set, const WayGroup* way_groups, std::uint32_t count) {
    if (may_split_ && !has_one_member(members_)) take_snapshot(sets, set, way_groups, count);
  }
  // Calls `function` with the number and the previous contents of each set of `sets` that the run may have changed.
  template <class Function>
  void for_each_snapshot(const CopyOnWriteSets& sets, Function&& function) {
    for (const auto& snapshot : snapshots_)
      if (snapshot.sets == &sets) function(snapshot.set, &snapshot_storage_[snapshot.offset]);
  }

  // ---- for Variants
  // Begins a run. `may_split`: members may leave the group, since there are clones or several groups act.
  void begin_group(int leader, VariantMask members, bool may_split) {
    leader_ = leader;
    members_ = members;
    may_split_ = may_split;
    snapshots_.clear();
    snapshot_size_ = 0;
  }

 private:
  struct Snapshot {
    CopyOnWriteSets* sets;
    std::uint32_t set;
    std::size_t offset;  // where the copy begins in snapshot_storage_
  };
  void take_snapshot(CopyOnWriteSets& sets, std::uint32_t set, const WayGroup* way_groups, std::uint32_t count);
  void split_off(VariantMask leaving_members);

  int leader_ = 0;
  VariantMask members_;
  bool may_split_ = false;
  std::vector<Snapshot> snapshots_;  // copies of the sets that the group may have changed
  std::vector<WayGroup> snapshot_storage_;
  std::size_t snapshot_size_ = 0;
};

class Variants {
 public:
  using Mask = VariantMask;
  // For each variant, the variants that perform the same action, including the variant itself.
  using EquivalenceClasses = std::array<Mask, max_variants>;
  // For each variant, the variant that led its group.
  struct GroupLeaders {
    std::array<std::uint8_t, max_variants> leader_by_variant{};
    std::size_t operator[](std::size_t variant) const { return leader_by_variant[variant]; }
    bool has_several_groups() const { return std::bit_cast<std::uint64_t>(leader_by_variant) != 0; }
  };

  // `counters` must outlive this object.
  Variants(int count, CacheCounters& counters)
      : num_variants_(count),
        all_variants_(static_cast<Mask>((1U << count) - 1)),
        counters_(counters),
        current_run_(all_variants_) {
    single_class_.fill(all_variants_);
  }

  int num_variants() const { return num_variants_; }
  bool has_several_variants() const { return num_variants_ > 1; }
  Mask all_variants() const { return all_variants_; }
  const EquivalenceClasses& single_class() const { return single_class_; }
  // Returns the classes of variants that perform the same action. `same` compares two variants.
  template <class Same>
  EquivalenceClasses equivalence_classes(Same&& same) const {
    EquivalenceClasses result{};
    for (std::size_t a = 0; a < static_cast<std::size_t>(num_variants_); ++a)
      for (std::size_t b = 0; b < static_cast<std::size_t>(num_variants_); ++b)
        result[a] |= static_cast<Mask>(same(a, b) << b);
    return result;
  }

  // Calls `action` with variant 0, then with the first variant of each further group, whose members perform another
  // action or have other sets. Returns the leader of each variant.
  template <class Action>
  NEARFIELD_ALWAYS_INLINE GroupLeaders run(const EquivalenceClasses& classes, Action&& action) {
    GroupLeaders leaders;
    if (num_clones_ == 0 && classes[0] == all_variants_) [[likely]] {
      action(0);
      return leaders;
    }
    for (Mask pending = all_variants_; pending != 0; pending &= static_cast<Mask>(~current_run_.members())) {
      begin_group_run(std::countr_zero(pending), classes, pending);
      action(current_run_.leader());
      end_group_run(leaders);
    }
    end_action();
    return leaders;
  }
  GroupRun& current_run() { return current_run_; }
  // Returns the mask of the variants that `leader` led.
  Mask group_of(int leader, const GroupLeaders& leaders) const {
    Mask result = 0;
    for (std::size_t v = 0; v < static_cast<std::size_t>(num_variants_); ++v)
      result |= static_cast<Mask>((leaders[v] == static_cast<std::size_t>(leader)) << v);
    return result;
  }

  // ---- for CopyOnWriteSets
  void adjust_clone_count(std::ptrdiff_t more) { num_clones_ += static_cast<std::size_t>(more); }
  // Must be called if copies of a set may be equal when the action ends. They are then compared, and merged if equal.
  void schedule_merge(CopyOnWriteSets& sets, std::uint32_t set) {
    if (sets_to_merge_.empty() || sets_to_merge_.back() != std::pair{&sets, set})
      sets_to_merge_.emplace_back(&sets, set);
  }

 private:
  void begin_group_run(int leader, const EquivalenceClasses& classes, Mask pending);
  void end_group_run(GroupLeaders& leaders);
  void end_action();

  int num_variants_;
  Mask all_variants_;
  EquivalenceClasses single_class_{};
  CacheCounters& counters_;
  std::size_t num_clones_ = 0;  // without clones, nothing differs between variants
  std::vector<std::pair<CopyOnWriteSets*, std::uint32_t>> sets_to_merge_;  // sets whose copies may have become equal
  GroupRun current_run_;
};

// The sets of one cache, of which variants may have clones. Clones are stored behind the common sets in the cache's
// array.
class CopyOnWriteSets {
 public:
  using Mask = VariantMask;
  // Sets are compared by their lines in recency order or, if it may matter which way holds a line, byte by byte.
  enum class SetComparison { order, bytes };

  CopyOnWriteSets(Variants& variants, std::uint32_t sets, std::uint32_t groups_per_set, SetComparison compare)
      : variants_(variants),
        current_run_(variants.current_run()),
        num_sets_(sets),
        groups_per_set_(groups_per_set),
        set_comparison_(compare),
        clone_owners_(sets) {}

  // Returns the acting group's copy of a set for writing. Clones the set first if variants outside the group share it.
  [[gnu::noinline]] WayGroup* writable_set(std::uint32_t set);
  // Returns the acting group's copy of a set for reading. Members with another copy leave the group.
  WayGroup* readable_set(std::uint32_t set) const {
    if (clone_owners_[set] != 0) current_run_.restrict_members(variants_sharing_copy(current_run_.leader(), set));
    return copy_of(current_run_.leader(), set);
  }
  WayGroup* copy_of(int variant, std::uint32_t set) const {
    return has_clone(variant, set) ? clone_of(variant, set) : common_set(set);
  }
  bool is_common_set(std::uint32_t set) const { return clone_owners_[set] == 0; }
  const Mask* clone_owners() const { return clone_owners_.data(); }  // per set: 0 if it is common
  // Calls `function` with the number and the previous contents of each set of this cache that the current run may have
  // changed.
  template <class Function>
  void for_each_snapshot(Function&& function) const {
    current_run_.for_each_snapshot(*this, function);
  }
  // Returns the set whose clone is in this slot behind the common sets.
  std::uint32_t set_of_clone_slot(std::uint32_t slot) const { return set_of_slot_[slot]; }
  std::size_t num_clone_slots() const { return set_of_slot_.size(); }  // including free slots
  // Drops all clones. `way_groups` is new storage, all zeros, for the common sets and the clones behind them.
  void clear(WayGroup* way_groups);

  // ---- for GroupRun and Variants
  // Returns the variants that share this variant's copy of the set.
  Mask variants_sharing_copy(int variant, std::uint32_t set) const {
    return has_clone(variant, set) ? users_by_slot_[slot_of(variant, set)]
                                   : variants_.all_variants() & static_cast<Mask>(~clone_owners_[set]);
  }
  void clone_set(Mask users, std::uint32_t set, const WayGroup* source);
  void merge_equal_sets(std::uint32_t set);

 private:
  bool has_clone(int variant, std::uint32_t set) const { return clone_owners_[set] >> variant & 1; }
  WayGroup* common_set(std::uint32_t set) const {
    return way_groups_ + static_cast<std::size_t>(set) * groups_per_set_;
  }
  std::uint32_t& slot_of(int variant, std::uint32_t set) const {
    return clone_slots_[static_cast<std::size_t>(set) * static_cast<std::size_t>(variants_.num_variants()) +
                        static_cast<std::size_t>(variant)];
  }
  WayGroup* clone_of(int variant, std::uint32_t set) const { return common_set(num_sets_ + slot_of(variant, set)); }
  WayGroup* writable_set_of_group(std::uint32_t set);
  void assign_slot(Mask users, std::uint32_t set, std::uint32_t number) {
    users_by_slot_[number] |= users;
    for (unsigned remaining = users; remaining != 0; remaining &= remaining - 1)
      slot_of(std::countr_zero(remaining), set) = number;
  }
  void free_clone(std::uint32_t number);
  bool is_equal(const WayGroup* a, const WayGroup* b) const;

  Variants& variants_;
  GroupRun& current_run_;  // the current run of an action
  std::uint32_t num_sets_, groups_per_set_;
  SetComparison set_comparison_;
  WayGroup* way_groups_ = nullptr;
  std::vector<Mask> clone_owners_;            // per set: the variants that have a clone, alone or shared
  LazyZeroArray<std::uint32_t> clone_slots_;  // per set and variant: the slot of the clone
  std::vector<Mask> users_by_slot_;           // per slot: the variants that use the clone
  std::vector<std::uint32_t> set_of_slot_, free_slots_;
};

}  // namespace nearfield::sim
