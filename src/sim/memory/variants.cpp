#include "sim/memory/variants.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace nearfield::sim {
namespace {

// Copies a set. A set of one way group is copied inline, since most sets are such and a call would take longer.
void copy_set(const WayGroup* from, std::uint32_t way_groups, WayGroup* to) {
  if (way_groups == 1) [[likely]]
    *to = *from;
  else
    std::copy_n(from, way_groups, to);
}

}  // namespace

void Variants::begin_group_run(int leader, const EquivalenceClasses& classes, Mask pending) {
  const Mask members = classes[static_cast<std::size_t>(leader)] & pending;
  current_run_.begin_group(leader, members, true);
  counters_.begin_group_run(leader, members);
}

// Ends the run of a group: stores its leader for each member.
void Variants::end_group_run(GroupLeaders& leaders) {
  const Mask group = current_run_.members();
  for (unsigned remaining = group; remaining != 0; remaining &= remaining - 1)
    leaders.leader_by_variant[static_cast<std::size_t>(std::countr_zero(remaining))] =
        static_cast<std::uint8_t>(current_run_.leader());
  counters_.end_group_run(current_run_.leader(), group);
}

void Variants::end_action() {
  current_run_.begin_group(0, all_variants_, false);
  counters_.end_action();
  for (const auto& [sets, set] : sets_to_merge_) sets->merge_equal_sets(set);
  sets_to_merge_.clear();
}

void GroupRun::take_snapshot(CopyOnWriteSets& sets, std::uint32_t set, const WayGroup* way_groups,
                             std::uint32_t count) {
  if (!snapshots_.empty() && snapshots_.back().sets == &sets && snapshots_.back().set == set) return;
  if (snapshot_size_ + count > snapshot_storage_.size()) snapshot_storage_.resize(2 * (snapshot_size_ + count));
  snapshots_.push_back({&sets, set, snapshot_size_});
  copy_set(way_groups, count, &snapshot_storage_[snapshot_size_]);
  snapshot_size_ += count;
}

void GroupRun::split_off(VariantMask leaving_members) {
  members_ &= static_cast<VariantMask>(~leaving_members);
  for (const auto& snapshot : snapshots_)
    if (const VariantMask users = leaving_members & snapshot.sets->variants_sharing_copy(leader_, snapshot.set))
      snapshot.sets->clone_set(users, snapshot.set, &snapshot_storage_[snapshot.offset]);
}

WayGroup* CopyOnWriteSets::writable_set(std::uint32_t set) {
  if (clone_owners_[set] == 0 && current_run_.members() == variants_.all_variants()) [[likely]] {
    current_run_.save_set(*this, set, common_set(set), groups_per_set_);
    return common_set(set);
  }
  return writable_set_of_group(set);
}

// Returns a copy of the set that only the acting group uses. Clones the set if variants outside the group share it.
WayGroup* CopyOnWriteSets::writable_set_of_group(std::uint32_t set) {
  const Mask users = variants_sharing_copy(current_run_.leader(), set);
  current_run_.restrict_members(users);
  const Mask group = current_run_.members();
  if (const Mask other_users = users & static_cast<Mask>(~group))  // variant 0 always has the common set
    clone_set(other_users & 1 ? group : other_users, set, copy_of(current_run_.leader(), set));
  else
    variants_.schedule_merge(*this, set);
  WayGroup* const way_groups = copy_of(current_run_.leader(), set);
  current_run_.save_set(*this, set, way_groups, groups_per_set_);
  return way_groups;
}

// Makes a clone of a set with the contents of `source` for `users`: some, but not all, of the variants that share one
// copy.
void CopyOnWriteSets::clone_set(Mask users, std::uint32_t set, const WayGroup* source) {
  if (!clone_slots_)
    clone_slots_ = make_lazy_zero_array<std::uint32_t>(static_cast<std::size_t>(num_sets_) *
                                                       static_cast<std::size_t>(variants_.num_variants()));
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(set_of_slot_.size()));
    set_of_slot_.push_back(0);
    users_by_slot_.push_back(0);
  }
  const auto number = free_slots_.back();
  free_slots_.pop_back();
  set_of_slot_[number] = set;
  for (unsigned remaining = users & clone_owners_[set]; remaining != 0; remaining &= remaining - 1)
    users_by_slot_[slot_of(std::countr_zero(remaining), set)] &= static_cast<Mask>(~users);
  assign_slot(users, set, number);
  clone_owners_[set] |= users;
  variants_.adjust_clone_count(1);
  copy_set(source, groups_per_set_, common_set(num_sets_ + number));
  variants_.schedule_merge(*this, set);
}

void CopyOnWriteSets::free_clone(std::uint32_t number) {
  WayGroup* const way_groups = common_set(num_sets_ + number);
  for (auto* way_group = way_groups; way_group < way_groups + groups_per_set_; ++way_group)
    std::fill_n(way_group->tag, ways_per_group, no_tag);
  free_slots_.push_back(number);
  users_by_slot_[number] = 0;
  variants_.adjust_clone_count(-1);
}

void CopyOnWriteSets::merge_equal_sets(std::uint32_t set) {
  for (Mask remaining = clone_owners_[set]; remaining != 0;) {
    const int variant = std::countr_zero(remaining);
    const auto number = slot_of(variant, set);
    const Mask users = variants_sharing_copy(variant, set);
    remaining &= static_cast<Mask>(~users);
    if (is_equal(common_set(num_sets_ + number), common_set(set))) {
      clone_owners_[set] &= static_cast<Mask>(~users);
      free_clone(number);
      continue;
    }
    for (unsigned other_users = remaining; other_users != 0; other_users &= other_users - 1) {
      const auto other = slot_of(std::countr_zero(other_users), set);
      if (!is_equal(common_set(num_sets_ + number), common_set(num_sets_ + other))) continue;
      assign_slot(users, set, other);
      free_clone(number);
      break;
    }
  }
}

bool CopyOnWriteSets::is_equal(const WayGroup* a, const WayGroup* b) const {
  if (set_comparison_ == SetComparison::bytes) return std::memcmp(a, b, sizeof(WayGroup) * groups_per_set_) == 0;
  if (sum_of_tags(*a) != sum_of_tags(*b)) return false;  // differs for most sets with other lines
  if (std::memcmp(a, b, sizeof(WayGroup)) == 0) return true;
  int num_equal_lines = 0;
  for (unsigned way = 0; way < ways_per_group; ++way) {
    if (a->tag[way] == no_tag) continue;
    const auto way_mask = ways_with_tag(*b, a->tag[way]);
    if (way_mask == 0) return false;
    const auto way_in_b = static_cast<unsigned>(std::countr_zero(way_mask));
    if (a->age[way] != b->age[way_in_b] || a->flags[way] != b->flags[way_in_b] ||
        a->sharers[way] != b->sharers[way_in_b])
      return false;
    ++num_equal_lines;
  }
  return num_equal_lines + std::popcount(ways_with_tag(*b, no_tag)) == ways_per_group;
}

void CopyOnWriteSets::clear(WayGroup* way_groups) {
  variants_.adjust_clone_count(static_cast<std::ptrdiff_t>(free_slots_.size()) -
                               static_cast<std::ptrdiff_t>(set_of_slot_.size()));
  std::fill(clone_owners_.begin(), clone_owners_.end(), Mask{0});
  set_of_slot_.clear();
  users_by_slot_.clear();
  free_slots_.clear();
  way_groups_ = way_groups;
}

}  // namespace nearfield::sim
