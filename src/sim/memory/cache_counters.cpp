#include "sim/memory/cache_counters.hpp"

#include <cstring>

namespace nearfield::sim {

CacheCounters::CacheCounters(int variants, int levels) : num_levels_(levels), blocks_(std::size_t{1} << variants) {
  const auto all_variants = static_cast<VariantMask>((1U << variants) - 1);
  acting_ = common_ = &of_group(all_variants);
  predicted_group_.fill(all_variants);
}

CounterBlock CacheCounters::sum_of_variant(int variant) const {
  CounterBlock sum;
  const auto numbers = sum.all_counts(num_levels_);
  for (std::size_t group = 0; group < blocks_.size(); ++group) {
    if (!(group >> variant & 1) || !blocks_[group]) continue;
    const auto added = blocks_[group]->all_counts(num_levels_);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += added[i];
  }
  return sum;
}

Counts CacheCounters::counts(int variant) const {
  const auto counters = sum_of_variant(variant);
  Counts all;
  all.levels.assign(counters.levels.begin(), counters.levels.begin() + num_levels_);
  for (std::size_t level = 0; level < all.levels.size(); ++level)
    all.levels[level].snoops += counters.tag_lookups[level];
  all.dram = counters.dram;
  all.transfers = counters.transfers;
  return all;
}

void CacheCounters::reset() {
  for (auto& block : blocks_)
    if (block) *block = {};
}

void CacheCounters::begin_group_run(int leader, VariantMask members) {
  counted_group_ = predicted_group_[static_cast<std::size_t>(leader)] & members;
  acting_ = &of_group(counted_group_);
  if (!has_one_member(members)) std::memcpy(&before_run_, acting_, acting_->all_counts(num_levels_).size_bytes());
}

// If the run ends with another group than the predicted one, moves the counts of the run to that group's own counters.
void CacheCounters::end_group_run(int leader, VariantMask members) {
  if (members == counted_group_) return;
  const auto now = acting_->all_counts(num_levels_), before = before_run_.all_counts(num_levels_),
             actual = of_group(members).all_counts(num_levels_);
  for (std::size_t i = 0; i < now.size(); ++i) actual[i] += std::exchange(now[i], before[i]) - before[i];
  predicted_group_[static_cast<std::size_t>(leader)] = members;
}

}  // namespace nearfield::sim
