// The counters of a node's caches and of the DRAM traffic that these cause, under several variants (variants.hpp).
//
// Counts are stored per group of variants: each group that ever existed has a counter block, and the counts of a
// variant are the sum over the groups to which it belonged. A run of an action counts into the block of the last group
// that its leader led, which is usually right; if the run ends with another group, the counts of the run are moved to
// the block of that group.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/config_clock.hpp"
#include "sim/memory/counts.hpp"

namespace nearfield::sim {

// By cache level, the number of tag lookups that a snoop makes for a granule that no cache holds.
using TagLookups = std::array<Count, max_cache_levels>;

// The counters of all caches of a node, laid out as one array of numbers, since actions often add or copy all of them.
struct CounterBlock {
  DramCounts dram;
  Count transfers = 0;
  TagLookups tag_lookups{};  // lookups that a directory saves; counted as if they had been made
  std::array<LevelCounts, max_cache_levels> levels{};

  // Returns all counters of a node with `used_levels` cache levels, as one array.
  std::span<Count> all_counts(int used_levels) {
    return {&dram.reads, (sizeof(CounterBlock) - sizeof(levels)) / sizeof(Count) +
                             static_cast<std::size_t>(used_levels) * sizeof(LevelCounts) / sizeof(Count)};
  }
};

using VariantMask = std::uint8_t;  // one bit per variant
static_assert(max_variants <= 8);
constexpr bool has_one_member(VariantMask group) { return (group & (group - 1)) == 0; }

class CacheCounters {
 public:
  CacheCounters(int variants, int levels);
  CacheCounters(const CacheCounters&) = delete;
  CacheCounters& operator=(const CacheCounters&) = delete;

  // ---- counters of the acting group of variants
  LevelCounts& at_level(int level) { return acting_->levels[static_cast<std::size_t>(level)]; }
  DramCounts& dram() { return acting_->dram; }
  void count_transfers(Count lines) { acting_->transfers += lines; }
  void count_tag_lookups(const TagLookups& added, const TagLookups& subtracted) {
    auto& tag_lookups = acting_->tag_lookups;
    for (std::size_t level = 0; level < tag_lookups.size(); ++level)
      tag_lookups[level] += added[level] - subtracted[level];
  }
  // Counts lines that caches write to memory.
  void count_memory_writes(Count lines = 1) {
    dram().writes += lines;
    num_new_writes_ += static_cast<unsigned>(lines);
  }
  // Returns how many lines were written to memory since the last call.
  unsigned take_write_count() { return std::exchange(num_new_writes_, 0U); }

  // ---- counters of any group or variant
  // Returns the counters of a group, which count for each variant in the group.
  CounterBlock& of_group(VariantMask group) {
    auto& block = blocks_[group];
    if (!block) [[unlikely]]
      block = std::make_unique<CounterBlock>();
    return *block;
  }
  // Returns the counters of the group of all variants.
  CounterBlock& common() { return *common_; }
  const CounterBlock& common() const { return *common_; }
  CounterBlock sum_of_variant(int variant) const;
  Counts counts(int variant) const;  // without TLBs and page faults
  void reset();

  // ---- for Variants. Between actions, the acting group is all variants.
  void begin_group_run(int leader, VariantMask members);
  void end_group_run(int leader, VariantMask members);
  void end_action() { acting_ = common_; }

 private:
  int num_levels_;
  unsigned num_new_writes_ = 0;
  CounterBlock* acting_;
  CounterBlock* common_;
  std::vector<std::unique_ptr<CounterBlock>> blocks_;        // one for each group that ever existed
  std::array<VariantMask, max_variants> predicted_group_{};  // the last group that each variant led
  VariantMask counted_group_ = 0;                            // the group that the current run counts for
  CounterBlock before_run_;                                  // the counters of that group before the run
};

}  // namespace nearfield::sim
