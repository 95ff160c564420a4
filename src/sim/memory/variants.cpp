#include "sim/memory/variants.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace nearfield::sim {
namespace {

// Most sets are one way group, which a call would take longer to copy.
void copy_set(const WayGroup* from, std::uint32_t way_groups, WayGroup* to) {
  if (way_groups == 1) [[likely]]
    *to = *from;
  else
    std::copy_n(from, way_groups, to);
}

}  // namespace

CounterBlock Variants::counters_of(int variant) const {
  CounterBlock sum;
  const auto numbers = sum.numbers(levels_);
  for (std::size_t group = 0; group < counters_by_group_.size(); ++group) {
    if (!(group >> variant & 1) || !counters_by_group_[group]) continue;
    const auto added = counters_by_group_[group]->numbers(levels_);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += added[i];
  }
  return sum;
}

void Variants::reset_counts() {
  for (auto& counters : counters_by_group_)
    if (counters) *counters = {};
}

void Variants::take_snapshot(CopyOnWriteSets& sets, std::uint32_t set, const WayGroup* way_groups,
                             std::uint32_t count) {
  if (!snapshots_.empty() && snapshots_.back().sets == &sets && snapshots_.back().set == set) return;
  if (snapshot_used_ + count > snapshot_storage_.size()) snapshot_storage_.resize(2 * (snapshot_used_ + count));
  snapshots_.push_back({&sets, set, snapshot_used_});
  copy_set(way_groups, count, &snapshot_storage_[snapshot_used_]);
  snapshot_used_ += count;
}

void Variants::split_off(Mask users) {
  const Mask leaving = group_ & static_cast<Mask>(~users);
  group_ &= users;
  for (const auto& snapshot : snapshots_)
    if (const Mask users_leaving = leaving & snapshot.sets->users_with(leader_, snapshot.set))
      snapshot.sets->clone_set(users_leaving, snapshot.set, &snapshot_storage_[snapshot.offset]);
}

bool Variants::start_next_group() {
  if (group_ != counted_group_) move_counts();
  for (unsigned left = group_; left != 0; left &= left - 1)
    leaders_.of[static_cast<std::size_t>(std::countr_zero(left))] = static_cast<std::uint8_t>(leader_);
  pending_ &= static_cast<Mask>(~group_);
  if (pending_ == 0) {
    end();
    return false;
  }
  const int next = std::countr_zero(pending_);
  group_ = (*classes_)[static_cast<std::size_t>(next)] & pending_;
  begin_group(next);
  discard_snapshots();
  return true;
}

// The group is not the predicted one.
void Variants::move_counts() {
  const auto now = counters_->numbers(levels_), before = counters_before_.numbers(levels_),
             actual = counters_of_group(group_).numbers(levels_);
  for (std::size_t i = 0; i < now.size(); ++i) actual[i] += std::exchange(now[i], before[i]) - before[i];
  predicted_group_[static_cast<std::size_t>(leader_)] = group_;
}

void Variants::end() {
  run_as(0, all_);
  group_ = all_;
  for (const auto& [sets, set] : sets_to_merge_) sets->merge_equal_sets(set);
}

WayGroup* CopyOnWriteSets::writable_set(std::uint32_t set) {
  if (owners_[set] == 0 && variants_.group_ == variants_.all_) [[likely]] {
    if (variants_.takes_snapshots_) variants_.take_snapshot(*this, set, common(set), groups_per_set_);
    return common(set);
  }
  return writable_set_of_group(set);
}

// Gives the acting group a copy of its own.
WayGroup* CopyOnWriteSets::writable_set_of_group(std::uint32_t set) {
  const int leader = variants_.leader();
  const Mask users = users_with(leader, set);
  variants_.split_group(users);
  const Mask group = variants_.group_;
  if (const Mask others = users & static_cast<Mask>(~group))  // variant 0 always has the common set
    clone_set(others & 1 ? group : others, set, copy_of(leader, set));
  else
    variants_.merge_later(*this, set);
  WayGroup* const way_groups = copy_of(leader, set);
  if (!Variants::is_one(group)) variants_.take_snapshot(*this, set, way_groups, groups_per_set_);
  return way_groups;
}

// `users`: some, but not all, of the variants that share one copy.
void CopyOnWriteSets::clone_set(Mask users, std::uint32_t set, const WayGroup* source) {
  if (!slots_)
    slots_ = make_lazy_zero_array<std::uint32_t>(static_cast<std::size_t>(sets_) *
                                                 static_cast<std::size_t>(variants_.count()));
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(set_of_slot_.size()));
    set_of_slot_.push_back(0);
    users_.push_back(0);
  }
  const auto number = free_.back();
  free_.pop_back();
  set_of_slot_[number] = set;
  for (unsigned left = users & owners_[set]; left != 0; left &= left - 1)
    users_[slot(std::countr_zero(left), set)] &= static_cast<Mask>(~users);
  assign_slot(users, set, number);
  owners_[set] |= users;
  ++variants_.num_clones_;
  copy_set(source, groups_per_set_, common(sets_ + number));
  variants_.merge_later(*this, set);
}

void CopyOnWriteSets::free_clone(std::uint32_t number) {
  WayGroup* const way_groups = common(sets_ + number);
  for (auto* way_group = way_groups; way_group < way_groups + groups_per_set_; ++way_group)
    std::fill_n(way_group->tag, ways_per_group, no_tag);
  free_.push_back(number);
  users_[number] = 0;
  --variants_.num_clones_;
}

void CopyOnWriteSets::merge_equal_sets(std::uint32_t set) {
  for (Mask left = owners_[set]; left != 0;) {
    const int variant = std::countr_zero(left);
    const auto number = slot(variant, set);
    const Mask users = users_with(variant, set);
    left &= static_cast<Mask>(~users);
    if (is_equal(common(sets_ + number), common(set))) {
      owners_[set] &= static_cast<Mask>(~users);
      free_clone(number);
      continue;
    }
    for (unsigned others = left; others != 0; others &= others - 1) {
      const auto other = slot(std::countr_zero(others), set);
      if (!is_equal(common(sets_ + number), common(sets_ + other))) continue;
      assign_slot(users, set, other);
      free_clone(number);
      break;
    }
  }
}

bool CopyOnWriteSets::is_equal(const WayGroup* a, const WayGroup* b) const {
  if (compare_ == Compare::bytes) return std::memcmp(a, b, sizeof(WayGroup) * groups_per_set_) == 0;
  if (sum_of_tags(*a) != sum_of_tags(*b)) return false;  // differs for most sets with other lines
  if (std::memcmp(a, b, sizeof(WayGroup)) == 0) return true;
  int lines = 0;
  for (unsigned way = 0; way < ways_per_group; ++way) {
    if (a->tag[way] == no_tag) continue;
    const auto found = ways_with_tag(*b, a->tag[way]);
    if (found == 0) return false;
    const auto way_in_b = static_cast<unsigned>(std::countr_zero(found));
    if (a->age[way] != b->age[way_in_b] || a->flags[way] != b->flags[way_in_b] ||
        a->sharers[way] != b->sharers[way_in_b])
      return false;
    ++lines;
  }
  return lines + std::popcount(ways_with_tag(*b, no_tag)) == ways_per_group;
}

void CopyOnWriteSets::clear(WayGroup* way_groups) {
  variants_.num_clones_ -= set_of_slot_.size() - free_.size();
  std::fill(owners_.begin(), owners_.end(), Mask{0});
  set_of_slot_.clear();
  users_.clear();
  free_.clear();
  way_groups_ = way_groups;
}

}  // namespace nearfield::sim
