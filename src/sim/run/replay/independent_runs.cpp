#include "sim/run/replay/independent_runs.hpp"

#include <algorithm>

namespace nearfield::sim::replay {
namespace {

struct ConfigRange {
  int variant, speed, end_speed;  // the configurations that a run computes: speeds from `speed` to before `end_speed`
};

void copy_configs(ConfigClock& merged, const ConfigClock& single, const ConfigRange& range) {
  for (int speed = range.speed; speed < range.end_speed; ++speed) merged[range.variant][speed] = single[0][0];
}

void copy_configs(VariantOutcome& merged, const VariantOutcome& single, const ConfigRange& range) {
  for (auto speed = static_cast<std::size_t>(range.speed); speed < static_cast<std::size_t>(range.end_speed); ++speed) {
    merged.memory_counts_by_speed[speed] = single.memory_counts_by_speed[0];
    merged.nic.empty_polls[speed] = single.nic.empty_polls[0];
  }
}

// All runs replay the same events, so their call lists match one to one.
void copy_configs(RankReplayResult& merged, const RankReplayResult& single, const ConfigRange& range) {
  copy_configs(merged.computing.time, single.computing.time, range);
  for (std::size_t i = 0; i < merged.calls.size(); ++i)
    copy_configs(merged.calls[i].spent.time, single.calls[i].spent.time, range);
  merged.timing_sensitivity.races.outcomes =
      std::max(merged.timing_sensitivity.races.outcomes, single.timing_sensitivity.races.outcomes);
  for (int speed = range.speed; speed < range.end_speed; ++speed)
    merged.timing_sensitivity.races
        .num_divergent_outcomes[static_cast<std::size_t>(range.variant)][static_cast<std::size_t>(speed)] =
        single.timing_sensitivity.races.num_divergent_outcomes[0][0];
}

void clear_for_variants(ReplayResult& merged, int variants) {
  const ConfigClock zero(variants);
  for (auto& rank : merged.cluster.ranks) rank.finish_time = zero;
  for (auto& rank : merged.ranks) {
    rank.computing.time = zero;
    for (auto& call : rank.calls) call.spent.time = zero;
    rank.timing_sensitivity.races.num_divergent_outcomes = {};
  }
  merged.cluster.variants.clear();
}

}  // namespace

ReplayResult run_independently(const std::vector<std::string>& policies, const std::vector<double>& memory_slowdown,
                               const RunConfiguration& run_configuration) {
  ReplayResult merged;
  const int last_speed = static_cast<int>(memory_slowdown.size()) - 1;
  for (int variant = 0; variant < static_cast<int>(policies.size()); ++variant)
    for (int speed = 0; speed <= last_speed; ++speed) {
      const ReplayResult single = run_configuration(policies[static_cast<std::size_t>(variant)],
                                                    memory_slowdown[static_cast<std::size_t>(speed)]);
      if (variant == 0 && speed == 0) {
        merged = single;
        clear_for_variants(merged, static_cast<int>(policies.size()));
      }
      const ConfigRange range{variant, speed, speed == last_speed ? num_memory_speeds : speed + 1};
      if (speed == 0) merged.cluster.variants.push_back(single.cluster.variants[0]);
      copy_configs(merged.cluster.variants.back(), single.cluster.variants[0], range);
      for (std::size_t rank = 0; rank < merged.ranks.size(); ++rank) {
        copy_configs(merged.cluster.ranks[rank].finish_time, single.cluster.ranks[rank].finish_time, range);
        copy_configs(merged.ranks[rank], single.ranks[rank], range);
      }
    }
  return merged;
}

}  // namespace nearfield::sim::replay
